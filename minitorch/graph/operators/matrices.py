"""Matrices under TensorFlow's names: diagonals, bands, products by letters, decompositions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from ...errors import GraphError
from ...ops import decompositions, linalg, matrices
from ...ops import einsum as letters
from ..alike import alike
from ..lined import lined
from ..naming import rename, rename_all
from ..node import Node, convert
from .elementwise import abs as size_of
from .elementwise import log, sign
from .late import late, once_known, unknown
from .making import eye
from .math import matmul, reduce_sum
from .shaping import expand_dims, squeeze

__all__ = [
    "cholesky",
    "cholesky_solve",
    "cross",
    "diag",
    "diag_part",
    "einsum",
    "logdet",
    "matrix_band_part",
    "matrix_determinant",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_inverse",
    "matrix_set_diag",
    "matrix_solve",
    "matrix_trace",
    "matrix_transpose",
    "matrix_triangular_solve",
    "meshgrid",
    "tensordot",
]


def _of_matrix(function: Callable[[Any], Any], name: str, says: str) -> Callable[..., Node]:
    @lined
    @once_known
    def call(input: Any, name: str | None = None) -> Node:
        return rename(function(input), name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    return call


def _trace(x: Any) -> Any:
    return matrices.diagonal(x, 0, -2, -1).sum(-1)


cholesky = _of_matrix(
    decompositions.cholesky, "cholesky", "The lower Cholesky factor of symmetric positive matrices."
)
diag = _of_matrix(matrices.diag_embed, "diag", "A matrix with the vector on its diagonal.")
diag_part = _of_matrix(
    lambda x: matrices.diagonal(x, 0, -2, -1), "diag_part", "The diagonal of a matrix."
)
matrix_determinant = _of_matrix(
    decompositions.det, "matrix_determinant", "The determinant of square matrices."
)
matrix_diag = _of_matrix(
    matrices.diag_embed, "matrix_diag", "Matrices with the last axis on their diagonals."
)
matrix_diag_part = _of_matrix(
    lambda x: matrices.diagonal(x, 0, -2, -1), "matrix_diag_part", "The diagonals of matrices."
)
matrix_inverse = _of_matrix(
    decompositions.inverse, "matrix_inverse", "The inverse of square matrices."
)
matrix_transpose = _of_matrix(linalg.mT, "matrix_transpose", "The last two axes exchanged.")
matrix_trace = _of_matrix(_trace, "matrix_trace", "The sums of the diagonals of matrices.")


@lined
@once_known
def matrix_band_part(input: Any, num_lower: int, num_upper: int, name: str | None = None) -> Node:
    """The diagonal, so many diagonals below it and so many above; -1 means all. Zeros elsewhere."""
    found = input
    if num_upper >= 0:
        found = matrices.tril(found, int(num_upper))
    if num_lower >= 0:
        found = matrices.triu(found, -int(num_lower))
    return rename(found, name)


@lined
@once_known
def matrix_set_diag(input: Any, diagonal: Any, name: str | None = None) -> Node:
    """The matrices with other numbers on their diagonals."""
    input, diagonal = alike("matrix_set_diag", input, diagonal)
    off = input - matrices.diag_embed(matrices.diagonal(input, 0, -2, -1))
    return rename(off + matrices.diag_embed(diagonal), name)


@lined
@once_known
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Node:
    """X with matrix X = rhs, for the columns of rhs."""
    matrix, known = alike("matrix_solve", matrix, rhs)
    left = linalg.mT(matrix) if adjoint else matrix
    return rename(decompositions.solve(left, known), name)


@lined
@once_known
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Node:
    """X with matrix X = rhs, of the matrix only one triangle."""
    part = matrices.tril(matrix) if lower else matrices.triu(matrix)
    return matrix_solve(part, rhs, adjoint, name=name)


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Node:
    """X with A X = rhs, for A = chol cholᵀ."""
    half = matrix_triangular_solve(chol, rhs)
    return matrix_triangular_solve(chol, half, adjoint=True, name=name)


def logdet(matrix: Any, name: str | None = None) -> Node:
    """The logarithm of the determinant of symmetric positive matrices."""
    return rename(reduce_sum(log(matrix_diag_part(cholesky(matrix))), -1) * 2.0, name)


def adjoint(matrix: Any, name: str | None = None) -> Node:
    """The last two axes exchanged; real numbers are their own conjugates."""
    return matrix_transpose(matrix, name)


@lined
def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Node:
    """Matrices times vectors, the last axis of `b`."""
    left, right = alike("matvec", a, b)
    flip, column = transpose_a or adjoint_a, expand_dims(right, -1)
    return rename(squeeze(matmul(left, column, flip), [-1]), name)


@lined
def matrix_solve_ls(
    matrix: Any,
    rhs: Any,
    l2_regularizer: float = 0.0,
    fast: bool = True,
    name: str | None = None,
) -> Node:
    """X with the least |matrix X - rhs|² + l2_regularizer |X|², for each column of rhs.

    By the normal equations; of a matrix that is wider than high the shortest X.

    Args:
        fast: False asks TensorFlow for an orthogonal factorisation, which is not here.
    Raises:
        GraphError: `fast` is False.
    """
    if not fast:
        raise GraphError("matrix_solve_ls: got fast=False, expected True. Use qr and matrix_solve.")
    a, b = alike("matrix_solve_ls", matrix, rhs)
    rows, columns = int(a.shape[-2]), int(a.shape[-1])
    turned = linalg.mT(a)
    square = matmul(turned, a) if rows >= columns else matmul(a, turned)
    square = square + eye(min(rows, columns), dtype=a.dtype) * l2_regularizer
    if rows >= columns:
        return matrix_solve(square, matmul(turned, b), name=name)
    return rename(matmul(turned, matrix_solve(square, b)), name)


@lined
def slogdet(input: Any, name: str | None = None) -> tuple[Node, Node]:
    """The sign of the determinant, and the logarithm of its size."""
    found = matrix_determinant(input)
    pair = sign(found), log(size_of(found))
    rename_all(pair, name)
    return pair


@lined
def einsum(equation: str, *inputs: Any, name: str | None = None) -> Node:
    """Sums of products by letters: einsum("bij,bjk->bik", a, b) is the product of matrices."""
    nodes = alike("einsum", *inputs)
    if unknown(*nodes):
        found = late(lambda *known: letters.einsum(equation, *known), nodes, nodes[0].dtype)
        return rename(found, name)
    return rename(letters.einsum(equation, *nodes), name)


@lined
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Node:
    """Sums of products over `axes`: so many last and first ones, or a list for each side."""
    pair = axes
    if not isinstance(axes, int):
        pair = [[side] if isinstance(side, int) else [int(d) for d in side] for side in axes]
    left, right = alike("tensordot", a, b)
    if unknown(left, right):
        return rename(
            late(lambda x, y: linalg.tensordot(x, y, pair), (left, right), left.dtype), name
        )
    return rename(linalg.tensordot(left, right, pair), name)


@lined
def meshgrid(*args: Any, indexing: str = "xy", name: str | None = None) -> list[Node]:
    """Each vector stretched over the grid of all; "xy" has the second one's axis first."""
    grids = builtins.list(matrices.meshgrid(*[convert(v) for v in args], indexing=indexing))
    rename_all(grids, name)
    return grids


@lined
def cross(a: Any, b: Any, name: str | None = None) -> Node:
    """The cross product of vectors of three, the last axis."""
    x, y = alike("cross", a, b)
    after, before = [1, 2, 0], [2, 0, 1]
    return rename(x[..., after] * y[..., before] - x[..., before] * y[..., after], name)
