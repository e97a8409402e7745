"""Sums, means and extremes along axes. An axis argument is called `dim`, as torch calls it."""

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...arrays.library import (
    Array,
    DType,
    DTypeLike,
    Namespace,
    as_dtype,
    bool_,
    cast,
    dtype_of,
    get_default_dtype,
    int64,
    native_dtype,
    uint8,
)
from ...arrays.shapes import axes, axes_or_all, drop_axes
from ...errors import AxisError
from ...op import Flat, Gradients, Kind, Methods, Op, ReadsShapes, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import where
from ..elementwise.casting import cast_to, require_floats
from ..elementwise.formulas import Formula, at_once
from ..elementwise.logic import isnan
from ..elementwise.unary import exp, ones_like
from ..shaping.broadcasting import expand_to
from ..shaping.movement import insert_axes

_add: Callable[..., Array] = np.add.reduce
Dims: TypeAlias = int | Sequence[int] | None
LARGE = 2**12  # elements, from which on a sum by a product is worth its preparation
LONG = 2**12  # numbers of a row, up to which BLAS's sums in registers round no more than a tree
PIECE = 2**10  # numbers of a longer row, whose sums are added up pairwise
_ONES = {char: np.ones(PIECE, char) for char in "fd"}
SHORT = 2**6  # numbers behind the axes of a sum, below which NumPy's calls for each run cost most


def is_short(rows: Array) -> bool:
    """Tell whether the sum of each row is as good by BLAS, in a third of the time."""
    return rows.shape[-1] <= LONG and rows.strides[-1] == rows.itemsize


def _sums_between(x: Array, dims: tuple[int, ...]) -> Array | None:
    """Return the sums along axes that lie side by side in memory, a few numbers behind them.

    It is a product with ones. None where the axes lie otherwise.
    """
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    places = sorted(map(order.index, dims))
    first, end = places[0], places[-1] + 1
    lying = x.transpose(order)
    shape = lying.shape
    behind = math.prod(shape[end:])
    if end - first != len(dims) or not 1 < behind <= SHORT or not lying.flags.c_contiguous:
        return None
    rows = lying.reshape(-1, math.prod(shape[first:end]), behind)
    sums = np.matmul(np.ones((1, rows.shape[1]), x.dtype), rows).reshape(
        shape[:first] + shape[end:]
    )
    left = order[:first] + order[end:]
    return np.ascontiguousarray(sums.transpose(sorted(range(len(left)), key=left.__getitem__)))


def _sums_of_runs(rows: Array, dtype: DType) -> Array:
    """Return the sum of each row of a contiguous array; of long ones piece by piece, by BLAS."""
    size = rows.shape[-1]
    if size <= PIECE or rows.dtype.char not in "fd":
        return _add(rows, axis=-1, dtype=dtype)
    whole = size // PIECE * PIECE
    pieces = rows[..., :whole].reshape(*rows.shape[:-1], -1, PIECE)
    sums: Array = _add(pieces @ _ONES[rows.dtype.char], axis=-1)
    return sums if whole == size else sums + _add(rows[..., whole:], axis=-1)


class Reduction(Op):
    """Reduce the axes `dims`, all of them in range, to one element each."""

    on_arrays = True

    def __init__(self, dims: tuple[int, ...], keepdim: bool) -> None:
        self.dims, self.keepdim = dims, keepdim

    def infer(self, *specs: Spec) -> Spec:
        return Spec(drop_axes(specs[0].shape, self.dims, self.keepdim), specs[0].dtype)

    def total(self, x: Array, dtype: DType) -> Array:
        """Return the sum of a NumPy array along the axes; the last ones as one."""
        dims, rank = self.dims, x.ndim
        if len(dims) == rank and x.flags.f_contiguous:
            x = x.T
        if dims == (rank - 1,) and x.size >= LARGE and x.dtype.char in "fd" and is_short(x):
            rows: Array = np.vecdot(x, np.ones(x.shape[-1], x.dtype))
            return rows[..., None] if self.keepdim else rows
        if not x.size or (len(dims) < 2 and (dims != (rank - 1,) or x.shape[-1] <= LONG)):
            return _add(x, axis=dims, keepdims=self.keepdim, dtype=dtype)
        if dims != tuple(range(rank - len(dims), rank)) or not x.flags.c_contiguous:
            sums = _sums_between(x, dims) if x.dtype.char in "fd" and x.size >= LARGE else None
            if sums is None:
                return _add(x, axis=dims, keepdims=self.keepdim, dtype=dtype)
        else:
            sums = _sums_of_runs(x.reshape(*x.shape[: dims[0]], -1), dtype)
        if not self.keepdim:
            return sums
        return sums.reshape([1 if d in dims else n for d, n in enumerate(x.shape)])

    def spread(self, y: Kind, x: Array) -> Any:
        """Return `y`, of the reduced shape, with the reduced axes put back as size 1."""
        return y if self.keepdim else insert_axes(y, self.dims)


class Sum(ReadsShapes, Reduction):
    """The sum along axes; integers and booleans add up as int64."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is np:
            if x.dtype is bool_ and len(self.dims) == x.ndim and not self.keepdim:
                return np.asarray(np.count_nonzero(x))
            return self.total(x, _dtype_of_sum(x.dtype))
        wide = native_dtype(xp, _dtype_of_sum(dtype_of(x)))
        return xp.sum(x, axis=self.dims, keepdims=self.keepdim, dtype=wide)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(super().infer(*specs).shape, _dtype_of_sum(specs[0].dtype))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        x = node.inputs[0]
        return (expand_to(self.spread(out_grad, x), x),)


def _dtype_of_sum(dtype: DType) -> DType:
    return dtype if dtype.kind == "f" else int64


class Extreme(Reduction):
    """The largest or smallest element along axes; ties share the gradient evenly."""

    def __init__(self, dims: tuple[int, ...], keepdim: bool, largest: bool) -> None:
        super().__init__(dims, keepdim)
        self.largest = largest

    @property
    def name(self) -> str:
        """Torch's name."""
        return "amax" if self.largest else "amin"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the extreme; NaN wins."""
        reduce: Any = xp.max if self.largest else xp.min
        if xp is np:
            reduce = (np.maximum if self.largest else np.minimum).reduce
        extreme: Array = reduce(x, axis=self.dims, keepdims=self.keepdim)
        return extreme

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The elements equal to the extreme share its gradient."""
        x = node.inputs[0]
        won = where(self._wins(x, self.spread(node.output, x)), ones_like(x), 0.0)
        return (won / sum(won, self.dims, True) * self.spread(out_grad, x),)

    def _wins(self, x: Any, y: Any) -> Any:
        return x == y


class ExtremeOrNaN(Extreme):
    """As `Extreme`; where the extreme is NaN, the elements that are NaN share its gradient."""

    def _wins(self, x: Any, y: Any) -> Any:
        return (x == y) | isnan(x)


class LogSumExp(Reduction):
    """ln Σ exp x along axes, without overflow."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the logarithm, computed relative to the largest element."""
        if 0 in [x.shape[d] for d in self.dims]:  # the sum of nothing
            return xp.sum(x, axis=self.dims, keepdims=self.keepdim) - math.inf
        shape: Any = drop_axes(x.shape, self.dims, self.keepdim)
        if self.dims == (len(x.shape) - 1,) and compiled.fits_rows(xp, x):
            of_rows = compiled.over_rows("log_sum_exp", (x,), 1.0, shape)
            if np.isfinite(of_rows).all():  # else its arithmetic has met infinities
                return of_rows
        top = xp.max(x, axis=self.dims, keepdims=True)
        top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        if xp is np:
            parts = Sum(self.dims, True).total(at_once(_power, (x, top)), x.dtype)
        else:
            parts = xp.sum(xp.exp(x - top), axis=self.dims, keepdims=True)
        logarithms: Array = xp.log(parts) + top
        return logarithms.reshape(shape)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the softmax of the elements, times the gradient."""
        x = node.inputs[0]
        y, g = (self.spread(value, x) for value in (node.output, out_grad))
        return (at_once(_share, (x, y, g)),)


def _power(x: Methods, top: Methods) -> Methods:
    return exp(x - top)


def _share(x: Methods, y: Methods, g: Methods) -> Methods:
    return g * exp(x - y)


def sum(x: Kind, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Kind:
    """Return the sum along `dim` (all axes when None); integers and booleans add up as int64."""
    over = axes_or_all(dim, len(x.shape), "sum")
    total = apply(Sum(over, keepdim), x if dtype is None else cast_to(x, dtype))
    return total if dtype is None else cast_to(total, dtype)


def nansum(x: Kind, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Kind:
    """Return the sum along `dim` of what is not NaN."""
    known = _NAN_AS_0(x) if as_dtype(x.dtype).kind == "f" else x
    return sum(known, dim, keepdim, dtype=dtype)


_NAN_AS_0 = Formula(
    "nan_as_0", lambda x: where(isnan(x), 0.0, x), lambda g, x: where(isnan(x), 0.0, g)
)


def extreme(x: Kind, dim: Dims, keepdim: bool, kind: type[Extreme], largest: bool) -> Kind:
    """Return the largest or smallest element along `dim`; `kind` says whose the gradient is.

    Raises:
        AxisError: there is none.
    """
    op = kind(axes_or_all(dim, len(x.shape), "amax" if largest else "amin"), keepdim, largest)
    if 0 in [x.shape[d] for d in op.dims]:
        raise AxisError(
            f"{op.name}: no element to choose: got shape {tuple(x.shape)} along axes {op.dims}, "
            "expected at least one. Reduce along another axis."
        )
    return apply(op, x)


def amax(x: Kind, dim: Dims = (), keepdim: bool = False) -> Kind:
    """Return the largest element along `dim`; ties share the gradient."""
    return extreme(x, dim, keepdim, Extreme, True)


def amin(x: Kind, dim: Dims = (), keepdim: bool = False) -> Kind:
    """Return the smallest element along `dim`; ties share the gradient."""
    return extreme(x, dim, keepdim, Extreme, False)


def logsumexp(x: Kind, dim: Dims, keepdim: bool = False) -> Kind:
    """Return ln Σ exp(x) along `dim`, without overflow."""
    if as_dtype(x.dtype).kind != "f":
        x = cast_to(x, get_default_dtype())
    return apply(LogSumExp(axes_or_all(dim, len(x.shape), "logsumexp"), keepdim), x)


class Mean(ReadsShapes, Reduction):
    """The mean along axes."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is np:
            count = math.prod([x.shape[d] for d in self.dims])
            mean: Array = self.total(x, x.dtype) / x.dtype.type(count)
            return mean
        return xp.mean(x, axis=self.dims, keepdims=self.keepdim)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Every element gets its part of the gradient of the mean."""
        x = node.inputs[0]
        sizes = [x.shape[d] for d in self.dims]
        if None in sizes:
            share = self.spread(out_grad, x) / apply(Count(self.dims), x)
        else:
            share = self.spread(out_grad, x) * (1.0 / builtins.max(math.prod(sizes), 1))
        return (expand_to(share, x),)


class Count(Flat):
    """How many elements there are along `dims`, of the dtype of the input; known at run time."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is np:
            return np.array(math.prod([x.shape[d] for d in self.dims]), x.dtype)
        return xp.full_like(x[(0,) * len(x.shape)], math.prod([x.shape[d] for d in self.dims]))

    def infer(self, *specs: Spec) -> Spec:
        return Spec((), specs[0].dtype)


def mean(x: Kind, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Kind:
    """Return the mean along `dim` (all axes when None).

    Raises:
        DTypeError: not a floating dtype.
    """
    x = x if dtype is None else cast_to(x, dtype)
    require_floats("mean", x)
    over = axes_or_all(dim, len(x.shape), "mean")
    return apply(Mean(over, keepdim), x)


class Truth(Flat, Reduction):
    """Whether any, or all, of the elements along axes are not 0."""

    def __init__(self, dims: tuple[int, ...], keepdim: bool, every: bool) -> None:
        super().__init__(dims, keepdim)
        self.every = every

    @property
    def name(self) -> str:
        """Torch's name."""
        return "all" if self.every else "any"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return truth values, of uint8 as uint8."""
        test = xp.all if self.every else xp.any
        truth = test(x, axis=self.dims, keepdims=self.keepdim)
        return cast(truth, uint8) if dtype_of(x) is uint8 else truth

    def infer(self, *specs: Spec) -> Spec:
        dtype = uint8 if specs[0].dtype is uint8 else bool_
        return Spec(super().infer(*specs).shape, dtype)


def any(x: Kind, dim: Dims = None, keepdim: bool = False) -> Kind:
    """Return whether any element along `dim` is not 0."""
    return apply(Truth(axes(dim, len(x.shape), "any"), keepdim, False), x)


def all(x: Kind, dim: Dims = None, keepdim: bool = False) -> Kind:
    """Return whether all elements along `dim` are not 0."""
    return apply(Truth(axes(dim, len(x.shape), "all"), keepdim, True), x)
