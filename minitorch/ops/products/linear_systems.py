"""Determinants of matrices, and the solutions of linear systems.

Source of the rules: Giles, Oxford report NA-08-01, 2008.
"""

import math
from typing import Generic, NamedTuple

import numpy as np

from ...arrays.library import Array, Namespace
from ...arrays.shapes import broadcast
from ...errors import ArgumentError, ShapeError
from ...op import Flat, Gradients, KeepsSpec, Kind, Methods, Op, Spec, apply
from ..elementwise.binary import where
from ..elementwise.casting import require_floats
from ..elementwise.logic import eq
from ..elementwise.unary import ones_like
from ..reducing.reduction import sum
from ..shaping.broadcasting import sum_to
from ..shaping.matrices import diagonal, diagonal_matrices
from ..shaping.movement import insert_axes, remove_axes
from .linalg import matmul, mT


class SlogDet(NamedTuple, Generic[Kind]):
    """What `slogdet` gives."""

    sign: Kind
    logabsdet: Kind


def check_matrices(name: str, x: Methods, square: bool = True) -> None:
    """Raise unless `x` holds floating matrices, square ones where told.

    Raises:
        ShapeError, DTypeError: it does not.
    """
    shape = tuple(x.shape)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "(..., n, n)" if square else "(..., m, n)"
        raise ShapeError(f"linalg.{name}: got shape {shape}, expected {kind}.")
    require_floats(f"linalg.{name}", x)


def _inverse(x: Kind) -> Kind:
    return solve(x, _identity(x))


def _identity(x: Kind) -> Kind:
    return diagonal_matrices(ones_like(diagonal(x, 0, -2, -1)))


# ── determinants ────────────────────────────────────────────────────────────────────────────────


class Det(Op):
    """The determinant of each matrix (..., n, n)."""

    on_arrays = True
    name = "linalg_det"

    def compute(self, xp: Namespace, x: Array) -> Array:
        return xp.linalg.det(x)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[0].shape[:-2], specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the cofactors, times the gradient."""
        cofactors = apply(Cofactors(), node.inputs[0], node.output)
        rank = len(out_grad.shape)
        return (insert_axes(out_grad, (rank, rank + 1)) * cofactors,)


class Cofactors(KeepsSpec):
    """det(A) A⁻ᵀ for A and det(A); of singular matrices, which have it too, by singular values."""

    on_arrays = True
    name = "cofactors"

    def compute(self, xp: Namespace, x: Array, det: Array) -> Array:
        """Return U diag(Π of the other singular values) Vᵀ, with the sign of det(U Vᵀ)."""
        if not x.shape[-1]:
            return x
        regular = _regular_cofactors(x, det) if xp is np else None
        if regular is not None:
            return regular
        u, s, vh = xp.linalg.svd(x, full_matrices=False)
        others = xp.stack(
            [xp.prod(_without(xp, s, i), axis=-1) for i in range(s.shape[-1])], axis=-1
        )
        sign = xp.linalg.det(u) * xp.linalg.det(vh)
        cofactors: Array = ((u * others[..., None, :]) @ vh) * xp.round(sign)[..., None, None]
        return cofactors

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return A⁻ᵀ <C, g> - A⁻ᵀ gᵀ C, all of it by A: only where A is regular."""
        cofactors, back = node.output, mT(_inverse(node.inputs[0]))
        total = sum(out_grad * cofactors, (-2, -1), True)
        return back * total - matmul(back, matmul(mT(out_grad), cofactors)), None


def _regular_cofactors(x: Array, det: Array) -> Array | None:
    """Return det(A) A⁻ᵀ of NumPy's matrices; None where a determinant has lost bits, or is 0.

    Both are of one triangular form, of whose rounding hardly any is left in the product, however
    nearly singular A is.
    """
    size = np.abs(det)
    if not ((size >= np.finfo(x.dtype).tiny) & (size < math.inf)).all():
        return None
    cofactors: Array = np.linalg.inv(x).swapaxes(-1, -2)
    cofactors *= det[..., None, None]
    return cofactors


def _without(xp: Namespace, x: Array, place: int) -> Array:
    return xp.concat([x[..., :place], x[..., place + 1 :]], axis=-1)


class LogDet(Det):
    """ln |det| of each matrix (..., n, n)."""

    reads_output = False
    name = "logabsdet"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return (...); -∞ of a singular matrix."""
        logarithm: Array = xp.linalg.slogdet(x)[1]
        return logarithm

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return A⁻ᵀ, times the gradient; infinity for a singular matrix."""
        x, rank = node.inputs[0], len(out_grad.shape)
        flat = insert_axes(eq(apply(DetSign(), x), 0), (rank, rank + 1))
        inverse = _inverse(where(flat, _identity(x), x))
        return (insert_axes(out_grad, (rank, rank + 1)) * where(flat, math.inf, mT(inverse)),)


class DetSign(Flat, Det):
    """The sign of the determinant: 1, -1 or 0."""

    name = "det_sign"

    def compute(self, xp: Namespace, x: Array) -> Array:
        sign: Array = xp.linalg.slogdet(x)[0]
        return sign


def det(x: Kind) -> Kind:
    """Return the determinant of each matrix (..., n, n).

    Raises:
        ShapeError, DTypeError: no square matrices of floats; so do all functions here.
    """
    check_matrices("det", x)
    return apply(Det(), x)


def slogdet(x: Kind) -> SlogDet[Kind]:
    """Return the sign of each determinant, and the logarithm of its size, without overflow."""
    check_matrices("slogdet", x)
    return SlogDet(apply(DetSign(), x), apply(LogDet(), x))


# ── linear systems ──────────────────────────────────────────────────────────────────────────────


class Solve(Op):
    """X of A X = B, for A (..., n, n) and B (..., n, k); the leading axes broadcast."""

    on_arrays = True
    promotes = "same"
    name = "linalg_solve"

    def compute(self, xp: Namespace, a: Array, b: Array) -> Array:
        """Return A⁻¹ B.

        Raises:
            ArgumentError: a matrix is singular.
        """
        try:
            return xp.linalg.solve(a, b)
        except (np.linalg.LinAlgError, RuntimeError) as error:
            if "ingular" not in str(error):
                raise
            raise ArgumentError(
                "linalg.solve: a matrix is singular: got no inverse. Add a small multiple of the "
                "identity, or use svd."
            ) from error

    def infer(self, *specs: Spec) -> Spec:
        """Return (..., n, k).

        Raises:
            ShapeError: the rows of B are not those of A.
        """
        a, b = specs[0].shape, specs[1].shape
        if a[-1] != b[-2] and None not in (a[-1], b[-2]):
            raise ShapeError(f"linalg.solve: got {a} and {b}, expected (..., n, n), (..., n, k).")
        return Spec((*broadcast(a[:-2], b[:-2], op="linalg.solve"), *b[-2:]), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """dB = A⁻ᵀ dX and dA = -dB Xᵀ."""
        a, b = node.inputs
        share = apply(self, mT(a), out_grad)
        left = sum_to(-matmul(share, mT(node.output)), a) if node.wants[0] else None
        return left, sum_to(share, b)


def solve(A: Kind, B: Kind, *, left: bool = True) -> Kind:
    """Return X of A X = B, or of X A = B where not `left`.

    Args:
        A: (..., n, n), regular.
        B: (..., n, k), or vectors (..., n) where it has one axis, or the axes of A but one.
        left: whether A stands on the left.

    Raises:
        ArgumentError: a matrix is singular.
    """
    check_matrices("solve", A)
    shape = tuple(B.shape)
    if len(shape) == 1 or (len(shape) == len(A.shape) - 1 and shape == tuple(A.shape[:-1])):
        columns = apply(Solve(), A if left else mT(A), insert_axes(B, (len(shape),)))
        return remove_axes(columns, (len(columns.shape) - 1,))
    check_matrices("solve", B, square=False)
    return apply(Solve(), A, B) if left else mT(apply(Solve(), mT(A), mT(B)))


def inv(A: Kind) -> Kind:
    """Return the inverse of each matrix (..., n, n).

    Raises:
        ArgumentError: a matrix is singular.
    """
    check_matrices("inv", A)
    return _inverse(A)
