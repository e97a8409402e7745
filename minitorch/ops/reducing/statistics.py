"""Reductions made of others: products, variances, norms."""

import math
from typing import Any

from ...arrays.library import Array, DTypeLike, Namespace, as_dtype
from ...arrays.shapes import axes_or_all, axis
from ...errors import ArgumentError
from ...op import Gradients, Kind, Methods, apply
from ..elementwise.binary import where
from ..elementwise.casting import cast_to, clone, floats_only
from ..elementwise.logic import eq, ne
from ..elementwise.pointwise import pow
from ..elementwise.rows import unary
from ..elementwise.unary import abs, zeros_like
from ..shaping.indexing import narrow
from ..shaping.joining import cat
from ..shaping.movement import reshape
from .reduction import Dims, ExtremeOrNaN, Reduction, extreme, mean, sum


def prod(
    x: Kind, dim: int | None = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Kind:
    """Return the product along `dim`, or of all elements; integers multiply as int64.

    A tree of products of halves, whose gradient is right also where elements are 0.
    """
    x = cast_to(x, dtype or ("int64" if as_dtype(x.dtype).kind != "f" else x.dtype))
    d = 0 if dim is None else axis(dim, len(x.shape), "prod")
    flat = reshape(x, -1) if dim is None or not x.shape else x
    flat = clone(flat) if flat.shape[d] == 1 else flat  # a product is no view
    while (size := flat.shape[d]) > 1:
        half = size // 2
        pairs = narrow(flat, d, 0, half) * narrow(flat, d, half, half)
        flat = cat((pairs, narrow(flat, d, 2 * half, 1)), d) if size % 2 else pairs
    if not flat.shape[d]:
        flat = sum(flat, d, True) * 0 + 1
    if dim is None or not x.shape:
        return reshape(flat, (1,) * len(x.shape) if keepdim else ())
    return flat if keepdim else reshape(flat, (*flat.shape[:d], *flat.shape[d + 1 :]))


root = unary(
    "root",
    lambda xp, x: xp.sqrt(x),
    lambda g, x, y: where(y == 0, 0.0, g / (where(y == 0, 1.0, y) * 2.0)),
    "√x, whose slope at 0 is taken to be 0.",
    promotes="float",
)


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
    floats_only("var", x)
    over = axes_or_all(dim, len(x.shape), "var")
    away = x - (mean(x, over, True) if over else x)
    free = max(math.prod(x.shape[d] for d in over) - float(correction), 0)
    return (sum(away * away, over, keepdim) if over else away * away) / float(free)


def std(x: Methods, *args: Any, **options: Any) -> Any:
    """Return the square root of `var`, whose arguments it takes."""
    floats_only("std", x)
    return root(var(x, *args, **options))


class Length(Reduction):
    """√Σx² along axes; at the origin the gradient is taken to be 0."""

    name = "norm"

    def compute(self, xp: Namespace, x: Array) -> Array:
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
    floats_only("vector_norm", x)
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
    x: Kind,
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
    return vector_norm(x, float(p), dim, keepdim, dtype=dtype)


def count_nonzero(x: Kind, dim: Dims = None) -> Kind:
    """Return how many elements along `dim` are not 0."""
    return sum(ne(x, 0), dim)
