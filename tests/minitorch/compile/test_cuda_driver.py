"""Kernels for GPUs, launched: over a driver that runs their threads on the processor, one by one.

That driver gets what the real one gets, the code and a C array of pointers to the arguments, and
compiles the same instructions with the registers that tell a thread its number as variables.
"""

import ctypes
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.compile import Function, Program, Step
from minitorch.compile.gpu import cuda_driver
from minitorch.compile.gpu.cuda_driver import THREADS, LibCuda, pack_arguments, run_on_device
from minitorch.errors import CompileError
from minitorch.graph.core.variables import State
from minitorch.graph.executors.compiled import Step as StepOfGraph

REGISTERS = ("tid", "ntid", "ctaid")
LOOP = """
define void @run(i64 %lo, i64 %hi, ptr %arguments) {
entry:
  %any = icmp slt i64 %lo, %hi
  br i1 %any, label %thread, label %done
thread:
  %i = phi i64 [ %lo, %entry ], [ %next, %thread ]
  %wide.block = load i32, ptr @ntid
  %block = zext i32 %wide.block to i64
  %t = urem i64 %i, %block
  %c = udiv i64 %i, %block
  %t.short = trunc i64 %t to i32
  %c.short = trunc i64 %c to i32
  store i32 %t.short, ptr @tid
  store i32 %c.short, ptr @ctaid
LOADS
  call void @kernel(GIVEN)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %thread, label %done
done:
  ret void
}
"""


def for_the_processor(text: str, threads: int) -> str:
    """The module of a GPU kernel, its special registers as variables, and a loop over threads."""
    text = re.sub(r"target triple = .*|declare i32 @llvm\.nvvm.*", "", text)
    text = text.replace("ptx_kernel ", "").replace(" addrspace(1)", "")
    for name in REGISTERS:
        text = text.replace(
            f"call i32 @llvm.nvvm.read.ptx.sreg.{name}.x()", f"load i32, ptr @{name}"
        )
    found = re.search(r"define void @kernel\(([^)]*)\)", text)
    assert found is not None
    kinds = [argument.split()[0] for argument in found[1].split(", ")]
    loads = "\n".join(
        f"  %p{i} = getelementptr ptr, ptr %arguments, i64 {i}\n  %q{i} = load ptr, ptr %p{i}\n"
        f"  %a{i} = load {kind}, ptr %q{i}"
        for i, kind in enumerate(kinds)
    )
    given = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    state = "".join(f"@{n} = global i32 {threads if n == 'ntid' else 0}\n" for n in REGISTERS)
    return state + text + LOOP.replace("LOADS", loads).replace("GIVEN", given)


class OnProcessor:
    """A driver whose device is the processor; keeps (device, blocks, threads, stream)."""

    kind = "cpu"

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.launches: list[tuple[int, ...]] = []

    def load(self, text: str, device: int) -> Function:
        self.loaded.append(text)
        return Function(for_the_processor(text, THREADS), "run")

    def launch(
        self, function: Any, device: int, shape: tuple[int, int], arguments: Any, stream: int
    ) -> None:
        self.launches.append((device, *shape, stream))
        function.call(0, shape[0] * shape[1], ctypes.addressof(arguments))


@pytest.fixture
def driver() -> Iterator[OnProcessor]:
    with cuda_driver.use(OnProcessor()) as found:
        yield found  # type: ignore[misc]


CHAIN = (Step("mul", (0, 1)), Step("add", (-1, 2)), Step("relu", (-2,)), Step("tanh", (-3,)))


def chain(dtype: str) -> Program:
    return Program(dtype, ("float",) * 3, CHAIN)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1,), (THREADS,), (THREADS + 1,), (7, 123)])
def test_a_launch_computes_every_element_once(
    dtype: str, shape: tuple[int, ...], driver: OnProcessor
) -> None:
    x, w = (torch.randn(shape, dtype=getattr(torch, dtype)) for _ in range(2))
    b = torch.tensor(0.25, dtype=x.dtype)
    got = run_on_device(chain(dtype), [x, w, b])
    assert got is not None
    torch.testing.assert_close(got, torch.tanh(torch.relu(x * w + b)))
    assert driver.launches == [(0, -(-x.numel() // THREADS), THREADS, 0)]


def test_masks_go_in_and_out_as_bytes(driver: OnProcessor) -> None:
    c, x = torch.rand(300) > 0.5, torch.randn(300)
    kinds = ("bool", "float", "float")
    chosen = Program("float32", kinds, (Step("where", (0, 1, 2)), Step("gt", (-1, 2))))
    got = run_on_device(chosen, [c, x, torch.zeros(300)])
    assert got is not None
    assert got.dtype == torch.bool
    assert torch.equal(got, torch.where(c, x, torch.zeros(300)) > 0)


def test_a_program_is_loaded_once_for_each_layout(driver: OnProcessor) -> None:
    x, b = torch.randn(5), torch.tensor(1.0)
    for inputs in ([x, x, b], [x, x, b], [x, x, x]):
        run_on_device(chain("float32"), inputs)
    assert len(driver.loaded) == 2
    assert len(driver.launches) == 3


def test_what_does_not_fit_is_left_to_torch(driver: OnProcessor) -> None:
    x, task = torch.randn(4, 6), chain("float32")
    for inputs in (
        [x, x.double(), x],
        [x, x, x[0]],
        [x, x, x.t().contiguous().t()],
        [x, x],
        [x, x, np.ones((4, 6), np.float32)],
        [x, x, torch.empty((4, 6), device="meta")],
    ):
        assert run_on_device(task, inputs) is None
    for one in (Step("neg", (0,)), "sum"), (Step("sin", (0,)), ""), (Step("power", (0,), 1.7), ""):
        assert run_on_device(Program("float32", ("float",), one[:1], one[1]), [x]) is None
    assert driver.launches == []
    empty = run_on_device(task, [torch.empty(0, 3)] * 3)
    assert empty is not None
    assert empty.shape == (0, 3)
    assert driver.launches == []


def test_without_a_device_nothing_is_launched() -> None:
    if not torch.cuda.is_available():
        assert cuda_driver.current_driver() is None
    assert run_on_device(chain("float32"), [torch.randn(3)] * 3) is None


def test_a_step_over_torch_arrays_launches_what_is_fused(
    torch_arrays: None, driver: OnProcessor
) -> None:
    x, y = (tf.placeholder(tf.float32, (1000,)) for _ in range(2))
    z = tf.nn.relu(x * y + 0.5) * 2.0 + tf.tanh(y)
    a, b = torch.randn(1000), torch.randn(1000)
    (got,) = StepOfGraph(tf.optimize([z], {x, y}), [x, y])(State(), [a, b])
    torch.testing.assert_close(got, torch.relu(a * b + 0.5) * 2 + torch.tanh(b))
    assert driver.launches == [(0, 4, THREADS, 0)]


# ── NVIDIA's interface ──────────────────────────────────────────────────────────────────────────


class Library:
    """Stands for libcuda: every function succeeds unless `failing`; calls are kept."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append((name, *arguments))
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = {75: 9, 76: 0}[arguments[1]]
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"out of memory"
            return 2 if name == self.failing else 0

        return call


def test_the_driver_gets_ptx_and_the_shape_of_the_launch() -> None:
    library = Library()
    device = LibCuda(library)
    text = cuda_driver.module(chain("float32"), "ccb")
    function = device.load(text, 0)
    (code,) = [call[2] for call in library.calls if call[0] == "cuModuleLoadData"]
    assert b".target sm_80" in code  # of a device sm_90, which runs it
    assert code.endswith(b"\0")
    values, arguments = pack_arguments([1000, 11, 22, 33, 44])
    device.launch(function, 0, (4, THREADS), arguments, 77)
    name, launched, *shape, shared, stream, given, extra = library.calls[-1]
    assert (name, launched, shape) == ("cuLaunchKernel", function, [4, 1, 1, THREADS, 1, 1])
    assert (shared, stream.value, extra) == (0, 77, None)
    read = [ctypes.c_uint64.from_address(pointer).value for pointer in given]
    assert read == [1000, 11, 22, 33, 44] == [v.value for v in values]
    contexts = [call for call in library.calls if call[0] == "cuDevicePrimaryCtxRetain"]
    assert len(contexts) == 1  # torch's, asked for once


@pytest.mark.parametrize("failing", ["cuInit", "cuModuleLoadData", "cuLaunchKernel"])
def test_an_error_of_the_driver_says_which_call_and_why(failing: str) -> None:
    with pytest.raises(CompileError, match=rf"cuda: {failing} failed: got status 2 \(out of mem"):
        device = LibCuda(Library(failing))
        function = device.load(cuda_driver.module(chain("float32"), "ccb"), 0)
        device.launch(function, 0, (1, THREADS), pack_arguments([1, 0, 0, 0, 0])[1], 0)


@pytest.mark.gpu(itself=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gpu_computes_what_torch_computes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, w = (torch.randn(1_000_003, dtype=kind, device="cuda") for _ in range(2))
    b = torch.tensor(0.25, dtype=kind, device="cuda")
    got = run_on_device(chain(dtype), [x, w, b])
    assert got is not None
    torch.testing.assert_close(got, torch.tanh(torch.relu(x * w + b)))


@pytest.mark.gpu
def test_a_session_on_a_gpu_runs_fused_kernels_in_order_with_torchs(gpu: str) -> None:
    x, w = tf.placeholder(tf.float32, (512, 512)), tf.placeholder(tf.float32, (512, 512))
    z = tf.matmul(tf.nn.relu(x * w + 0.5), tf.sin(x) * w)
    a, b = (np.random.default_rng(i).normal(size=(512, 512)).astype(np.float32) for i in (0, 1))
    with tf.Session(optimize=True, device=gpu) as session:
        for _ in range(20):
            got = session.run(z, {x: a, w: b})
    want = np.maximum(a * b + 0.5, 0) @ (np.sin(a) * b)
    np.testing.assert_allclose(torch.as_tensor(got).cpu().numpy(), want, rtol=1e-3, atol=1e-2)
