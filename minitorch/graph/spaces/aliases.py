"""`tf.math`, `tf.linalg`, `tf.random`: later spellings of the same names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


class Space:
    """Names that stand for names of `minitorch.graph`: by a table, or by a pattern."""

    def __init__(self, called: str, pattern: str, names: Mapping[str, str]) -> None:
        self._called, self._pattern, self._names = called, pattern, names

    def __getattr__(self, name: str) -> Any:
        here = sys.modules["minitorch.graph"]
        wanted = self._names.get(name, self._pattern.format(name))
        try:
            return getattr(here, wanted)
        except AttributeError as error:
            _, _, instead = str(error).partition(f"{wanted!r}")
            raise AttributeError(
                f"'minitorch.graph.{self._called}' has no attribute {name!r}{instead}"
            ) from None


math = Space("math", "{}", {"inverse": "reciprocal", "top_k": "top_k"})
linalg = Space(
    "linalg",
    "matrix_{}",
    {
        "cholesky": "cholesky",
        "cholesky_solve": "cholesky_solve",
        "cross": "cross",
        "det": "matrix_determinant",
        "einsum": "einsum",
        "eye": "eye",
        "inv": "matrix_inverse",
        "l2_normalize": "l2_normalize",
        "logdet": "logdet",
        "matmul": "matmul",
        "norm": "norm",
        "tensordot": "tensordot",
        "tensor_diag": "diag",
        "tensor_diag_part": "diag_part",
        "trace": "matrix_trace",
        "triangular_solve": "matrix_triangular_solve",
    },
)
random = Space(
    "random",
    "random_{}",
    {
        "multinomial": "multinomial",
        "set_random_seed": "set_random_seed",
        "truncated_normal": "truncated_normal",
    },
)
