"""Kernels of products and convolutions: compiled by a schedule, called with NumPy arrays.

Without llvmlite NumPy computes the same, whatever the schedule says.

A convolution's kernel reads an image padded, and its windows side by side. With a stride of s the
padded image is cut into s by s phases, each of every s-th row and column, so that the places of one
row of the result always lie side by side, whatever the stride. Many samples lie last, and are then
part of a row.

May import: allocator, errors, tasks, schedule, tiled_loops, engine, pool, kernels, layouts,
gpu.cuda_driver.
"""

import functools
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import allocator
from ..errors import ArgumentError, DTypeError
from . import engine
from .gpu.cuda_driver import DeviceProductKernel
from .images.layouts import Layout
from .kernels import check_fits, places_of
from .pool import parallel_for
from .schedule import DeviceSchedule, Schedule, schedule_for
from .tasks import EPILOGUES, Task, result_shape, task_of
from .tiled_loops import Plan, TiledLoops

_Array = np.ndarray[Any, Any]
LINE = 64  # bytes: buffers begin where a vector register's worth does


class Image:
    """How the image of one task lies, with the tables that say where windows are.

    Attributes:
        layout: gives the image in the order in which it is read.
        addresses: of the slots (three numbers a vector of places) and the offsets (one a term).
    """

    def __init__(self, task: Task, lanes: int) -> None:
        count, c, h, w, o, kh, kw, s, padding = task.sizes
        size, last = (-(-(h + 2 * padding) // s), -(-(w + 2 * padding) // s)), task.samples_last
        phases, border = (range(s), range(s)), (padding, padding)
        self.layout = Layout(task.sizes[:4], phases, size, (s, s), border, last, task.dtype)
        height, width = task.places[0], task.lines[1]
        # whole vectors are loaded: none may reach over the end of an image that is not copied
        self.layout.same &= width % lanes == 0
        batch, outer = (count, 1) if last else (1, count)
        columns = size[1] * batch
        plane, item = size[0] * columns, task.item_bytes
        at, y, x = np.ix_(np.arange(outer), np.arange(height), np.arange(0, width, lanes))
        slots = np.stack(
            np.broadcast_arrays(
                (at * c * s * s * plane + y * columns + x) * item,
                (at * o * height * width + y * width + x) * item,
                np.minimum(lanes, width - x),
            ),
            axis=-1,
        )
        channel, i, j = np.ix_(np.arange(c), np.arange(kh), np.arange(kw))
        phase = (channel * s + i % s) * s + j % s
        offsets = (phase * plane + i // s * columns + j // s * batch) * item
        self._tables = [np.ascontiguousarray(t, np.int64) for t in (slots, offsets)]
        self.addresses = tuple(t.ctypes.data for t in self._tables)


def convolve_with_blas(task: Task, x: _Array, weights: _Array) -> _Array:
    """Return what NumPy's BLAS computes from an image's windows; many samples lie last."""
    (n, c, h, w), (s, p), o = x.shape, task.sizes[7:], len(weights)
    if task.samples_last:
        wide = np.moveaxis(np.zeros((c, h + 2 * p, w + 2 * p, n), x.dtype), -1, 0)
    else:
        wide = np.zeros((n, c, h + 2 * p, w + 2 * p), x.dtype)
    wide[:, :, p : p + h, p : p + w] = x
    view = np.lib.stride_tricks.sliding_window_view(wide, weights.shape[2:], axis=(2, 3))
    order = (1, 4, 5, 2, 3, 0) if task.samples_last else (1, 4, 5, 0, 2, 3)
    columns = view[:, :, ::s, ::s].transpose(order).reshape(weights[0].size, -1)
    y: _Array = weights.reshape(o, -1) @ columns
    if task.samples_last:
        return np.moveaxis(y.reshape(o, *task.places, n), -1, 0)
    return y.reshape(o, n, *task.places).transpose(1, 0, 2, 3)


class _Code(NamedTuple):
    """What is compiled."""

    call: Callable[[int, int, bytes], None]
    tiles: int
    buffer_bytes: tuple[int, int]
    owner: engine.Function  # alive as long as `call`


@functools.lru_cache(512)
def code_for(plan: Plan) -> _Code:
    """Return the compiled code of a plan; the last hundreds are kept."""
    loops = TiledLoops(plan)
    function = engine.Function(loops.text(), lasting=False)  # of a search most are run once
    return _Code(function.call, loops.outer_tiles, loops.buffer_bytes, function)


class ProductKernel:
    """A product or a convolution of one shape, by one schedule. Call it with arrays.

    Attributes:
        task: what it computes.
        schedule: how.
        epilogue: what is done to each element at the end, or None.
    """

    def __init__(self, task: Task, schedule: Any = None, epilogue: str | None = None) -> None:
        self.task, self.epilogue = task, epilogue
        self.schedule = Schedule(task, schedule)
        self.dtype = np.dtype(task.dtype)
        self._image = Image(task, self.schedule["lanes"]) if task.operator == "conv2d" else None
        self._local = threading.local()
        self._code = code_for(Plan(self.schedule, epilogue)) if engine.available() else None

    def __repr__(self) -> str:
        return f"ProductKernel({self.task}, {dict(self.schedule)}, {self.epilogue!r})"

    def __call__(self, a: Any, b: Any, bias: Any = None, out: _Array | None = None) -> _Array:
        """Return the result in a new array, or in `out`.

        Args:
            a, b: of a product (..., m, k) and (..., k, n); of a convolution the image (n, c, h, w)
                and the kernels (o, c, kh, kw). Any strides.
            bias: where the epilogue has one: (n,) of a product, (o,) of a convolution.
            out: contiguous, of the result's shape and dtype.
        Raises:
            ShapeError, DTypeError: an array does not fit.
        """
        a, b, bias = (x if x is None else np.asarray(x) for x in (a, b, bias))
        shape = result_shape(self.task, self.epilogue, a, b, bias)
        a, b, bias = self._check_arrays(a, b, bias)
        last = self.task.samples_last
        if out is not None:
            check_fits(out, shape, self.dtype)
        apart = out is None or last or any(np.may_share_memory(out, x) for x in (a, b, bias))
        memory = out
        if apart or memory is None:
            memory = allocator.empty((*shape[1:], shape[0]) if last else shape, self.dtype)
        if len(shape) > 2 and self.task.operator == "matmul":
            a, b = (np.broadcast_to(x, (*shape[:-2], *x.shape[-2:])) for x in (a, b))
            for at in np.ndindex(*shape[:-2]):
                self._compute(a[at], b[at], bias, memory[at])
        else:
            self._compute(a, b, bias, memory)
        result: _Array = np.moveaxis(memory, -1, 0) if last else memory
        if out is None:
            return result
        if apart:
            out[...] = result
        return out

    def _check_arrays(self, a: Any, b: Any, bias: Any) -> tuple[_Array, _Array, _Array]:
        """Return arrays of this dtype; where there is no bias, A stands for it."""
        bias = a if bias is None else np.ascontiguousarray(bias)
        for array in (a, b, bias):
            if array.dtype != self.dtype:
                raise DTypeError(
                    f"{self.task.operator}: got {array.dtype}, expected {self.dtype}. Cast it "
                    "first."
                )
        return a, b, bias

    def _compute(self, a: _Array, b: _Array, bias: _Array, out: _Array) -> None:
        """Do the work, in the caller's thread or shared among the schedule's."""
        code = self._code
        if code is None:
            last = self.task.samples_last
            self._with_numpy(a, b, bias, np.moveaxis(out, -1, 0) if last else out)
            return
        if self._image is not None:
            a, b = b.reshape(b.shape[0], -1), self._image.layout(a)
        elif b.strides[1] != b.itemsize:
            b = np.ascontiguousarray(b)
        places = places_of((a, b, out, bias))
        tables = self._image.addresses if self._image is not None else (0, 0)
        threads = min(self.schedule["parallel"], code.tiles)

        def work(lo: int, hi: int) -> None:
            numbers = (*a.strides, b.strides[0], *self._buffers(code), *tables)
            code.call(lo, hi, struct.pack("11q", *places, *numbers))

        parallel_for(code.tiles, -(-code.tiles // threads), work)

    def _buffers(self, code: _Code) -> tuple[int, int]:
        """Return where this thread packs its tiles of A and B."""
        buffers: tuple[Any, tuple[int, int]] | None = getattr(self._local, "buffers", None)
        if buffers is None:
            arrays = [np.empty(n + LINE, np.uint8) for n in code.buffer_bytes]
            a, b = (-(-x.ctypes.data // LINE) * LINE for x in arrays)
            buffers = self._local.buffers = (arrays, (a, b))
        return buffers[1]

    def _with_numpy(self, a: _Array, b: _Array, bias: _Array, out: _Array) -> None:
        conv = self.task.operator == "conv2d"
        y = by_numpy(self.task, a, b, out)
        if y is not out:
            out[...] = y
        if "bias" in (self.epilogue or ""):
            out += bias[:, None, None] if conv else bias
        if "relu" in (self.epilogue or ""):
            np.maximum(out, 0, out=out)


def by_numpy(task: Task, a: _Array, b: _Array, out: _Array | None = None) -> _Array:
    """Return what NumPy's BLAS computes; of a product in `out`, where that is given."""
    if task.operator == "matmul":
        return np.matmul(a, b, out=out)
    return convolve_with_blas(task, a, b)


def kernel_of(task: Any, schedule: Any, epilogue: str | None, device: str) -> Any:
    """Return the kernel of a task; see `matmul`."""
    task = task_of(task)
    if epilogue not in EPILOGUES:
        raise ArgumentError(
            f"{task.operator}: epilogue is {epilogue!r}, expected one of {EPILOGUES}."
        )
    on_device = schedule_for(device) is DeviceSchedule
    kernel = DeviceProductKernel if on_device else ProductKernel
    return kernel(task, schedule, epilogue)


def matmul(
    m: int,
    n: int,
    k: int,
    dtype: npt.DTypeLike = "float32",
    schedule: Mapping[str, object] | None = None,
    epilogue: str | None = None,
    *,
    device: str = "cpu",
) -> Any:
    """Return a kernel that multiplies (m, k) by (k, n), or batches of them.

    Args:
        dtype: float32 or float64.
        schedule: a point or a Schedule; None is the naive loop nest.
        epilogue: None, "bias", "relu" or "bias_relu"; the bias is the kernel's third array.
        device: "cpu" for NumPy's arrays; "cuda" for PyTorch's tensors on CUDA devices, where
            tiles are thread blocks (see `DeviceSchedule`).
    Raises:
        ArgumentError: a ValueError: sizes, dtype, epilogue or schedule that cannot be; says why.
        CompileError: device is "cuda", and there is none here.
    """
    return kernel_of(("matmul", m, n, k, np.dtype(dtype).name), schedule, epilogue, device)


def conv2d(
    n: int,
    c: int,
    h: int,
    w: int,
    o: int,
    kh: int,
    kw: int,
    stride: int = 1,
    padding: int = 0,
    dtype: npt.DTypeLike = "float32",
    schedule: Mapping[str, object] | None = None,
    epilogue: str | None = None,
    *,
    device: str = "cpu",
) -> Any:
    """Return a kernel that convolves images (n, c, h, w) with kernels (o, c, kh, kw).

    Args and Raises: as `matmul`.
    """
    sizes = (n, c, h, w, o, kh, kw, stride, padding)
    return kernel_of(("conv2d", *sizes, np.dtype(dtype).name), schedule, epilogue, device)
