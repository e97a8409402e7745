"""Kernel: a program compiled for the layouts it meets, called with NumPy arrays.

A kernel is specialised to how its operands lie, not to their sizes; `kernel(program)` gives equal
programs the same one, so a structure is compiled once in a process.

May import: rows, loops, pool, engine; allocator, errors, shapes.
"""

import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arrays import allocator
from ..arrays.shapes import broadcast
from ..errors import DTypeError, ShapeError
from . import loops, pool, rows
from .engine import Function
from .loops import Layout
from .rows import Program

PAST_CACHES = 2**21  # bytes of a new result: more than the caches of one core hold, and writing it
# past them saves reading it first, a seventh of what five arrays of a million take
LINE = 64  # bytes of a vector; a large new result begins at a multiple of 512
_Array = np.ndarray[Any, Any]
Strides = tuple[int, ...]


class Nest(NamedTuple):
    """A loop nest: the sizes of its axes, and the strides of every operand along them."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]


@dataclass(frozen=True)
class _Call:
    """What a kernel does for operands of one set of shapes, strides and dtypes.

    Attributes:
        function: the compiled code.
        head: the table up to where it says where the operands are.
        pack: makes the rest of the table from those numbers, the result's last.
        shape: of the result.
        total: the bound of the whole work: elements, or rows of a reduction.
        grain: of which a thread's part has a multiple.
        empty: makes the result.
    """

    function: Callable[[int, int, bytes], None]
    head: bytes
    pack: Callable[..., bytes]
    shape: tuple[int, ...]
    total: int
    grain: int
    empty: Callable[..., _Array]


class Kernel:
    """A compiled program. Call it with arrays that broadcast against each other.

    Raises:
        ArgumentError: a step is no row, or has other operands than it takes.
    """

    def __init__(self, program: Program) -> None:
        rows.check(program)
        self.program = program
        self.dtype = np.dtype(program.dtype)
        gives = "float" if program.reduction else rows.gives(program.steps[-1].row)
        self.result_dtype = self.dtype if gives == "float" else np.dtype(bool)
        self._dtypes = [self.dtype if k == "float" else np.dtype(bool) for k in program.inputs]
        self._functions: dict[Layout, Function] = {}
        self._calls: dict[Any, _Call] = {}
        self._latest: tuple[Any, Any] = (None, None)  # the last key, and its call

    def __call__(self, *arrays: Any, out: _Array | None = None, axes: int | None = None) -> _Array:
        """Return the result in a new array, or in `out`, which may be one of the inputs.

        Args:
            arrays: one for each input of the program, of its dtype; any strides.
            out: contiguous, of the result's shape and dtype.
            axes: of a reduction, how many of the last axes it folds; all unless given.
        Raises:
            DTypeError, ShapeError: an input or `out` does not fit.
        """
        for a in arrays:
            if type(a) is not np.ndarray:
                return self(*[np.asarray(b) for b in arrays], out=out, axes=axes)
        key = [(a.shape, a.strides, a.dtype) for a in arrays]
        latest, call = self._latest
        if latest != (key, axes, out is None):
            call = self._call_for(arrays, key, axes, out is None)
        if out is None:
            out = call.empty(call.shape, self.result_dtype)
        else:
            check_fits(out, call.shape, self.result_dtype)
        _run(call, arrays, out)
        return out

    def _call_for(self, arrays: Any, key: list[Any], axes: int | None, new: bool) -> _Call:
        """Return what to do for such arrays, and a new result or a given one; keep it at hand."""
        lookup = (axes, new, *key)
        call = self._calls.get(lookup)
        if call is None:
            call = self._calls[lookup] = self._prepare(arrays, axes, new)
        self._latest = ((key, axes, new), call)
        return call

    def layouts(self) -> list[Layout]:
        """Return the layouts compiled so far."""
        return list(self._functions)

    def _prepare(self, arrays: Sequence[_Array], over: int | None, new: bool) -> _Call:
        self._fit(arrays)
        shape = tuple(int(n or 0) for n in broadcast(*(a.shape for a in arrays), op="kernel"))
        axes = (len(shape) if over is None else over) if self.program.reduction else 0
        strides = [np.broadcast_to(a, shape).strides for a in arrays]
        result_shape = shape[: len(shape) - axes] if axes else shape
        result = in_rows(result_shape, self.result_dtype.itemsize)
        nest = merge_axes(Nest(shape, (*strides, (*result, *([0] * axes)))))
        if self.program.reduction:
            nest = self._split(shape, axes, (*strides, result))
        n_bytes = math.prod(result_shape) * self.result_dtype.itemsize
        past_caches = new and n_bytes > PAST_CACHES and self._in_whole_lines(nest)
        function = self._compile_for(Layout(self._kinds(nest), len(nest.sizes) - 1, past_caches))
        numbers = [nest.sizes[-1], *nest.sizes[:-1], *(n for s in nest.strides for n in s)]
        head = struct.pack(f"{len(numbers)}q", *numbers)
        pack = struct.Struct(f"{len(nest.strides)}q").pack
        total = math.prod(nest.sizes[:-1]) if self.program.reduction else math.prod(nest.sizes)
        empty = allocator.cpu.empty if n_bytes > allocator.LARGE else np.empty
        grain = -(-pool.GRAIN // numbers[0]) if self.program.reduction else pool.GRAIN
        return _Call(function.call, head, pack, result_shape, total if n_bytes else 0, grain, empty)

    def _compile_for(self, layout: Layout) -> Function:
        function = self._functions.get(layout)
        if function is None:
            function = self._functions[layout] = Function(loops.kernel(self.program, layout))
        return function

    def _in_whole_lines(self, nest: Nest) -> bool:
        """Tell whether each row of a new result begins at a whole vector, as its first one does."""
        vectors = not self.program.reduction and self.result_dtype is self.dtype
        return vectors and all(stride % LINE == 0 for stride in nest.strides[-1][:-1])

    def _fit(self, arrays: Sequence[_Array]) -> None:
        """Raise unless there are as many arrays as inputs, each of its dtype."""
        if len(arrays) != len(self._dtypes):
            raise ShapeError(f"kernel: got {len(arrays)} arrays, expected {len(self._dtypes)}.")
        for i, (array, dtype) in enumerate(zip(arrays, self._dtypes, strict=True)):
            if array.dtype != dtype:
                raise DTypeError(
                    f"kernel: input {i} has another dtype: got {array.dtype}, expected {dtype}. "
                    "Cast it first."
                )

    def _split(self, shape: tuple[int, ...], axes: int, strides: Sequence[Strides]) -> Nest:
        """Return the nest of a reduction: the kept axes merged, and the folded ones as the row."""
        at = len(shape) - axes
        inner = merge_axes(Nest(shape[at:], tuple(s[at:] for s in strides[:-1])))
        if len(inner.sizes) > 1:
            raise ShapeError(
                f"kernel: the last {axes} axes of {shape} are not one run of elements. Copy the "
                "operands to contiguous memory first."
            )
        outer = merge_axes(Nest(shape[:at], tuple(s[:at] for s in strides)))
        joined = [(*o, *i) for o, i in zip(outer.strides, [*inner.strides, (0,)], strict=True)]
        return Nest((*outer.sizes, *inner.sizes), tuple(joined))

    def _kinds(self, nest: Nest) -> str:
        sizes = [d.itemsize for d in (*self._dtypes, self.result_dtype)]
        if nest.sizes[-1] == 1 and not self.program.reduction:  # one element: a result in rows
            return "b" * (len(sizes) - 1) + "c"
        rows_of = ((s[-1], n) for s, n in zip(nest.strides, sizes, strict=True))
        return "".join("c" if step == n else "b" if step == 0 else "s" for step, n in rows_of)


def check_fits(out: Any, shape: tuple[int, ...], dtype: object) -> None:
    """Raise ShapeError unless a result of this shape and dtype can be written here."""
    fits = isinstance(out, np.ndarray) and out.shape == shape and out.dtype == dtype
    if not (fits and out.flags.c_contiguous and out.flags.writeable):
        kind = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ShapeError(
            f"kernel: out does not fit: got {kind}, expected contiguous {dtype} {shape}."
        )


def _run(call: _Call, arrays: Sequence[_Array], out: _Array) -> None:
    """Do the work; threads share it where it is large."""
    if call.total:
        table = call.head + call.pack(*places_of((*arrays, out)))
        pool.share(call.function, call.total, call.grain, table)


def places_of(arrays: Sequence[_Array]) -> list[int]:
    """Return where the arrays' addresses are written.

    NumPy's C interface fixes it: the first field after Python's own head of an object. So a kernel
    is told where the objects are and reads the addresses itself; asking each array for its
    `ctypes.data` would take longer than the arithmetic on a few thousand elements.
    """
    return [id(a) + HEAD for a in arrays]


HEAD = object.__basicsize__
"""Bytes from the beginning of an array's object to where its address is written."""


def run(
    function: Function,
    arrays: Sequence[_Array],
    numbers: Sequence[int],
    total: int,
    grain: int = 1,
) -> None:
    """Let the threads share a function that gets the arrays' places, then the numbers.

    Its code is there as long as somebody holds it.
    """
    table = _packer(len(arrays) + len(numbers))(*places_of(arrays), *numbers)
    pool.share(function.call, total, grain, table)


@functools.cache
def _packer(count: int) -> Callable[..., bytes]:
    return struct.Struct(f"{count}q").pack


@functools.cache
def kernel(program: Program) -> Kernel:
    """Return the kernel of a program, the same for equal programs; nothing is compiled yet."""
    return Kernel(program)


# Operands of different shapes as one loop nest of as few axes as can be. A stride is in bytes; 0
# repeats an element.


def in_rows(shape: Sequence[int], n_bytes: int) -> Strides:
    """Return the strides of a contiguous array."""
    strides, step = [], n_bytes
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def merge_axes(nest: Nest) -> Nest:
    """Return the same nest with as few axes as possible, one at least.

    Axes of size 1 go; two neighbours become one where every operand steps through both as
    through one.
    """
    sizes: list[int] = []
    columns: list[list[int]] = [[] for _ in nest.strides]
    for d in reversed(range(len(nest.sizes))):  # from the row outwards
        size, steps = nest.sizes[d], [s[d] for s in nest.strides]
        if size == 1:
            continue
        whole = sizes and all(
            step == column[-1] * sizes[-1] for step, column in zip(steps, columns, strict=True)
        )
        if whole:
            sizes[-1] *= size
            continue
        sizes.append(size)
        for step, column in zip(steps, columns, strict=True):
            column.append(step)
    if not sizes:
        return Nest((1,), tuple((0,) for _ in nest.strides))
    return Nest(tuple(sizes[::-1]), tuple(tuple(c[::-1]) for c in columns))
