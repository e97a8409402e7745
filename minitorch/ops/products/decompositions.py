"""Matrices taken apart: eigenvalues, singular values, and norms by them.

A decomposition is one operator whose result holds all its parts side by side, a row for each
eigenvalue or singular value; the parts are slices of it. So one rule serves all of them, reads the
parts as values, and differentiates again. Differences of equal eigenvalues, by which the rules
would divide, count as infinite: what only spins the vectors of one eigenspace gets no gradient.

Source of the rules: Giles, Oxford report NA-08-01, 2008.
"""

import math
from collections.abc import Sequence
from typing import Generic, NamedTuple

from ...arrays.library import Array, DTypeLike, Namespace
from ...arrays.shapes import INTEGERS, axes
from ...errors import ArgumentError, AxisError, ShapeError
from ...op import Flat, Gradients, Kind, Methods, Op, Spec, apply
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import eq
from ..elementwise.unary import abs
from ..reducing.reduction import amax, amin, sum
from ..reducing.statistics import vector_norm
from ..shaping.indexing import narrow
from ..shaping.joining import cat
from ..shaping.matrices import diagonal_matrices
from ..shaping.movement import insert_axes, movedim
from .linalg import matmul, mT
from .linear_systems import check_matrices


class Eigh(NamedTuple, Generic[Kind]):
    """What `eigh` gives."""

    eigenvalues: Kind
    eigenvectors: Kind


class SVD(NamedTuple, Generic[Kind]):
    """What `svd` gives."""

    U: Kind
    S: Kind
    Vh: Kind


# ── eigenvalues and singular values ─────────────────────────────────────────────────────────────


def _over(x: Kind, differences: Kind) -> Kind:
    """Return x / differences, and 0 where those are 0."""
    none = eq(differences, 0)
    return where(none, 0.0, x / where(none, 1.0, differences))


class SymmetricParts(Op):
    """The eigenvectors of symmetric (..., n, n) as rows, and at the end of each its eigenvalue."""

    on_arrays = True
    reads_inputs = False
    name = "linalg_eigh"

    def __init__(self, triangle: str) -> None:
        self.triangle = triangle

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return (..., n, n + 1), ascending; only one triangle is read."""
        values, vectors = xp.linalg.eigh(x, UPLO=self.triangle)
        return xp.concat([xp.swapaxes(vectors, -1, -2), values[..., None]], axis=-1)

    def infer(self, *specs: Spec) -> Spec:
        *lead, n = specs[0].shape
        return Spec((*lead, None if n is None else n + 1), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """dA = V (skew(VᵀdV) / (λⱼ - λᵢ) + diag dλ) Vᵀ, which is symmetric."""
        n = node.output.shape[-2]
        rows, values = narrow(node.output, -1, 0, n), narrow(node.output, -1, n, 1)
        turn = matmul(rows, mT(narrow(out_grad, -1, 0, n)))
        turn = (turn - mT(turn)) * 0.5
        inner = _over(turn, mT(values) - values) + diagonal_matrices(out_grad[..., n])
        return (matmul(mT(rows), matmul(inner, rows)),)


def eigh(A: Kind, UPLO: str = "L") -> Eigh[Kind]:
    """Return the eigenvalues (..., n) of symmetric matrices, ascending, and vectors as columns.

    Args:
        A: (..., n, n), of which one triangle is read.
        UPLO: "L", the lower one, or "U".
    """
    check_matrices("eigh", A)
    if UPLO not in ("L", "U"):
        raise ArgumentError(f"linalg.eigh: got UPLO {UPLO!r}, expected 'L' or 'U'.")
    parts = apply(SymmetricParts(UPLO), A)
    n = A.shape[-1]
    return Eigh(parts[..., n], mT(narrow(parts, -1, 0, n)))


class SingularParts(Op):
    """A row (u, σ, v) of length m + 1 + n for each singular value of (..., m, n)."""

    on_arrays = True
    reads_inputs = False
    name = "linalg_svd"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return (..., min(m, n), m + 1 + n), descending."""
        u, s, vh = xp.linalg.svd(x, full_matrices=False)
        return xp.concat([xp.swapaxes(u, -1, -2), s[..., None], vh], axis=-1)

    def infer(self, *specs: Spec) -> Spec:
        *lead, m, n = specs[0].shape
        if m is None or n is None:
            raise ShapeError(f"linalg.svd: got {specs[0].shape}, expected known sizes.")
        return Spec((*lead, min(m, n), m + 1 + n), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the gradient in the spaces of U and V, and in what is orthogonal to them."""
        m, n = (int(size) for size in node.inputs[0].shape[-2:])
        u, s, v = _parts(node.output, m, n)
        du, ds, dv = _parts(out_grad, m, n)
        differences = mT(s * s) - s * s
        turn_u, turn_v = matmul(u, mT(du)), matmul(v, mT(dv))
        inner = _over(turn_u - mT(turn_u), differences) * mT(s) + diagonal_matrices(ds[..., 0])
        inner = inner + s * _over(turn_v - mT(turn_v), differences)
        total = matmul(mT(u), matmul(inner, v))
        if m > n:  # what of dU leaves the space of U
            total = total + matmul(mT(_over(du - matmul(mT(turn_u), u), s)), v)
        if n > m:
            total = total + matmul(mT(u), _over(dv - matmul(mT(turn_v), v), s))
        return (total,)


def _parts(rows: Kind, m: int, n: int) -> tuple[Kind, Kind, Kind]:
    """Return Uᵀ (..., k, m), σ (..., k, 1) and Vᵀ (..., k, n)."""
    return narrow(rows, -1, 0, m), narrow(rows, -1, m, 1), narrow(rows, -1, m + 1, n)


class Complement(Flat):
    """Orthonormal columns that make those of (..., m, k) a basis: (..., m, m - k)."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the last columns of the complete QR decomposition."""
        basis: Array = xp.linalg.qr(x, mode="complete")[0]
        return basis[..., x.shape[-1] :]


def svd(A: Kind, full_matrices: bool = True) -> SVD[Kind]:
    """Return U (..., m, k), the singular values (..., k), descending, and Vh (..., k, n) of A.

    A = U diag(S) Vh, with k = min(m, n). `full_matrices` makes U and Vh square; through the
    vectors that this adds flows no gradient, as in torch.
    """
    check_matrices("svd", A, square=False)
    u, s, vh = _parts(apply(SingularParts(), A), *A.shape[-2:])
    u = mT(u)
    if full_matrices and A.shape[-2] > A.shape[-1]:
        u = cat((u, apply(Complement(), u)), -1)
    if full_matrices and A.shape[-1] > A.shape[-2]:
        vh = cat((vh, mT(apply(Complement(), mT(vh)))), -2)
    return SVD(u, s[..., 0], vh)


# ── norms ───────────────────────────────────────────────────────────────────────────────────────


def matrix_norm(
    A: Kind,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DTypeLike = None,
) -> Kind:
    """Return a norm of the matrices in the two axes `dim`.

    Args:
        A: at least two axes.
        ord: "fro", the root of the sum of squares; "nuc", the sum of the singular values; 2 or -2,
            the largest or smallest of those; 1 or -1, the largest or smallest sum of a column;
            inf or -inf, of a row.
        dim: the axes of rows and columns.
        keepdim: keep them as size 1.
        dtype: convert to it first.

    Raises:
        ArgumentError: another order.
        AxisError: not two different axes.
    """
    A = A if dtype is None else cast_to(A, dtype)
    check_matrices("matrix_norm", A, square=False)
    if len(dim) != 2 or len(axes(dim, len(A.shape), "linalg.matrix_norm")) != 2:
        raise AxisError(f"linalg.matrix_norm: got dim {dim}, expected two axes.")
    if ord == "fro":
        return vector_norm(A, 2, dim, keepdim)
    x = movedim(A, tuple(dim), (-2, -1))
    reduce = amin if isinstance(ord, int | float) and ord < 0 else amax
    if ord == "nuc":
        norms = sum(svd(x, False).S, -1)
    elif ord in (2, -2):
        norms = reduce(svd(x, False).S, -1)
    elif ord in (1, -1, math.inf, -math.inf):
        norms = reduce(sum(abs(x), -2 if ord in (1, -1) else -1), -1)
    else:
        raise ArgumentError(
            f"linalg.matrix_norm: got order {ord!r}, expected 'fro', 'nuc', 1, 2, inf, or the "
            "negative of one. Use vector_norm."
        )
    for d in sorted(axes(dim, len(A.shape), "linalg.matrix_norm")) if keepdim else ():
        norms = insert_axes(norms, (d,))
    return norms


def norm(
    A: Kind,
    ord: float | str | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DTypeLike = None,
) -> Kind:
    """Return a norm: of all elements without `ord`, of matrices where `dim` names two axes.

    With `ord` and no `dim` a vector has the norm of a vector, a matrix that of a matrix.
    """
    rank = len(A.shape)
    if ord is None or isinstance(dim, INTEGERS) or (dim is not None and len(dim) == 1):
        return vector_norm(A, 2 if ord is None else float(ord), dim, keepdim, dtype=dtype)
    if dim is None and rank == 1 and not isinstance(ord, str):
        return vector_norm(A, float(ord), None, keepdim, dtype=dtype)
    if dim is None and rank != 2:
        raise ShapeError(
            f"linalg.norm: got {rank} axes and order {ord!r}, expected 1 or 2. Say dim."
        )
    return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
