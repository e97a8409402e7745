"""Torch's `linalg` names of operators that minitorch has."""

from .ops.linalg import matmul
from .ops.matrices import diagonal
from .ops.statistics import vector_norm

__all__ = ["diagonal", "matmul", "vector_norm"]
