"""Running sums and products along an axis, and first-order recurrences, their gradients."""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, DTypeLike, Namespace, as_dtype, cast, dtype_of, float16, int64
from ...op import Gradients, KeepsSpec, Kind, Methods, ReadsShapes, Spec, apply
from ..elementwise import compiled
from ..elementwise.casting import cast_to
from ..elementwise.unary import ones_like, zeros_like
from ..shaping.indexing import narrow
from ..shaping.joining import cat
from ..shaping.movement import AlongDim, reshape
from .ordering import along

LINE = 2**8  # sums that grow side by side, from which on adding whole lines is faster
RUN = 2**5  # of them in a row, from which on that is so


class Scan(AlongDim):
    """Base of what runs along an axis, or from its end; of NumPy's float16 in float32, as torch."""

    def __init__(self, dim: int, from_end: bool = False) -> None:
        super().__init__(dim)
        self.from_end = from_end

    def _by_kernel(self, xp: Namespace, name: str, *arrays: Any) -> Array | None:
        """Return what the kernel of this name gives, if it can."""
        if xp is np and dtype_of(arrays[0]) is float16:
            return self.compute(xp, *(a.astype(np.float32) for a in arrays)).astype(np.float16)
        if not compiled.fits_rows(xp, *arrays):
            return None
        shape = arrays[0].shape
        apart = math.prod(shape[self.dim + 1 :])
        how = {"n": shape[self.dim] * apart, "rows": apart, "first": int(self.from_end)}
        return compiled.over_rows(name, arrays, 0.0, shape, **how)

    def _turn(self, xp: Namespace, x: Array) -> Array:
        turned: Array = xp.flip(x, axis=self.dim) if self.from_end else x
        return turned


class CumSum(ReadsShapes, Scan):
    """Running sums along an axis, or from its end; integers add up as int64."""

    name = "cumsum"

    def compute(self, xp: Namespace, x: Array) -> Array:
        x = x if dtype_of(x).kind == "f" else cast(x, int64)
        by_kernel = self._by_kernel(xp, "running_sum", x)
        if by_kernel is not None:
            return by_kernel
        if xp is not np:
            running: Array = xp.cumulative_sum(self._turn(xp, x), axis=self.dim)
            return self._turn(xp, running)
        out: Array = np.empty(x.shape, x.dtype)
        terms, sums = self._turn(np, x), self._turn(np, out)
        run, count = math.prod(x.shape[self.dim + 1 :]), x.shape[self.dim]
        if run < RUN or x.size < LINE * count or not x.size:
            np.cumsum(terms, axis=self.dim, out=sums)
            return out
        terms, sums = np.moveaxis(terms, self.dim, 0), np.moveaxis(sums, self.dim, 0)
        sums[0] = last = terms[0]
        for term, place in zip(terms[1:], sums[1:], strict=True):
            last = np.add(last, term, out=place)
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[0].shape, specs[0].dtype if specs[0].dtype.kind == "f" else int64)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each element is in its own sum and all later ones."""
        return (apply(CumSum(self.dim, not self.from_end), out_grad),)


class CumProd(KeepsSpec, Scan):
    """Running products along an axis."""

    name = "cumprod"

    def compute(self, xp: Namespace, x: Array) -> Array:
        by_kernel = self._by_kernel(xp, "running_product", x)
        if by_kernel is not None:
            return by_kernel
        products: Array
        if xp is np:
            products = np.cumprod(x, axis=self.dim)
        else:
            products = xp.cumulative_prod(x, axis=self.dim)
        return products

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the product before, times s[i] = g[i] + x[i+1]·s[i+1]: right also at zeros."""
        (x,) = node.inputs
        share = apply(Recurrence(self.dim, True, by_last=True), x, out_grad)
        return (share * shift(node.output, self.dim, True, ones_like),)


class Recurrence(KeepsSpec, Scan):
    """h[i] = a[i]·h[i-1] + b[i] along an axis, or with a[i-1], the last one's; from 0.

    The gradient runs the other way: of the one kind it is the other.
    """

    name = "recurrence"

    def __init__(self, dim: int, from_end: bool, by_last: bool) -> None:
        super().__init__(dim, from_end)
        self.by_last = by_last

    def compute(self, xp: Namespace, a: Array, b: Array) -> Array:
        """Return h; without a kernel in log₂ n steps of whole arrays.

        Source: Hillis & Steele, Data parallel algorithms, CACM 29(12), 1986.
        """
        name = "recurrence_by_last" if self.by_last else "recurrence"
        by_kernel = self._by_kernel(xp, name, a, b)
        if by_kernel is not None:
            return by_kernel
        a, h = (xp.moveaxis(self._turn(xp, x), self.dim, 0) for x in (a, b))
        a, reach = xp.concat((a[:1], a[:-1]), axis=0) if self.by_last else a, 1
        while reach < h.shape[0]:
            h = xp.concat((h[:reach], a[reach:] * h[:-reach] + h[reach:]), axis=0)
            a = xp.concat((a[:reach], a[reach:] * a[:-reach]), axis=0)
            reach *= 2
        return self._turn(xp, xp.moveaxis(h, 0, self.dim))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return s·h[i-1], or s[i+1]·h, and s, which is the gradient run from the other end."""
        a, h, way = node.inputs[0], node.output, not self.from_end
        s = apply(Recurrence(self.dim, way, not self.by_last), a, out_grad)
        if self.by_last:
            return shift(s, self.dim, not way, zeros_like) * h, s
        return s * shift(h, self.dim, way, zeros_like), s


def shift(x: Any, dim: int, later: bool, edge: Any) -> Any:
    """Return `x` moved by one along an axis; `edge` makes what comes in of a slice."""
    n = x.shape[dim]
    first, rest = edge(narrow(x, dim, 0, min(n, 1))), max(n - 1, 0)
    parts = (first, narrow(x, dim, 0, rest)) if later else (narrow(x, dim, n - rest, rest), first)
    return cat(parts, dim)


def cumsum(x: Kind, dim: int, *, dtype: DTypeLike = None) -> Kind:
    """Return the running sums along `dim`."""
    row, d = along(x if dtype is None else cast_to(x, dtype), dim, "cumsum")
    sums = apply(CumSum(d), row)
    return sums if x.shape else reshape(sums, ())


def cumprod(x: Kind, dim: int, *, dtype: DTypeLike = None) -> Kind:
    """Return the running products along `dim`; the gradient is right also where elements are 0."""
    if dtype is not None or as_dtype(x.dtype).kind != "f":
        x = cast_to(x, dtype or int64)
    row, d = along(x, dim, "cumprod")
    products = apply(CumProd(d), row)
    return products if x.shape else reshape(products, ())
