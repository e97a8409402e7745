"""Positions by size: extremes with their index, sorting, running extremes.

Only positions are computed here; values are then taken from those positions, so gradients of any
order come from `gather`.
"""

import builtins
import functools
import math
from typing import Any, Generic, NamedTuple

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, cast, dtype_of, int64
from ...arrays.shapes import INTEGERS, axis, drop_axes
from ...errors import ArgumentError, AxisError, ShapeError
from ...op import Flat, Gradients, Kind, Methods, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import maximum, minimum
from ..elementwise.casting import clone
from ..shaping.gathering import Gather, GatherGrad
from ..shaping.indexing import narrow
from ..shaping.joining import cat
from ..shaping.movement import AlongDim, insert_axes, remove_axes, reshape
from .reduction import ExtremeOrNaN, extreme
from .sorting import order


class ValuesAndIndices(NamedTuple, Generic[Kind]):
    """What torch returns where it returns both."""

    values: Kind
    indices: Kind


class Position(Flat, AlongDim):
    """An operator whose result is positions: int64, no gradient."""

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[0].shape, int64)


class PositionOfExtreme(Position):
    """A position of the largest or smallest element along an axis."""

    def __init__(self, dim: int, largest: bool) -> None:
        super().__init__(dim)
        self.largest = largest


class ArgExtreme(PositionOfExtreme):
    """The first position of the largest or smallest element."""

    def __init__(self, dim: int, largest: bool, keepdim: bool = True) -> None:
        super().__init__(dim, largest)
        self.keepdim = keepdim

    @property
    def name(self) -> str:
        """Torch's name."""
        return "argmax" if self.largest else "argmin"

    def compute(self, xp: Namespace, x: Array) -> Array:
        if type(x) is np.ndarray:
            find = x.argmax if self.largest else x.argmin
            return np.asarray(find(self.dim, keepdims=self.keepdim))
        at: Array = (xp.argmax if self.largest else xp.argmin)(
            _numbers(x), axis=self.dim, keepdims=self.keepdim
        )
        return at

    def infer(self, *specs: Spec) -> Spec:
        return Spec(drop_axes(specs[0].shape, (self.dim,), self.keepdim), int64)


def _numbers(x: Array) -> Array:
    return cast(x, int64) if dtype_of(x).kind == "b" else x


class ElementAt(AlongDim):
    """The element at one position of each line along an axis; the axis goes, or stays as size 1."""

    reads_indices = True
    reads_output = False
    name = "gather"

    def __init__(self, dim: int, keepdim: bool) -> None:
        super().__init__(dim)
        self.keepdim = keepdim

    def compute(self, xp: Namespace, x: Array, places: Array) -> Array:
        """Return the elements; `places` has the shape of the result."""
        if type(x) is np.ndarray and x.size <= compiled.SEVERAL:
            firsts, apart = _lines(x.shape, self.dim)
            flat = firsts.reshape(places.shape) + places * apart
            return np.asarray(x.take(flat))
        index = places.reshape(drop_axes(x.shape, (self.dim,), True))  # type: ignore[arg-type]
        return Gather(self.dim).compute(xp, x, index).reshape(places.shape)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[1].shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return zeros with the gradient at the positions."""
        x, places = node.inputs
        if not self.keepdim:
            places, out_grad = (insert_axes(v, (self.dim,)) for v in (places, out_grad))
        return apply(GatherGrad(self.dim), x, places, out_grad), None


@functools.lru_cache(64)
def _lines(shape: tuple[int, ...], dim: int) -> tuple[Array, int]:
    """Return the number of the first element of each line along an axis, and how far two lie."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    firsts: Any = numbers.take(0, dim)
    return firsts, math.prod(shape[dim + 1 :])


class Median(ExtremeOrNaN):
    """The lower median of a line; elements equal to it share its gradient evenly."""

    def __init__(self) -> None:
        super().__init__((0,), False, True)

    name = "median"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the median; NaN, which is larger than any number, where an element is."""
        place = (x.shape[0] - 1) // 2
        ordered = np.partition(x, (place, x.shape[0] - 1)) if xp is np else xp.sort(_numbers(x))
        last = ordered[-1:]
        middle = ordered[-1] if xp.any(last != last) else ordered[place]
        return cast(middle, dtype_of(x))


class ArgMedian(ArgExtreme):
    """The first position of the lower median along an axis; of a NaN where there is one."""

    name = "median"

    def compute(self, xp: Namespace, x: Array) -> Array:
        lead, last = (slice(None),) * self.dim, x.shape[self.dim] - 1
        middle = last // 2
        if xp is np:
            ordered = np.partition(x, (middle, last), axis=self.dim)
        else:
            ordered = xp.sort(_numbers(x), axis=self.dim)
        median, top = (ordered[(*lead, slice(i, i + 1))] for i in (middle, last))
        median = xp.where(top == top, median, top)  # of numbers of which one is NaN, NaN
        return super().compute(xp, (x == median) | (x != x))


class ArgSort(Position):
    """The positions in order of size along an axis, all or the first `count` of them.

    Equal elements keep their order.
    """

    name = "argsort"

    def __init__(self, dim: int, descending: bool, count: int | None = None) -> None:
        super().__init__(dim)
        self.descending, self.count = descending, count

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the order; NaN counts as larger than any number."""
        if xp is np:
            return order(x, self.dim, self.descending, self.count)
        places = xp.argsort(_numbers(x), axis=self.dim, descending=self.descending, stable=True)
        return places[(*(slice(None),) * self.dim, slice(self.count))]

    def infer(self, *specs: Spec) -> Spec:
        shape = list(specs[0].shape)
        shape[self.dim] = shape[self.dim] if self.count is None else self.count
        return Spec(tuple(shape), int64)


class CumExtreme(PositionOfExtreme):
    """The position of the largest or smallest element so far; of equal ones, the last."""

    @property
    def name(self) -> str:
        """Torch's name."""
        return "cummax" if self.largest else "cummin"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the positions; NaN counts as more extreme than any number."""
        if xp is not np:
            scan = xp.cummax if self.largest else xp.cummin
            return scan(x, self.dim)[1]  # type: ignore[no-any-return]
        if compiled.fits_rows(np, x):
            places = np.empty(x.shape, np.int64)
            apart = math.prod(x.shape[self.dim + 1 :])
            how = {"n": x.shape[self.dim] * apart, "rows": apart, "first": 0}
            name = "place_of_largest" if self.largest else "place_of_smallest"
            compiled.run_rows(name, (np.ascontiguousarray(x), places), 0.0, **how)
            return places
        best = (np.maximum if self.largest else np.minimum).accumulate(x, axis=self.dim)
        line = np.arange(x.shape[self.dim]).reshape(-1, *(1,) * (x.ndim - self.dim - 1))
        return np.maximum.accumulate(np.where((x == best) | (x != x), line, 0), axis=self.dim)


# ── torch's names ───────────────────────────────────────────────────────────────────────────────


def along(x: Kind, dim: int, name: str) -> tuple[Kind, int]:
    """Return `x` with an axis at least, and the number of the axis `dim`."""
    d = axis(dim, len(x.shape), name)
    return (x, d) if x.shape else (reshape(x, 1), 0)


def _take(x: Kind, row: Kind, d: int, places: Kind) -> ValuesAndIndices[Kind]:
    """Return the elements of `row`, which is `x` with an axis at least, at these places."""
    values = apply(Gather(d), row, places)
    if x.shape:
        return ValuesAndIndices(values, places)
    return ValuesAndIndices(remove_axes(values, (d,)), remove_axes(places, (d,)))


def _chosen(x: Kind, dim: int, keepdim: bool, name: str, largest: bool) -> tuple[Kind, int, Kind]:
    """Return `x` with an axis at least, the number of the axis `dim`, and a place on each line."""
    row, d = along(x, dim, name)
    if row.shape[d] == 0:
        raise AxisError(f"{name}: no element to choose on axis {d} of shape {tuple(x.shape)}.")
    op = ArgMedian if name == "median" else ArgExtreme
    return row, d, apply(op(d, largest, keepdim and bool(x.shape)), row)


def _best(x: Kind, dim: int, keepdim: bool, name: str, largest: bool) -> ValuesAndIndices[Kind]:
    row, d, places = _chosen(x, dim, keepdim, name, largest)
    return ValuesAndIndices(apply(ElementAt(d, keepdim and bool(x.shape)), row, places), places)


def _largest(x: Kind, dim: Any, keepdim: bool, largest: bool) -> Any:
    if dim is None:
        return extreme(x, None, False, ExtremeOrNaN, largest)
    if isinstance(dim, INTEGERS) or not hasattr(dim, "dtype"):
        return _best(x, dim, keepdim, "max" if largest else "min", largest)
    return maximum(x, dim) if largest else minimum(x, dim)


def max(x: Kind, dim: object = None, keepdim: bool = False) -> Any:
    """Return the largest element; with `dim` also where it is; of two values, the larger."""
    return _largest(x, dim, keepdim, True)


def min(x: Kind, dim: object = None, keepdim: bool = False) -> Any:
    """Return the smallest element; with `dim` also where it is; of two values, the smaller."""
    return _largest(x, dim, keepdim, False)


def _position(x: Kind, dim: int | None, keepdim: bool, largest: bool) -> Kind:
    name = "argmax" if largest else "argmin"
    if dim is not None:
        return _chosen(x, dim, keepdim, name, largest)[2]
    place = _chosen(reshape(x, -1), 0, False, name, largest)[2]
    return reshape(place, (1,) * len(x.shape)) if keepdim else place


def argmax(x: Kind, dim: int | None = None, keepdim: bool = False) -> Kind:
    """Return the position of the largest element along `dim`, or among all in order."""
    return _position(x, dim, keepdim, True)


def argmin(x: Kind, dim: int | None = None, keepdim: bool = False) -> Kind:
    """Return the position of the smallest element along `dim`, or among all in order."""
    return _position(x, dim, keepdim, False)


def argsort(x: Kind, dim: int = -1, descending: bool = False, stable: bool = False) -> Kind:
    """Return the positions of the elements along `dim` in order of size; always stable."""
    row, d = along(x, dim, "argsort")
    places = apply(ArgSort(d, descending), row)
    return places if x.shape else reshape(places, ())


def sort(
    x: Kind, dim: int = -1, descending: bool = False, stable: bool = False
) -> ValuesAndIndices[Kind]:
    """Return the elements along `dim` in order of size, and where they were; always stable."""
    row, d = along(x, dim, "sort")
    return _take(x, row, d, apply(ArgSort(d, descending), row))


def topk(
    x: Kind, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesAndIndices[Kind]:
    """Return the `k` largest, or smallest, elements along `dim` in order, and where they were.

    Raises:
        ArgumentError: there are fewer than `k`, or `k` is no whole number.
    """
    row, d = along(x, dim, "topk")
    size = row.shape[d]
    if not isinstance(k, INTEGERS) or not 0 <= k <= size:
        raise ArgumentError(f"topk: got k = {k}, expected 0 to {size}, the size of axis {d}.")
    if k == 1 and largest:
        return _best(x, dim, True, "topk", True)
    return _take(x, row, d, apply(ArgSort(d, largest, k), row))


def median(x: Kind, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower median along `dim` and where it is; of all elements the value only.

    The median of numbers of which one is NaN is NaN.

    Raises:
        AxisError: there is none.
    """
    if dim is not None:
        return _best(x, dim, keepdim, "median", True)
    row = reshape(x, -1)
    if row.shape[0] == 0:
        raise AxisError(f"median: no element in shape {tuple(x.shape)}.")
    return apply(Median(), row)


def cummax(x: Kind, dim: int) -> ValuesAndIndices[Kind]:
    """Return the largest element so far along `dim`, and where it is; of equal ones, the last."""
    row, d = along(x, dim, "cummax")
    return _take(x, row, d, apply(CumExtreme(d, True), row))


def cummin(x: Kind, dim: int) -> ValuesAndIndices[Kind]:
    """Return the smallest element so far along `dim`, and where it is; of equal ones, the last."""
    row, d = along(x, dim, "cummin")
    return _take(x, row, d, apply(CumExtreme(d, False), row))


def diff(
    x: Kind, n: int = 1, dim: int = -1, prepend: Kind | None = None, append: Kind | None = None
) -> Kind:
    """Return each element along `dim` less the one before, `n` times over; of bools, whether not.

    Raises:
        ArgumentError: `n` is negative.
        ShapeError: a number has no elements to compare.
    """
    if n < 0:
        raise ArgumentError(f"diff: got n = {n}, expected 0 or more.")
    if not x.shape:
        raise ShapeError("diff: got a 0-d value, expected at least 1 axis.")
    d = axis(dim, len(x.shape), "diff")
    row = cat([v for v in (prepend, x, append) if v is not None], d) if n else clone(x)
    for _ in range(n):
        rest = builtins.max(row.shape[d] - 1, 0)
        later, earlier = narrow(row, d, row.shape[d] - rest, rest), narrow(row, d, 0, rest)
        row = later ^ earlier if as_dtype(x.dtype).kind == "b" else later - earlier
    return row
