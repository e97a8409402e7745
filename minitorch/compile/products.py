"""Kernels of products and convolutions: compiled by a schedule, called with NumPy arrays.

Without llvmlite NumPy computes the same, whatever the schedule says.

May import: allocator, errors, tasks, schedule, register_block, tiled_loops, engine, kernels.
"""

from __future__ import annotations

import functools
import math
import struct
import threading
from typing import Any, NamedTuple

import numpy as np

from .. import allocator
from ..errors import DTypeError, ShapeError
from . import engine
from .images import Image, convolved
from .kernels import places_of, share
from .register_block import Plan
from .schedule import Schedule
from .tasks import Task, check_epilogue, result_shape
from .tiled_loops import TiledLoops

_Array = np.ndarray[Any, Any]
LINE = 64  # bytes: buffers begin where a vector register's worth does


class _Code(NamedTuple):
    """What is compiled."""

    call: Any
    tiles: int
    buffer_bytes: tuple[int, int]
    owner: engine.Function  # alive as long as `call`


@functools.lru_cache(512)
def code_for(plan: Plan) -> _Code:
    """Return the compiled code of a plan; the last hundreds are kept."""
    loops = TiledLoops(plan)
    function = engine.Function(loops.text())
    return _Code(function.call, loops.outer_tiles, loops.buffer_bytes, function)


class ProductKernel:
    """A product or a convolution of one shape, by one schedule. Call it with arrays.

    Attributes:
        task: what it computes.
        schedule: how.
        epilogue: what is done to each element at the end, or None.
    """

    def __init__(self, task: Task, schedule: Any = None, epilogue: str | None = None) -> None:
        check_epilogue(task, epilogue)
        self.task, self.epilogue = task, epilogue
        self.schedule = Schedule(task, schedule)
        self.dtype = np.dtype(task.dtype)
        self._image = Image(task, self.schedule["lanes"]) if task.operator == "conv2d" else None
        self._local = threading.local()
        if engine.available():
            code_for(Plan(self.schedule, self.epilogue))

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
        a, b, bias = self._checked(a, b, bias)
        last = self.task.samples_last
        if out is not None:
            _check_fits(out, shape, self.dtype)
        apart = out is None or last or any(np.may_share_memory(out, x) for x in (a, b, bias))
        memory = out
        if apart or memory is None:
            memory = self._new((*shape[1:], shape[0]) if last else shape)
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

    def _new(self, shape: tuple[int, ...]) -> _Array:
        n_bytes = math.prod(shape) * self.dtype.itemsize
        return (allocator.cpu.empty if n_bytes > allocator.LARGE else np.empty)(shape, self.dtype)

    def _checked(self, a: Any, b: Any, bias: Any) -> tuple[_Array, _Array, _Array]:
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
        if not engine.available():
            last = self.task.samples_last
            self._with_numpy(a, b, bias, np.moveaxis(out, -1, 0) if last else out)
            return
        if self._image is not None:
            a, b = b.reshape(b.shape[0], -1), self._image.laid_out(a)
        elif b.strides[1] != b.itemsize:
            b = np.ascontiguousarray(b)
        self._run(a, b, bias, out, code_for(Plan(self.schedule, self.epilogue)))

    def _run(self, a: _Array, b: _Array, bias: _Array, out: _Array, code: _Code) -> None:
        """Do the work, in the caller's thread or shared among the schedule's."""
        held, places = places_of((a, b, out, bias))
        tables = self._image.addresses if self._image is not None else (0, 0)
        threads = min(self.schedule["parallel"], code.tiles)

        def work(lo: int, hi: int) -> None:
            numbers = (*a.strides, b.strides[0], *self._buffers(code), *tables)
            code.call(lo, hi, struct.pack("11q", *places, *numbers))

        if threads == 1:
            work(0, code.tiles)
        else:
            share(work, code.tiles, -(-code.tiles // threads), threads)
        del held  # until here

    def _buffers(self, code: _Code) -> tuple[int, int]:
        """Return where this thread packs its tiles of A and B."""
        found: tuple[Any, tuple[int, int]] | None = getattr(self._local, "buffers", None)
        if found is None:
            arrays = [np.empty(n + LINE, np.uint8) for n in code.buffer_bytes]
            a, b = (-(-x.ctypes.data // LINE) * LINE for x in arrays)
            found = self._local.buffers = (arrays, (a, b))
        return found[1]

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
    return convolved(task, a, b)


def _check_fits(out: Any, shape: tuple[int, ...], dtype: object) -> None:
    fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == dtype
    if not fits or not (out.flags.c_contiguous and out.flags.writeable):
        got = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ShapeError(
            f"kernel: out does not fit: got {got}, expected contiguous {dtype} {shape}."
        )
