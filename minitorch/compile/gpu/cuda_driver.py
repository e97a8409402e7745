"""Kernels on CUDA: loaded and launched through the driver, on torch's current stream.

`run_on_device(program, arrays)` computes a fused program, one thread an element, into memory of
torch's; a `DeviceProductKernel` a product or a convolution by thread blocks. What they ask of the
driver is a `Driver`; `LibCuda` is NVIDIA's `libcuda` by ctypes, and tests have one that runs the
same code on the processor.

May import: errors, engine, rows, tasks, schedule, ptx; torch, inside functions.
"""

import ctypes
import functools
import importlib
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from ...errors import ArgumentError, CompileError, DTypeError, ShapeError
from .. import rows
from ..engine import assembly, available
from ..rows import Program
from ..schedule import DeviceSchedule
from ..tasks import Task, result_shape
from .ptx import TRIPLE, ThreadBlocks, module

Shape = tuple[int, int]
THREADS = 256  # a block: eight warps, which every architecture can hold several times
NEWEST = 80  # "sm_80"; PTX is compiled further on newer devices, and llvmlite may not know those


class Driver(Protocol):
    """What launching a kernel takes.

    Attributes:
        kind: the type of torch device whose tensors it can reach.
        blocks: what writes thread blocks for it.
    """

    kind: str
    blocks: type[ThreadBlocks]

    def load(self, text: str, device: int) -> object:
        """Return the function `kernel` of an LLVM module for GPUs, ready on a device."""

    def launch(
        self, function: object, device: int, shape: Shape, arguments: object, stream: int
    ) -> None:
        """Start so many blocks of so many threads; `arguments` point to each argument."""


def run_on_device(program: Program, arrays: Sequence[Any]) -> Any | None:
    """Return the program's result for torch tensors on one device, as a tensor there.

    None where this way does not go: no driver, a reduction, tensors elsewhere, of other dtypes, or
    that neither lie in one run with the result's shape nor are single elements.

    Raises:
        CompileError: the driver refuses; says what it was asked and why it refused.
    """
    driver = current_driver()
    kinds = _kinds(program, arrays, driver.kind) if driver is not None else ""
    if driver is None or not kinds:
        return None
    torch = importlib.import_module("torch")
    like = arrays[kinds.index("c")]
    gives = "bool" if rows.gives(program.steps[-1].row) == "bool" else program.dtype
    out = torch.empty(like.shape, dtype=getattr(torch, gives), device=like.device)
    device = like.device.index or 0
    count = out.numel()
    if count:
        numbers = [count, *(a.data_ptr() for a in (*arrays, out))]
        function = _load_once(driver, program, kinds, device)
        _start(driver, function, device, (-(-count // THREADS), THREADS), numbers)
    return out


def _kinds(program: Program, arrays: Sequence[Any], kind: str) -> str:
    """Return for each array "c" or "b", or nothing where the arrays do not fit."""
    if program.reduction or len(arrays) != len(program.inputs) or not available():
        return ""
    if not all(map(rows.on_gpus, program.steps)):
        return ""
    if not all(getattr(getattr(a, "device", None), "type", "") == kind for a in arrays):
        return ""
    wanted = ["bool" if k == "bool" else program.dtype for k in program.inputs]
    if [str(a.dtype).removeprefix("torch.") for a in arrays] != wanted:
        return ""
    shape = max((a.shape for a in arrays), key=lambda s: (len(s), s.numel()))
    if len({a.device for a in arrays}) > 1 or not all(
        (a.shape == shape and a.is_contiguous()) or a.numel() == 1 for a in arrays
    ):
        return ""
    return "".join("c" if a.shape == shape else "b" for a in arrays)


def _start(
    driver: Driver, function: object, device: int, shape: Shape, numbers: Sequence[int]
) -> None:
    """Start a kernel on torch's current stream."""
    values, arguments = pack_arguments(numbers)
    torch, stream = importlib.import_module("torch"), 0
    if driver.kind != "cpu":
        stream = int(torch.get_device_module(driver.kind).current_stream(device).cuda_stream)
    driver.launch(function, device, shape, arguments, stream)
    del values  # the launch has copied them


def pack_arguments(numbers: Sequence[int]) -> tuple[Any, Any]:
    """Return the arguments of a kernel, which must be kept, and the array of pointers to them."""
    values = [ctypes.c_uint64(number) for number in numbers]
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    return values, pointers


_functions: dict[tuple[object, ...], object] = {}


def _load_once(driver: Driver, program: Program, kinds: str, device: int) -> object:
    key = (driver, program, kinds, device)
    if key not in _functions:
        _functions[key] = driver.load(module(program, kinds), device)
    return _functions[key]


# ── which driver ────────────────────────────────────────────────────────────────────────────────

_chosen: list[Driver] = []


@contextmanager
def use(driver: Driver) -> Iterator[Driver]:
    """Let another driver launch inside the `with` block."""
    _chosen.append(driver)
    try:
        yield driver
    finally:
        _chosen.remove(driver)


def current_driver() -> Driver | None:
    """Return the driver in use; None where torch sees no CUDA device."""
    if _chosen:
        return _chosen[-1]
    return _find_driver() if "torch" in sys.modules else None  # no tensor without it


@functools.cache
def _find_driver() -> Driver | None:
    return LibCuda() if importlib.import_module("torch").cuda.is_available() else None


# ── products ────────────────────────────────────────────────────────────────────────────────────


class DeviceProductKernel:
    """A product or a convolution of one shape, by one schedule. Call it with tensors on a device.

    Attributes:
        task: what it computes.
        schedule: how.
        epilogue: what is done to each element at the end, or None.
    Raises:
        CompileError: there is no device here, or no llvmlite.
    """

    def __init__(self, task: Task, schedule: Any = None, epilogue: str | None = None) -> None:
        self.task, self.epilogue = task, epilogue
        self.schedule = DeviceSchedule(task, schedule)
        self._driver = driver_for(task)
        self._functions: dict[int, object] = {}

    def __call__(self, a: Any, b: Any, bias: Any = None, out: Any = None) -> Any:
        """Return the result in a new tensor, or in `out`.

        Args:
            a, b, bias: as of `ProductKernel`, tensors on one device; any strides.
            out: contiguous, of the result's shape and dtype, and none of the inputs.
        Raises:
            ShapeError, DTypeError, ArgumentError: a tensor does not fit.
        """
        tensors = [x for x in (a, b, bias, out) if x is not None]
        self._check(tensors)
        shape = result_shape(self.task, self.epilogue, a, b, bias)
        out = a.new_empty(shape) if out is None else out
        if tuple(out.shape) != shape or not out.is_contiguous():
            raise ShapeError(
                f"{self.task.operator}: out does not fit: got {tuple(out.shape)}, expected "
                f"contiguous {shape}."
            )
        if not out.numel():
            return out
        bias = a if bias is None else bias.contiguous()
        if self.task.operator == "matmul":
            a, b = (x if x.stride(-1) == 1 else x.contiguous() for x in (a, b))
            a, b = (x.expand(*shape[:-2], *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (a, b))
            self._launch(a, b, out, bias)
            return out
        count, channels, *places = shape
        y = a.new_empty(channels, count, *places)
        self._launch(b.reshape(1, channels, -1), self._columns(a), y, bias)
        return out.copy_(y.transpose(0, 1))

    def _columns(self, x: Any) -> Any:
        """Return the windows of images side by side (im2col), as one matrix."""
        _, _, _, _, _, kh, kw, stride, padding = self.task.sizes
        unfold = importlib.import_module("torch").nn.functional.unfold
        windows = unfold(x, (kh, kw), padding=padding, stride=stride)
        return windows.transpose(0, 1).reshape(1, windows.shape[1], -1)

    def _check(self, tensors: Any) -> None:
        name, kind = self.task.operator, self._driver.kind
        for x in tensors:
            device = getattr(x, "device", None)
            if getattr(device, "type", None) != kind or device != tensors[0].device:
                raise ArgumentError(
                    f"{name}: got {type(x).__name__} on {device}, expected tensors on one {kind} "
                    "device. Move it there first."
                )
            if str(x.dtype) != f"torch.{self.task.dtype}":
                raise DTypeError(f"{name}: got {x.dtype}, expected {self.task.dtype}. Cast it.")

    def _launch(self, a: Any, b: Any, out: Any, bias: Any) -> None:
        """Start the kernel on torch's current stream."""
        index, item = a.device.index or 0, self.task.item_bytes
        if index not in self._functions:
            blocks = self._driver.blocks(self.schedule, self.epilogue)
            self._functions[index] = self._driver.load(blocks.text(), index)
        strides = [s * item for s in (a.stride(0), b.stride(0), a.stride(1), b.stride(1))]
        addresses = [x.data_ptr() for x in (a, b, out, bias)]
        s = self.schedule
        shape = (a.shape[0] * math.prod(s.blocks), math.prod(s.threads))
        _start(self._driver, self._functions[index], index, shape, [*addresses, *strides])


def driver_for(task: Task) -> Driver:
    """Return the driver that runs kernels on a device.

    Raises:
        CompileError: there is no device here, or no torch to see it.
    """
    with suppress(ImportError):
        importlib.import_module("torch")
    driver = current_driver()
    if driver is None:
        raise CompileError(
            f"{task.operator}: no CUDA device here, or no PyTorch that sees it. Leave out device, "
            "and the processor computes."
        )
    return driver


# ── NVIDIA's ────────────────────────────────────────────────────────────────────────────────────


class LibCuda:
    """The CUDA driver's own C interface, in the context that torch uses too."""

    kind = "cuda"
    blocks = ThreadBlocks

    def __init__(self, library: Any = None) -> None:
        name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
        try:
            self._library = ctypes.CDLL(name) if library is None else library
        except OSError as error:
            raise CompileError(
                f"cuda: cannot load {name}: {error}. Install NVIDIA's driver, or use device 'cpu'."
            ) from error
        self._call("cuInit", 0)
        self._contexts: dict[int, ctypes.c_void_p] = {}

    def load(self, text: str, device: int) -> object:
        """Return the kernel of an LLVM module, compiled to PTX and then by the driver."""
        self._enter(device)
        code = assembly(text, TRIPLE, self.processor(device)).encode() + b"\0"
        loaded, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(loaded), code)
        self._call("cuModuleGetFunction", ctypes.byref(function), loaded, b"kernel")
        return function

    def launch(
        self, function: object, device: int, shape: Shape, arguments: object, stream: int
    ) -> None:
        """Start the kernel on a stream; it runs after what was put there before."""
        self._enter(device)
        blocks, threads = ((size, 1, 1) for size in shape)
        more = (0, ctypes.c_void_p(stream), arguments, None)
        self._call("cuLaunchKernel", function, *blocks, *threads, *more)

    def processor(self, device: int) -> str:
        """Return the architecture to compile for: the device's, or the newest that is safe."""
        version = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ..._MINOR
            value = ctypes.c_int()
            self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            version.append(value.value)
        return f"sm_{min(10 * version[0] + version[1], NEWEST)}"

    def _enter(self, device: int) -> None:
        """Make the device's primary context, which is torch's, this thread's."""
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[device] = context
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            why = (text.value or b"unknown error").decode()
            raise CompileError(
                f"cuda: {name} failed: got status {status} ({why}), expected 0. Check the driver "
                "with nvidia-smi, or use device 'cpu'."
            )
