"""Several elements put into one place, and what becomes of them: products, extremes, means."""

import math

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, cast, copy_array, iinfo, int64
from ...errors import ArgumentError
from ...op import Gradients, KeepsSpec, Kind, Methods, apply
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import eq
from ..elementwise.pointwise import div
from ..elementwise.unary import ones_like, zeros_like
from .gathering import Gather, ScatterAdd, check_index, give_axis, grid, scatter
from .indexing import getitem
from .movement import AlongDim, reshape

_UFUNCS = {"prod": "multiply", "amax": "maximum", "amin": "minimum"}


class ScatterReduce(KeepsSpec, AlongDim):
    """`x` multiplied by, or the extreme of it and, the elements of `source` put at each place."""

    name = "scatter_reduce"

    def __init__(self, dim: int, reduce: str) -> None:
        super().__init__(dim)
        self.reduce = reduce

    def compute(self, xp: Namespace, x: Array, index: Array, source: Array) -> Array:
        """Return the products or extremes; `index` and `source` have one shape."""
        if hasattr(xp, "scatter_reduce"):  # torch's
            return xp.scatter_reduce(x, self.dim, cast(index, int64), source, self.reduce)
        out = np.array(x) if xp is np else copy_array(x)
        getattr(xp, _UFUNCS[self.reduce]).at(out, grid(xp, index, self.dim), source)
        return out

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the product of the others, or shares among those that are the extreme."""
        rule = self._of_product if self.reduce == "prod" else self._of_extreme
        own, share = rule(out_grad, node)
        return own, None, share

    def _of_product(self, out_grad: Methods, node: Methods) -> tuple[Methods, Methods]:
        x, index, source = node.inputs
        gather, zero = Gather(self.dim), eq(source, 0)
        count = apply(ScatterAdd(self.dim), zeros_like(x), index, cast_to(zero, x.dtype))
        alone = zero & eq(apply(gather, count, index), 1)
        safe = where(zero, 1.0, source)
        rest = apply(gather, out_grad * apply(self, x, index, where(alone, 1.0, source)), index)
        share = where(alone, rest, apply(gather, out_grad * node.output, index) / safe)
        return out_grad * apply(self, ones_like(x), index, source), share

    def _of_extreme(self, out_grad: Methods, node: Methods) -> tuple[Methods, Methods]:
        x, index, source = node.inputs
        gather = Gather(self.dim)
        own = cast_to(eq(x, node.output), x.dtype)
        won = cast_to(eq(source, apply(gather, node.output, index)), x.dtype)
        share = out_grad / apply(ScatterAdd(self.dim), own, index, won)
        return share * own, apply(gather, share, index) * won


def scatter_reduce(
    x: Kind, dim: int, index: Kind, src: Kind, reduce: str, *, include_self: bool = True
) -> Kind:
    """Return `x` with the elements of `src` put together at the places of `index` along `dim`.

    Args:
        x: any shape.
        dim: the axis along which `index` says the place.
        index: integers, with as many axes as `x`.
        src: at least of the shape of `index`, of the dtype of `x`.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the element of `x` at a place takes part.

    Raises:
        ArgumentError: another `reduce`.
        ShapeError, DTypeError: the shapes or dtypes do not fit.
    """
    if reduce not in ("sum", "mean", *_UFUNCS):
        raise ArgumentError(
            f"scatter_reduce: got reduce {reduce!r}, expected 'sum', 'prod', 'mean', 'amax' or "
            "'amin'."
        )
    if not x.shape or not index.shape:
        row, places, source = give_axis(x, index, src)
        reduced = scatter_reduce(row, dim, places, source, reduce, include_self=include_self)
        return reshape(reduced, tuple(x.shape))
    d = check_index("scatter_reduce", x, dim, index, src)
    src = getitem(src, tuple(slice(0, size) for size in index.shape))
    base = x if include_self else scatter(x, d, index, _neutral(reduce, x))
    if reduce in _UFUNCS:
        return apply(ScatterReduce(d, reduce), base, index, src)
    total = apply(ScatterAdd(d), base, index, src)
    if reduce == "sum":
        return total
    counted = ones_like(x) if include_self else scatter(ones_like(x), d, index, 0)
    count = apply(ScatterAdd(d), counted, index, ones_like(src))
    floating = as_dtype(x.dtype).kind == "f"
    return div(total, count, rounding_mode=None if floating else "floor")


def _neutral(reduce: str, x: Methods) -> float:
    """Return the number that changes no result."""
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    dtype = as_dtype(x.dtype)
    if dtype.kind == "f":
        return -math.inf if reduce == "amax" else math.inf
    return int(iinfo(dtype).min if reduce == "amax" else iinfo(dtype).max)
