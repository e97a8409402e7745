"""Fused kernels on CUDA: the PTX of a program, loaded and launched through the driver.

`run_on_device(program, arrays)` is the whole of it: one thread an element, on torch's current
stream, into memory of torch's. What it asks of the driver is a `Driver`; `LibCuda` is NVIDIA's
`libcuda` by ctypes, and tests have one that runs the same code on the processor.

May import: errors, program, rows, ptx, thread_blocks; torch, inside functions.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import CompileError
from . import rows
from .engine import assembly, available
from .program import Program
from .ptx import TRIPLE, module
from .thread_blocks import ThreadBlocks

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

    def load(self, text: str, device: int) -> Any:
        """Return the function `kernel` of an LLVM module for GPUs, ready on a device."""

    def launch(
        self,
        function: object,
        device: int,
        blocks: int,
        threads: int,
        arguments: object,
        stream: int,
    ) -> None:
        """Start blocks of threads; `arguments` is a C array of pointers to each argument."""


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
    stream = current_stream(driver, device)
    count = out.numel()
    if count:
        held, arguments = packed([count, *(a.data_ptr() for a in arrays), out.data_ptr()])
        function = _loaded(driver, program, kinds, device)
        driver.launch(function, device, -(-count // THREADS), THREADS, arguments, stream)
        del held  # the launch has copied them
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


def current_stream(driver: Driver, device: int) -> int:
    """Return torch's current stream on a device, as the driver takes it."""
    torch = importlib.import_module("torch")
    return int(torch.cuda.current_stream(device).cuda_stream) if driver.kind == "cuda" else 0


def packed(numbers: Sequence[int]) -> tuple[Any, Any]:
    """Return the arguments of a kernel, which must be kept, and the array of pointers to them."""
    values = [ctypes.c_uint64(number) for number in numbers]
    pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
    return values, pointers


_functions: dict[tuple[Any, ...], Any] = {}


def _loaded(driver: Driver, program: Program, kinds: str, device: int) -> Any:
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
    return _installed() if "torch" in sys.modules else None  # no tensor without it


@functools.cache
def _installed() -> Driver | None:
    return LibCuda() if importlib.import_module("torch").cuda.is_available() else None


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

    def load(self, text: str, device: int) -> Any:
        """Return the kernel of an LLVM module, compiled to PTX and then by the driver."""
        self._enter(device)
        code = assembly(text, TRIPLE, self.processor(device)).encode() + b"\0"
        loaded, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(loaded), code)
        self._call("cuModuleGetFunction", ctypes.byref(function), loaded, b"kernel")
        return function

    def launch(
        self,
        function: object,
        device: int,
        blocks: int,
        threads: int,
        arguments: object,
        stream: int,
    ) -> None:
        """Start the kernel on a stream; it runs after what was put there before."""
        self._enter(device)
        shape = (blocks, 1, 1, threads, 1, 1)
        self._call("cuLaunchKernel", function, *shape, 0, ctypes.c_void_p(stream), arguments, None)

    def processor(self, device: int) -> str:
        """Return the architecture to compile for: the device's, or the newest that is safe."""
        found = []
        for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ..._MINOR
            value = ctypes.c_int()
            self._call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
            found.append(value.value)
        return f"sm_{min(10 * found[0] + found[1], NEWEST)}"

    def _enter(self, device: int) -> None:
        """Make the device's primary context, which is torch's, this thread's."""
        context = self._contexts.get(device)
        if context is None:
            context = ctypes.c_void_p()
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
            self._contexts[device] = context
        self._call("cuCtxSetCurrent", context)

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver.

        Raises:
            CompileError: it gave an error; says which.
        """
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            why = (text.value or b"unknown error").decode()
            raise CompileError(
                f"cuda: {name} failed: got status {status} ({why}), expected 0. Check the driver "
                "with nvidia-smi, or use device 'cpu'."
            )
