"""Torch's `linalg` names of operators that minitorch has."""

from minitorch.ops.products.decompositions import eigh, matrix_norm, norm, svd
from minitorch.ops.products.linalg import matmul
from minitorch.ops.products.linear_systems import det, inv, slogdet, solve
from minitorch.ops.reducing.statistics import vector_norm
from minitorch.ops.shaping.matrices import diagonal

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
