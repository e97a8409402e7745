"""What NVIDIA's assembler says of the kernels, and arithmetic on its figures; no device is needed.

Its package exists for Linux on x86-64, where set-up installs it for the tests.
"""

import os
import platform
import re
import sys
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from minitorch.compile import ROWS, CostModel, DeviceSchedule, Program, Step, explain, space, takes
from minitorch.compile.engine import assembly
from minitorch.compile.gpu import assembler, devices
from minitorch.compile.gpu.ptx import TRIPLE, ThreadBlocks, module
from minitorch.compile.spaces import Space
from minitorch.errors import ArgumentError, CompileError

HAS_WHEEL = sys.platform == "linux" and platform.machine() == "x86_64"
needs_assembler = pytest.mark.skipif(not HAS_WHEEL, reason="NVIDIA's package is for Linux x86-64")
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100")
OLDEST = ARCHITECTURES[0]
IN_FULL = (OLDEST, "sm_90")  # the others assemble a third of the schedules each; all with WIDE=1
EPILOGUES = (None, "bias", "relu", "bias_relu")
LIBRARY = {"pow", "sin", "cos"}


def operands(row: str) -> int:
    """Return how many operands a row takes: the number at which it is accepted."""
    for count in (1, 2, 3):
        kinds = tuple(takes(row, i) for i in range(count))
        try:
            module(Program("float32", kinds, (Step(row, tuple(range(count))),)), "c" * count)
        except ArgumentError:
            continue
        return count
    raise AssertionError(row)


def program(row: str, dtype: str) -> Program:
    count = operands(row)
    kinds = tuple(takes(row, i) for i in range(count))
    return Program(dtype, kinds, (Step(row, tuple(range(count))),))


def joined(kernels: dict[str, str]) -> str:
    """Return one module of PTX with all kernels under their names: one run assembles them."""
    parts: list[str] = []
    for name, text in kernels.items():
        head, _, body = text.partition(".address_size 64\n")
        own = re.sub(r"(?<=[^\w.])(kernel|shared)(?=\W)", rf"{name}_\1", body)
        parts.append(own if parts else f"{head}.address_size 64\n{own}")
    return "\n".join(parts)


@pytest.fixture(scope="module")
def rows_as_ptx() -> str:
    every = product(sorted({*ROWS} - LIBRARY), ("float32", "float64"))
    programs = {f"{row}_{dtype}": program(row, dtype) for row, dtype in every}
    return joined(
        {
            name: assembly(module(p, "c" * len(p.inputs)), TRIPLE, OLDEST)
            for name, p in programs.items()
        }
    )


@needs_assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_row_of_every_dtype_assembles_without_a_spill(
    rows_as_ptx: str, architecture: str
) -> None:
    assembled = assembler.assemble(rows_as_ptx, architecture)
    assert len(assembled) == 2 * len({*ROWS} - LIBRARY)
    assert {name: a for name, a in assembled.items() if a.spilled_bytes or a.shared_bytes} == {}


TASKS: tuple[tuple[Any, ...], ...] = (
    ("matmul", 512, 512, 512),
    ("matmul", 512, 512, 512, "float64"),
    ("matmul", 509, 127, 33),
    ("conv2d", 8, 16, 14, 14, 32, 3, 3, 1, 1),
    ("conv2d", 2, 3, 9, 11, 5, 3, 3, 2, 1),
)
SAMPLE = 6  # of the space of each task


@pytest.fixture(scope="module")
def schedules() -> dict[str, tuple[DeviceSchedule, str]]:
    """A sample of every task's space, each with another epilogue, and their PTX."""
    random, found = Random(0), {}
    for number, task in enumerate(TASKS):
        for k, point in enumerate(random.sample(space(task, "cuda").points(), SAMPLE)):
            schedule = DeviceSchedule(task, point)
            text = ThreadBlocks(schedule, EPILOGUES[(number + k) % 4]).text()
            found[f"k{number}_{k}"] = schedule, assembly(text, TRIPLE, OLDEST)
    return found


@needs_assembler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_sample_of_every_space_assembles_within_what_its_schedule_says(
    schedules: dict[str, tuple[DeviceSchedule, str]], architecture: str
) -> None:
    step = 1 if architecture in IN_FULL or os.environ.get("WIDE") else 3
    some = list(schedules.items())[ARCHITECTURES.index(architecture) % step :: step]
    text = joined({name: ptx for name, (_, ptx) in some})
    assembled = assembler.assemble(text, architecture)
    for name, (schedule, _) in some:
        a = assembled[f"{name}_kernel"]
        assert a.shared_bytes - schedule.shared_bytes in (0, 1024), name  # sm_90 reserves some
        assert a.spilled_bytes == 0, (name, dict(schedule), a)
        down, along = schedule.threads
        assert a.registers * down * along <= devices.REGISTERS, name


TOO_LARGE = (
    {"rows": 16, "vectors": 4, "lanes": 4, "unroll": 4, "tile_m": 256, "tile_n": 64, "tile_k": 8},
    {"rows": 32, "vectors": 2, "lanes": 4, "unroll": 4, "tile_m": 128, "tile_n": 128, "tile_k": 8},
    {"rows": 4, "vectors": 4, "lanes": 4, "tile_m": 128, "tile_n": 512, "tile_k": 8},
)


class Unlimited(DeviceSchedule):
    """A schedule that no rule about registers refuses."""

    @staticmethod
    def fault(task: Any, knobs: Any) -> str | None:
        why = DeviceSchedule.fault(task, knobs)
        return None if why and "registers a thread" in why else why


@needs_assembler
@pytest.mark.parametrize("point", TOO_LARGE)
def test_what_is_refused_for_its_registers_does_spill(point: dict[str, Any]) -> None:
    task = ("matmul", 512, 512, 512)
    with pytest.raises(ArgumentError, match=r"registers a thread, above the \d+ that each of"):
        DeviceSchedule(task, point)
    text = assembly(ThreadBlocks(Unlimited(task, point)).text(), TRIPLE, OLDEST)
    assert assembler.assemble(text, "sm_90")["kernel"].spilled_bytes > 100


# what the programs of NVIDIA print, and what is made of it

REPORT = """
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'kernel' for 'sm_90'
ptxas info    : Function properties for kernel
    488 bytes stack frame, 1576 bytes spill stores, 1448 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8448 bytes smem
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers
"""


def test_a_report_of_the_assembler_is_read_kernel_by_kernel() -> None:
    assert assembler.read_report(REPORT) == {
        "kernel": assembler.Assembled(255, 8448, 488, 1576),
        "other": assembler.Assembled(12, 0, 0, 0),
    }


LISTING = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E R18, desc[UR4][R2.64] ;
        /*0020*/                   HFMA2.MMA R36, -RZ, RZ, 0, 0 ;
        /*0030*/                   LDS.128 R4, [R20] ;
        /*0040*/                   FFMA R8, R4, R5, R8 ;
        /*0050*/                   FFMA R9, R4, R6, R9 ;
        /*0060*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0070*/              @UP1 STG.E [R2.64], R8 ;
        /*0080*/                   EXIT ;
        /*0090*/                   NOP;
"""


def test_instructions_are_counted_by_kind() -> None:
    count = assembler.count_instructions(LISTING)
    assert (count["fma"], count["shared loads"], count["global loads"]) == (2, 1, 1)
    assert (count["barriers"], count["global stores"], count["all"]) == (1, 1, 9)


@needs_assembler
def test_a_kernel_has_the_instructions_that_its_schedule_asks_for() -> None:
    point = {"rows": 8, "vectors": 2, "lanes": 4, "unroll": 8, "tile_m": 64, "tile_n": 128}
    schedule = DeviceSchedule(("matmul", 1024, 1024, 1024), point | {"tile_k": 8})
    for device in ("A100", "H100"):
        count = explain(schedule, device).instructions
        assert 8 * 8 * 8 <= count["fma"] <= 8 * 8 * 8 + 16  # a round's, and some of its addresses
        assert count["shared loads"] == 8 * (2 + 2)  # four numbers at once
        assert count["barriers"] == 2 and count["local memory"] == 0


@needs_assembler
def test_the_assembler_refuses_what_is_no_code() -> None:
    with pytest.raises(CompileError, match=r"ptxas: sm_90: .*syntax error"):
        assembler.assemble(".version 7.0\n.target sm_75\n.address_size 64\nnonsense", "sm_90")


def test_a_program_that_is_missing_is_named_with_its_package(tmp_path: Path) -> None:
    with pytest.raises(
        CompileError, match=r"nvdisasm: not found.*pip install nvidia-cuda-nvdisasm"
    ):
        assembler.locate("nvdisasm", "", tmp_path)
    place = tmp_path / "nvidia" / "cu13" / "bin" / "nvdisasm"
    place.parent.mkdir(parents=True)
    place.touch()
    assert assembler.locate("nvdisasm", "", tmp_path) == str(place)


# arithmetic of devices


@pytest.mark.parametrize(
    "threads, registers, shared_bytes, blocks, limit",
    [  # by NVIDIA's occupancy calculator for compute capability 8.0
        (256, 32, 0, 8, "threads"),
        (256, 64, 0, 4, "registers"),
        (128, 96, 0, 5, "registers"),
        (32, 16, 0, 32, "blocks"),
        (256, 32, 48 * 2**10, 3, "shared memory"),
        (1024, 65, 0, 0, "registers"),
    ],
)
def test_occupancy_is_what_nvidias_calculator_says(
    threads: int, registers: int, shared_bytes: int, blocks: int, limit: str
) -> None:
    got = devices.occupancy(devices.DEVICES["A100"], threads, registers, shared_bytes)
    assert (got.blocks, got.limit) == (blocks, limit)
    assert got.share == blocks * threads / 2048


def test_a_roofline_is_the_larger_of_two_times_and_knows_idle_multiprocessors() -> None:
    h100 = devices.device_named("NVIDIA H100 80GB HBM3")
    whole = devices.roofline(h100, 67e9, 3.35e6, 132, 0, "float32")
    assert whole.seconds == pytest.approx(1e-3) and whole.bound == "arithmetic"
    one_more = devices.roofline(h100, 67e9, 3.35e6, 133, 0, "float32")
    assert one_more.arithmetic_s == pytest.approx(1e-3 * 264 / 133)
    copy = devices.roofline(h100, 1.0, 3.35e9, 132, 0, "float64")
    assert copy.seconds == pytest.approx(1e-3) and copy.bound == "memory"
    with pytest.raises(ArgumentError, match="got 'Voodoo', expected one of A100, H100, H200"):
        devices.device_named("Voodoo")


def test_an_explanation_says_what_limits_a_schedule_and_that_it_is_predicted() -> None:
    point = {"rows": 8, "vectors": 2, "lanes": 4, "tile_m": 64, "tile_n": 128, "tile_k": 8}
    text = str(explain(DeviceSchedule(("matmul", 1024, 1024, 1024), point), "A100"))
    assert "A100 (sm_80), predicted" in text and "bytes a block of 128 threads" in text
    assert "limited by registers" in text and "bound by arithmetic" in text
    with pytest.raises(ArgumentError, match="got int, expected a DeviceSchedule"):
        explain(3)  # type: ignore[arg-type]


def test_features_of_a_device_tell_schedules_apart_that_a_processors_do_not() -> None:
    """A device whose seconds follow from occupancy alone is learnt from a few trials."""
    task = ("matmul", 512, 512, 512)
    points = Space(task, device="cuda").points()
    h100 = devices.DEVICES["H100"]

    def seconds(point: dict[str, Any]) -> float:
        s = DeviceSchedule(task, point)
        down, along = s.threads
        fits = devices.occupancy(h100, down * along, s.registers, s.shared_bytes)
        return 1e-3 / max(0.02, fits.share)

    order = np.random.default_rng(0).permutation(len(points))
    train, test = ([points[i] for i in part] for part in (order[:48], order[48:148]))
    wrong = {}
    for device in ("cpu", "cuda"):
        model = CostModel(task, "ridge", device).fit(train, [seconds(p) for p in train])
        away = np.log(model.predict(test)) - np.log([seconds(p) for p in test])
        wrong[device] = float((away**2).mean())
    assert wrong["cuda"] < 0.5 * wrong["cpu"]
