"""Schedules on a CUDA device: the same kernel with blocks and threads as loops, and as PTX.

On the processor a phase runs for all threads of a block before the next begins, forwards or
backwards: a result that depended on the order of threads between two barriers would differ.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from minitorch.compile import DeviceSchedule, Function, conv2d, matmul, space, tune
from minitorch.compile.engine import assembly
from minitorch.compile.gpu import cuda_driver
from minitorch.compile.gpu.ptx import NUMBERS, POINTERS, TRIPLE, ThreadBlocks
from minitorch.compile.tasks import task_of
from minitorch.errors import ArgumentError, CompileError, DTypeError, ShapeError


class Loops(ThreadBlocks):
    """Thread blocks one by one, and each phase as a loop over threads."""

    backwards = False

    @contextmanager
    def block(self) -> Iterator[str]:
        t = self.t
        for i, name in enumerate((*POINTERS, *NUMBERS)):
            kind = "ptr" if name in POINTERS else "i64"
            place = t.emit(f"load ptr, ptr {t.at('%arguments', 8 * i)}")
            t.do(f"%{name} = load {kind}, ptr {place}")
        t.do(f"%shared = alloca [{max(1, self.shared)} x i8], align 64")
        t.do(f"%all = alloca [{self.register_bytes * self.threads} x i8], align 64")
        with t.loop("block", "%hi", start="%lo") as block:
            yield block

    @contextmanager
    def phase(self, barrier: bool) -> Iterator[tuple[str, str]]:
        t = self.t
        with t.loop("thread", self.threads) as i:
            thread = t.minus(self.threads - 1, i) if self.backwards else i
            yield thread, t.at("%all", t.times(thread, self.register_bytes))

    def module(self) -> str:
        how = "" if os.environ.get("WIDE") else " noinline optnone"  # LLVM takes long over loops
        return self.t.module(f"define void @kernel(i64 %lo, i64 %hi, ptr %arguments){how}")


class Backwards(Loops):
    """The last thread first."""

    backwards = True


class OnProcessor:
    """A driver whose device is the processor; keeps (blocks, threads) of each launch."""

    kind = "cpu"

    def __init__(self, blocks: type[ThreadBlocks]) -> None:
        self.blocks = blocks
        self.launches: list[tuple[int, int]] = []

    def load(self, text: str, device: int) -> Function:
        return Function(text)

    def launch(
        self, function: Any, device: int, shape: tuple[int, int], arguments: Any, stream: int
    ) -> None:
        self.launches.append(shape)
        function.call(0, shape[0], ctypes.addressof(arguments))


@pytest.fixture(params=[Loops, Backwards])
def driver(request: pytest.FixtureRequest) -> Iterator[OnProcessor]:
    with cuda_driver.use(OnProcessor(request.param)) as found:
        yield found  # type: ignore[misc]


FAST = {
    "rows": 4, "vectors": 2, "lanes": 4, "unroll": 4, "tile_m": 16, "tile_n": 32, "tile_k": 8,
    "pack_a": True, "pack_b": True,
}  # fmt: skip
EPILOGUES = (None, "bias", "relu", "bias_relu")
CLOSE = {"float32": 1e-5, "float64": 1e-13}
POINTS: tuple[dict[str, Any] | None, ...] = (
    None,
    FAST,
    FAST | {"order": "nmk", "unroll": 3, "tile_k": 7, "lanes": 2},
    FAST | {"rows": 3, "tile_k": 5},
    FAST | {"tile_k": None, "unroll": 1},
)


def fitted(task: tuple[Any, ...], point: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the point with what does not fit a small task made smaller."""
    if point is None:
        return None
    m, n, k = task_of(task).axes
    deep = min(k, point["tile_k"] or k)
    vectors = min(point["vectors"], -(-n // point["lanes"]))
    rows, unroll = min(point["rows"], m), min(point["unroll"], deep)
    return point | {"rows": rows, "vectors": vectors, "unroll": unroll}


def guarded(shape: tuple[int, ...], dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor between two regions of sevens, and all three."""
    size = int(np.prod(shape))
    around = torch.full((size + 64,), 7.0, dtype=getattr(torch, dtype))
    return around[32:-32].view(shape), around


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (17, 37, 23), (32, 64, 16), (1, 19, 3), (31, 7, 1)])
def test_a_product_of_thread_blocks_is_torchs_and_writes_nothing_outside(
    shape: tuple[int, int, int], dtype: str, driver: OnProcessor
) -> None:
    (m, n, k), kind = shape, getattr(torch, dtype)
    generator = torch.Generator().manual_seed(sum(shape))

    def drawn(*size: int) -> torch.Tensor:
        return torch.randn(size, generator=generator, dtype=kind)

    for i, given in enumerate(POINTS):
        point, epilogue = fitted(("matmul", m, n, k), given), EPILOGUES[i % 4]
        kernel = matmul(m, n, k, dtype, point, epilogue, device="cuda")
        a = (drawn(m, 2 * k)[:, ::2], drawn(k, m).t())[i % 2]
        b = (drawn(k, n), drawn(n, k).t())[i // 2 % 2]
        bias = [drawn(2 * n)[::2]] if "bias" in (epilogue or "") else []
        out, around = guarded((m, n), dtype)
        assert kernel(a, b, *bias, out=out) is out
        right = a @ b + (bias[0] if bias else 0)
        right = right.relu() if "relu" in (epilogue or "") else right
        torch.testing.assert_close(out, right, rtol=CLOSE[dtype], atol=30 * CLOSE[dtype])
        assert (around[:32] == 7).all() and (around[-32:] == 7).all()


def test_nothing_outside_an_operand_reaches_the_result(driver: OnProcessor) -> None:
    wide = torch.full((20, 30), torch.nan)
    wide[:17, :19] = torch.randn(17, 19)
    b = torch.full((25, 11), torch.inf)
    b[:19, :9] = torch.randn(19, 9)
    for point in POINTS[1:]:
        kernel = matmul(17, 9, 19, schedule=fitted(("matmul", 17, 9, 19), point), device="cuda")
        right = wide[:17, :19] @ b[:19, :9]
        torch.testing.assert_close(kernel(wide[:17, :19], b[:19, :9]), right, rtol=1e-5, atol=1e-5)


def test_a_batch_is_one_launch(driver: OnProcessor) -> None:
    a, b = torch.randn(5, 1, 20, 12), torch.randn(3, 12, 33)
    got = matmul(20, 33, 12, schedule=FAST, device="cuda")(a, b)
    torch.testing.assert_close(got, a @ b)
    assert driver.launches == [(15 * 2 * 2, 4 * 4)]
    assert matmul(20, 33, 12, device="cuda")(a[:0], b).shape == (0, 3, 20, 33)
    assert len(driver.launches) == 1


@pytest.mark.parametrize("stride, padding", [(1, 0), (1, 1), (2, 1), (3, 2)])
def test_a_convolution_of_thread_blocks_is_torchs(
    stride: int, padding: int, driver: OnProcessor
) -> None:
    for size in ((2, 3, 9, 11, 5, 3, 3), (1, 1, 4, 8, 3, 1, 2), (9, 2, 6, 5, 3, 3, 2)):
        n, c, h, w, o, kh, kw = size
        x, weight, bias = torch.randn(n, h, w, c), torch.randn(o, c, kh, kw), torch.randn(o)
        right = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), weight, bias, stride, padding)
        for given in (POINTS[1], POINTS[3], POINTS[4])[padding % 2 :][:2]:
            point = fitted(("conv2d", *size, stride, padding), given)
            kernel = conv2d(*size, stride, padding, "float32", point, "bias_relu", device="cuda")
            out, around = guarded(tuple(right.shape), "float32")
            kernel(x.permute(0, 3, 1, 2), weight, bias, out=out)
            torch.testing.assert_close(out, right.relu(), rtol=1e-4, atol=1e-5)
            assert (around[:32] == 7).all() and (around[-32:] == 7).all()


# ── As PTX ──────────────────────────────────────────────────────────────────────────────────────


def ptx_of(task: tuple[Any, ...], point: dict[str, Any], epilogue: str | None = None) -> str:
    blocks = ThreadBlocks(DeviceSchedule(task, point), epilogue)
    return assembly(blocks.text(), TRIPLE, "sm_80")


def test_the_ptx_stages_tiles_in_shared_memory_between_barriers() -> None:
    big = FAST | {"rows": 8, "unroll": 8, "tile_m": 128, "tile_n": 128}
    text = ptx_of(("matmul", 1024, 1024, 1024), big, "bias_relu")
    assert ".maxntid 256" in text
    (size,) = re.findall(r"\.shared \.align 16 \.b8 shared\[(\d+)\]", text)
    assert int(size) == 2 * 8 * (128 + 4) * 4
    assert len(re.findall(r"bar\.sync", text)) == 2  # after the copies, and before the next
    assert len(re.findall(r"fma\.rn\.f32", text)) == 8 * 8 * 8  # all of a round
    assert len(re.findall(r"ld\.shared\.v4", text)) == 8 * (2 + 2)  # four numbers at once
    assert len(re.findall(r"st\.global", text)) == 8 * 8
    assert not re.search(r"\b(ld|st)\.(f|b|u|local)", text)  # no address left open, none in memory


@pytest.mark.parametrize("task", [("matmul", 17, 37, 23), ("conv2d", 2, 3, 9, 11, 5, 3, 3, 2, 1)])
def test_ragged_schedules_compile_to_ptx_and_barriers_stand_where_all_threads_meet(
    task: tuple[Any, ...],
) -> None:
    for given in POINTS:
        point = fitted(task, given) or {}
        text = ptx_of((*task, "float64"), point, "bias")
        assert len(re.findall(r"bar\.sync", text)) in (2, 4)  # of two rounds, one after another
        assert "fma.rn.f64" in text
        assert not re.search(r"\b(ld|st)\.(f|b|u)", text)


# ── What is refused ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "point, words",
    [
        ({"tile_m": 64, "tile_n": 64}, "4,096 threads a block, above 1,024"),
        (FAST | {"tile_k": 512}, "tile_k is 512: 114,688 bytes of shared memory, above 49,152"),
        ({"order": "kmn"}, "order is 'kmn': a thread block goes through all of k"),
        ({"parallel": 2}, "parallel is 2"),
        ({"pack_a": False}, "pack_a is False, but a device copies all tiles"),
        ({"rows": "x"}, "rows is 'x'"),
        ({"colour": 1}, "no knob 'colour'"),
    ],
)
def test_an_illegal_schedule_of_a_device_says_which_knob_and_why(
    point: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=re.escape(words)):
        DeviceSchedule(("matmul", 512, 512, 512), point)
    assert not space(("matmul", 512, 512, 512), "cuda").legal(point)


def test_a_schedule_of_a_device_prints_its_blocks() -> None:
    text = str(DeviceSchedule(("matmul", 512, 512, 512), FAST | {"rows": 16}))
    assert "for m0 in range(0, 512, 16):   # thread blocks" in text
    assert text.count("barrier") == 2 and "copy A: 640 bytes to shared memory" in text


def test_a_search_on_a_device_measures_with_what_it_is_given(tmp_path: Path) -> None:
    task = ("matmul", 256, 256, 256)
    blocks = space(task, "cuda")
    with pytest.raises(CompileError, match="Give `measure=`"):
        tune(task, 4, space=blocks)
    log = tmp_path / "log"
    for trials in (10, 20):
        found = tune(task, trials, measure=lambda p: 1.0 / p["tile_m"], space=blocks, log=log)
    assert isinstance(found.best, DeviceSchedule) and found.best["tile_m"] == 128
    assert len(log.read_text().splitlines()) == 20 and not found.skipped
    here = tune(task, 1, measure=lambda p: 1.0, log=log)
    assert len(here.skipped) == 20 and "measured on cuda, and this is" in here.skipped[0]


def test_without_a_device_its_kernels_are_refused_in_one_line() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(CompileError, match=r"^matmul: no CUDA device here.*computes\.$"):
            matmul(4, 4, 4, device="cuda")
    with pytest.raises(ArgumentError, match="got device 'tpu'"):
        matmul(4, 4, 4, device="tpu")


def test_tensors_that_do_not_fit_are_refused(driver: OnProcessor) -> None:
    kernel, a = matmul(4, 4, 4, epilogue="bias", device="cuda"), torch.zeros(4, 4)
    refused: list[tuple[Any, type[Exception], str]] = [
        ((a, a), ArgumentError, "the bias"),
        ((a, a.numpy(), a[0]), ArgumentError, "got ndarray"),
        ((a, a.to("meta"), a[0]), ArgumentError, "got Tensor on meta"),
        ((a, a.double(), a[0]), DTypeError, "float64"),
        ((a, a[:3], a[0]), ShapeError, "second array"),
        ((a, a, a[0], a.new_empty(8, 4)[::2]), ShapeError, "out does not fit"),
    ]
    for given, error, words in refused:
        with pytest.raises(error, match=words):
            kernel(*given)
    assert driver.launches == []


# ── On a device ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu(itself=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gpu_computes_products_and_convolutions_of_thread_blocks(dtype: str) -> None:
    kind = getattr(torch, dtype)
    big = FAST | {"rows": 8, "unroll": 8, "tile_m": 64, "tile_n": 64}
    close = 10 * CLOSE[dtype]
    a, b = (torch.randn(s, dtype=kind, device="cuda") for s in ((3, 509, 127), (127, 333)))
    bias = torch.randn(333, dtype=kind, device="cuda")
    for point in (None, big, FAST, FAST | {"order": "nmk"}):
        kernel = matmul(509, 333, 127, dtype, point, "bias_relu", device="cuda")
        right = (a.double() @ b.double() + bias).relu().to(kind)
        torch.testing.assert_close(kernel(a, b, bias), right, rtol=close, atol=30 * close)
    x, w = (torch.randn(s, dtype=kind, device="cuda") for s in ((4, 16, 30, 31), (24, 16, 3, 3)))
    conv = conv2d(4, 16, 30, 31, 24, 3, 3, 2, 1, dtype, FAST, device="cuda")
    right = torch.nn.functional.conv2d(x.double(), w.double(), None, 2, 1).to(kind)
    torch.testing.assert_close(conv(x, w), right, rtol=close, atol=30 * close)
