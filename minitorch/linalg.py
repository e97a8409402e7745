"""Torch's `linalg` names of operators that minitorch has."""

from .ops.decompositions import det, eigh, inv, matrix_norm, norm, slogdet, solve, svd
from .ops.linalg import matmul
from .ops.matrices import diagonal
from .ops.statistics import vector_norm

__all__ = [
    "det",
    "diagonal",
    "eigh",
    "inv",
    "matmul",
    "matrix_norm",
    "norm",
    "slogdet",
    "solve",
    "svd",
    "vector_norm",
]
