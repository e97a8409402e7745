"""Reductions made of others: products, variances, norms."""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, DTypeLike, Index, Namespace, as_dtype
from ...arrays.shapes import axes_or_all, axis
from ...errors import ArgumentError
from ...op import Gradients, Kind, Methods, apply
from ..elementwise.binary import where
from ..elementwise.casting import cast_to, require_floats
from ..elementwise.formulas import at_once
from ..elementwise.logic import eq, ne
from ..elementwise.pointwise import pow
from ..elementwise.rows import unary
from ..elementwise.unary import abs, ones_like, zeros_like
from ..shaping.movement import flip, reshape
from .reduction import Dims, ExtremeOrNaN, Mean, Reduction, extreme, is_short, mean, sum
from .scans import CumProd, shift


class Prod(Reduction):
    """The product along one axis, as a tree of products of halves, which rounds least."""

    name = "prod"

    def compute(self, xp: Namespace, x: Array) -> Array:
        (d,) = self.dims
        lead: tuple[Index, ...] = (slice(None),) * d
        if xp is not np or not x.shape[d]:
            return xp.prod(x, axis=d, keepdims=self.keepdim)
        while (size := x.shape[d]) > 1:
            half = size // 2
            pairs = x[(*lead, slice(0, half))] * x[(*lead, slice(half, 2 * half))]
            if size % 2:
                pairs[(*lead, slice(0, 1))] *= x[(*lead, slice(2 * half, None))]
            x = pairs
        return np.array(x if self.keepdim else x[(*lead, 0)])

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the product of the others, times the gradient: right also where elements are 0."""
        x, d = node.inputs[0], self.dims[0]
        g, y = (self.spread(value, x) for value in (out_grad, node.output))
        if type(y) is np.ndarray and _is_normal(y):
            return (at_once(_of_others, (g, x, y)),)
        before = shift(apply(CumProd(d), x), d, True, ones_like)
        after = shift(apply(CumProd(d), flip(x, d)), d, True, ones_like)
        return (g * before * flip(after, d),)


def _of_others(g: Methods, x: Methods, y: Methods) -> Methods:
    return y / x * g


def _is_normal(y: Array) -> bool:
    """Tell whether all numbers are finite and have all their bits."""
    size = np.abs(y)
    return bool((size >= np.finfo(y.dtype).tiny).all() and np.isfinite(size).all())


def prod(
    x: Kind, dim: int | None = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Kind:
    """Return the product along `dim`, or of all elements; integers multiply as int64."""
    x = cast_to(x, dtype or ("int64" if as_dtype(x.dtype).kind != "f" else x.dtype))
    if dim is None or not x.shape:
        product = apply(Prod((0,), False), reshape(x, -1))
        return reshape(product, (1,) * len(x.shape) if keepdim else ())
    return apply(Prod((axis(dim, len(x.shape), "prod"),), keepdim), x)


root = unary(
    "root",
    lambda xp, x: xp.sqrt(x),
    lambda g, x, y: where(y == 0, 0.0, g / (where(y == 0, 1.0, y) * 2.0)),
    "√x, whose slope at 0 is taken to be 0.",
    promotes="float",
)


class Variance(Reduction):
    """Σ (x - mean)² / `free` along axes."""

    reads_output = False
    name = "var"

    def __init__(self, dims: tuple[int, ...], keepdim: bool, free: float) -> None:
        super().__init__(dims, keepdim)
        self.free = free

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is not np:
            away = x - xp.mean(x, axis=self.dims, keepdims=True)
            return xp.sum(away * away, axis=self.dims, keepdims=self.keepdim) / self.free
        away = np.asarray(x - Mean(self.dims, True).compute(np, x))
        variance: Array = self.total(np.square(away, out=away), x.dtype) / x.dtype.type(self.free)
        return variance

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return 2 (x - mean) / `free`, times the gradient."""
        (x,) = node.inputs
        share = self.spread(out_grad, x) * 2.0 / self.free
        return ((x - mean(x, self.dims, True)) * share,)


def var(
    x: Methods,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Any:
    """Return the variance along `dim`: the sum of squares over n - `correction`, which is 1."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    require_floats("var", x)
    over = axes_or_all(dim, len(x.shape), "var")
    free = max(math.prod(x.shape[d] for d in over) - float(correction), 0.0)
    return apply(Variance(over, keepdim, free), x)


def std(x: Methods, *args: Any, **options: Any) -> Any:
    """Return the square root of `var`, whose arguments it takes."""
    require_floats("std", x)
    return root(var(x, *args, **options))


class Length(Reduction):
    """√Σx² along axes; at the origin the gradient is taken to be 0."""

    name = "norm"

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is np and self.dims == (x.ndim - 1,) and x.dtype.char in "fd" and is_short(x):
            lengths: Array = np.sqrt(np.vecdot(x, x))
            return lengths[..., None] if self.keepdim else lengths
        return xp.sqrt(xp.sum(x * x, axis=self.dims, keepdims=self.keepdim))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the unit vector, times the gradient."""
        x, y = node.inputs[0], self.spread(node.output, node.inputs[0])
        unit = x / where(y == 0, 1.0, y)
        return (unit * self.spread(out_grad, x),)


def vector_norm(
    x: Kind, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Kind:
    """Return (Σ|x|ᵖ)^(1/p) along `dim`, p being `ord`: also 0, inf and -inf."""
    x = x if dtype is None else cast_to(x, dtype)
    require_floats("vector_norm", x)
    over = axes_or_all(dim, len(x.shape), "vector_norm")
    if ord == 2:
        return apply(Length(over, keepdim), x)
    size = abs(x)
    if ord in (math.inf, -math.inf):
        if not over:
            return size
        return extreme(size, over, keepdim, ExtremeOrNaN, ord > 0)
    if ord == 0:
        steps = cast_to(ne(x, 0), x.dtype) + zeros_like(x)  # whose gradient is 0, not missing
        return sum(steps, over, keepdim)
    if ord == 1:
        return sum(size, over, keepdim)
    zero = eq(size, 0)
    powers = where(zero, 0.0 if ord > 0 else math.inf, pow(where(zero, 1.0, size), ord))
    total = sum(powers, over, keepdim)
    none = eq(total, 0)
    return where(none, 0.0, pow(where(none, 1.0, total), 1.0 / ord))


def norm(
    input: Kind,
    p: Any = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike = None,
) -> Kind:
    """Return the norm of order `p` of the elements along `dim`; "fro" is 2.

    Raises:
        ArgumentError: another name, such as "nuc", which needs singular values.
    """
    if p is None or p == "fro":
        p = 2
    if isinstance(p, str):
        raise ArgumentError(f"norm: got order {p!r}, expected 'fro' or a number.")
    return vector_norm(input, float(p), dim, keepdim, dtype=dtype)


def count_nonzero(x: Kind, dim: Dims = None) -> Kind:
    """Return how many elements along `dim` are not 0."""
    return sum(ne(x, 0), dim)
