"""Matrices as products of special ones, under TensorFlow's names: svd, eigenvalues, QR.

Each operator gives its factors side by side in one array, which is then cut; so a factor that
nobody uses costs nothing, and one rule has the gradient by all of them.

Sources: Townsend, Differentiating the singular value decomposition, 2016; Giles, 2008; Walter &
Lehmann, Algorithmic differentiation of linear algebra functions, 2010, for QR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...errors import GraphError
from ...op import Op, Spec
from ...ops import decompositions, linalg, matrices, movement
from ..lined import lined
from ..naming import rename, rename_all
from ..node import Node, build, convert
from .elementwise import equal, greater, less_equal, where
from .late import unknown
from .math import cast, matmul, reduce_max, reduce_sum
from .shaping import expand_dims

Sizes = tuple[int, ...]


class Factors(Op):
    """Base: factors of a matrix (m, n), flat and side by side along a last axis."""

    promotes = "float"
    reads_inputs = False

    def __init__(self, m: int, n: int) -> None:
        self.m, self.n, self.k = m, n, min(m, n)

    def sizes(self) -> list[Sizes]:
        """The axes of each factor behind the batch's."""
        raise NotImplementedError(f"{self.name}: `sizes` is not defined. Define it.")

    def _factors(self, xp: Any, x: Array) -> Sequence[Array]:
        """Return the factors of an array."""
        raise NotImplementedError(f"{self.name}: `_factors` is not defined. Define it.")

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the factors side by side."""
        batch = arrays[0].shape[:-2]
        found = [xp.reshape(f, (*batch, -1)) for f in self._factors(xp, arrays[0])]
        return xp.concat(found, axis=-1)

    def infer(self, *specs: Spec) -> Spec:
        """Return the batch's shape and one axis for all factors."""
        total = sum(_count(size) for size in self.sizes())
        return Spec((*specs[0].shape[:-2], total), specs[0].dtype)

    def cut(self, packed: Any) -> list[Any]:
        """Return the factors out of what `compute` gave, or of its gradient."""
        batch = [-1 if n is None else n for n in tuple(packed.shape)[:-1]]
        found, start = [], 0
        for size in self.sizes():
            piece = packed[..., start : start + _count(size)]
            found.append(movement.reshape(piece, (*batch, *size)))
            start += _count(size)
        return found


def _count(size: Sizes) -> int:
    return size[0] if len(size) == 1 else size[0] * size[1]


def _gaps(values: Any) -> Any:
    """Return 1 / (v_j - v_i) for each pair, 0 where the two are equal."""
    apart = values[..., None, :] - values[..., :, None]
    same = equal(apart, 0.0)
    return where(same, apart * 0.0, 1.0 / where(same, apart + 1.0, apart))


class Singular(Factors):
    """The singular values, and the vectors on either side."""

    def sizes(self) -> list[Sizes]:
        """s (k), u (m, k), v (n, k)."""
        return [(self.k,), (self.m, self.k), (self.n, self.k)]

    def _factors(self, xp: Any, x: Array) -> Sequence[Array]:
        """Return s, u and v."""
        u, s, vt = xp.linalg.svd(x, full_matrices=False)
        return s, u, xp.matrix_transpose(vt)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Townsend's formula."""
        s, u, v = self.cut(node.output)
        by_s, by_u, by_v = self.cut(out_grad)
        gaps, row, column = _gaps(s * s), s[..., None, :], s[..., :, None]
        left, right = gaps * (linalg.mT(u) @ by_u), gaps * (linalg.mT(v) @ by_v)
        inner = (left + linalg.mT(left)) * row + column * (right + linalg.mT(right))
        inner = inner + matrices.diag_embed(by_s)
        found = u @ inner @ linalg.mT(v)
        if self.m > self.k:
            rest = by_u / row
            found = found + (rest - u @ (linalg.mT(u) @ rest)) @ linalg.mT(v)
        if self.n > self.k:
            rest = by_v / row
            found = found + u @ linalg.mT(rest - v @ (linalg.mT(v) @ rest))
        return (found,)


class Eigen(Factors):
    """The eigenvalues of symmetric matrices, rising, and their vectors as columns."""

    def sizes(self) -> list[Sizes]:
        """e (n), v (n, n)."""
        return [(self.n,), (self.n, self.n)]

    def _factors(self, xp: Any, x: Array) -> Sequence[Array]:
        """Return e and v; only the lower triangle of `x` is read."""
        return tuple(xp.linalg.eigh(x))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """V (diag(by e) + gaps * Vᵀ by v) Vᵀ, all of it on the lower triangle, which is read."""
        e, v = self.cut(node.output)
        by_e, by_v = self.cut(out_grad)
        inner = matrices.diag_embed(by_e) + _gaps(e) * (linalg.mT(v) @ by_v)
        whole = v @ inner @ linalg.mT(v)
        return (matrices.tril(whole) + matrices.tril(linalg.mT(whole), -1),)


class Orthogonal(Factors):
    """Q with orthonormal columns, and R, an upper triangle."""

    def sizes(self) -> list[Sizes]:
        """Q (m, k), R (k, n)."""
        return [(self.m, self.k), (self.k, self.n)]

    def _factors(self, xp: Any, x: Array) -> Sequence[Array]:
        """Return Q and R."""
        return tuple(xp.linalg.qr(x))

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """(by Q + Q S) R⁻ᵀ, S the lower triangle of R (by R)ᵀ - (by Q)ᵀ Q and its mirror.

        Raises:
            GraphError: the matrix is wider than high, for which there is no such formula.
        """
        if self.m < self.n:
            raise GraphError(
                f"qr: got {self.m} x {self.n} and a gradient, expected no more columns than rows."
            )
        q, r = self.cut(node.output)
        by_q, by_r = self.cut(out_grad)
        both = r @ linalg.mT(by_r) - linalg.mT(by_q) @ q
        mirrored = matrices.tril(both) + linalg.mT(matrices.tril(both, -1))
        return (linalg.mT(decompositions.solve(r, linalg.mT(by_q + q @ mirrored))),)


class SVD(NamedTuple):
    """Singular values, left and right vectors as columns."""

    s: Node
    u: Node
    v: Node


class QR(NamedTuple):
    """Orthonormal columns, and the upper triangle."""

    q: Node
    r: Node


@lined
def _factored(where_: str, kind: type[Factors], tensor: Any, name: str | None) -> list[Any]:
    x = convert(tensor)
    if unknown(x) or len(x.shape) < 2 or None in x.shape[-2:] or list(x.shape).count(None) > 1:
        raise GraphError(
            f"{where_}: got {x.name!r} of shape {x.shape}, expected (..., m, n) with known sizes "
            f"(built at {x.location}). Use set_shape."
        )
    m, n = int(x.shape[-2]), int(x.shape[-1])
    if kind is Eigen and m != n:
        raise GraphError(f"{where_}: got {m} x {n}, expected a square matrix.")
    op = kind(m, n)
    found = op.cut(build(op, (x,)))
    rename_all(found, name)
    return found


def svd(
    tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None
) -> Any:
    """(s, u, v) with tensor = u diag(s) vᵀ, s falling; `s` alone without `compute_uv`.

    Raises:
        GraphError: `full_matrices` of one that is not square.
    """
    found = SVD(*_factored("svd", Singular, tensor, name))
    if full_matrices and found.u.shape[-2] != found.v.shape[-2]:
        raise GraphError("svd: got full_matrices=True for no square, expected False.")
    return found if compute_uv else found.s


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Node, Node]:
    """Eigenvalues, rising, and eigenvectors as columns; the lower triangle alone is read."""
    e, v = _factored("self_adjoint_eig", Eigen, tensor, name)
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Node:
    """Eigenvalues of symmetric matrices, rising."""
    return self_adjoint_eig(tensor, name)[0]


def qr(input: Any, full_matrices: bool = False, name: str | None = None) -> QR:
    """(q, r) with input = q r.

    Raises:
        GraphError: `full_matrices` of one that is higher than wide.
    """
    found = QR(*_factored("qr", Orthogonal, input, name))
    if full_matrices and found.q.shape[-2] != found.q.shape[-1]:
        raise GraphError("qr: got full_matrices=True for a high matrix, expected False.")
    return found


@lined
def pinv(a: Any, rcond: Any = None, name: str | None = None) -> Node:
    """Moore and Penrose's inverse: singular values below `rcond` times the largest count as 0."""
    s, u, v = svd(a)
    least = 10.0 * max(int(u.shape[-2]), int(v.shape[-2])) * np.finfo(s.dtype).eps
    limit = reduce_max(s, -1, True) * (least if rcond is None else rcond)
    small = less_equal(s, limit)
    inverse = where(small, s * 0.0, 1.0 / where(small, s * 0.0 + 1.0, s))
    return rename(matmul(v * expand_dims(inverse, -2), u, transpose_b=True), name)


@lined
def matrix_rank(a: Any, tol: Any = None, name: str | None = None) -> Node:
    """How many singular values are above `tol`: eps max(m, n) times the largest unless given."""
    s, u, v = svd(a)
    least = max(int(u.shape[-2]), int(v.shape[-2])) * float(np.finfo(s.dtype).eps)
    limit = reduce_max(s, -1, True) * least if tol is None else tol
    return reduce_sum(cast(greater(s, limit), "int32"), -1, name=name)
