"""`tf.math`, `tf.linalg`, `tf.random`, ...: later spellings, and names that only they have."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from .absent import no_attribute


class Space:
    """Names that stand for names of `minitorch.graph`: by a table, or by a pattern.

    Attributes of its own are in `modules`: the module of each name. A name that is in neither, and
    that only this space of TensorFlow has, is refused with what to use.
    """

    def __init__(
        self,
        called: str,
        pattern: str,
        names: Mapping[str, str],
        modules: Mapping[str, str] | None = None,
    ) -> None:
        self._called, self._pattern, self._names = called, pattern, names
        self._modules = modules or {}

    def __getattr__(self, name: str) -> Any:
        if name in self._modules:
            module = import_module(f"minitorch.graph.{self._modules[name]}")
            return getattr(module, self._names.get(name, name))
        full = f"minitorch.graph.{self._called}"
        own = no_attribute(full, name)
        if "not supported here" in str(own):
            raise own
        here = sys.modules["minitorch.graph"]
        wanted = self._names.get(name, self._pattern.format(name))
        try:
            return getattr(here, wanted)
        except AttributeError as error:
            _, _, instead = str(error).partition(f"{wanted!r}")
            raise AttributeError(f"{full!r} has no attribute {name!r}{instead}") from None


def _modules(families: Mapping[str, str]) -> dict[str, str]:
    return {name: module for module, names in families.items() for name in names.split()}


math = Space(
    "math",
    "{}",
    {"top_k": "top_k"},
    _modules(
        {
            "nn": """
                in_top_k l2_normalize log_softmax softmax softplus softsign top_k zero_fraction
                """,
            "operators.arithmetic": """
                cumulative_logsumexp divide_no_nan multiply_no_nan polyval reciprocal_no_nan
                reduce_euclidean_norm reduce_std reduce_variance xdivy xlog1py xlogy
                """,
        }
    ),
)
linalg = Space(
    "linalg",
    "matrix_{}",
    {
        "cholesky": "cholesky",
        "cholesky_solve": "cholesky_solve",
        "cross": "cross",
        "det": "matrix_determinant",
        "eigh": "self_adjoint_eig",
        "eigvalsh": "self_adjoint_eigvals",
        "einsum": "einsum",
        "eye": "eye",
        "global_norm": "global_norm",
        "inv": "matrix_inverse",
        "logdet": "logdet",
        "lstsq": "matrix_solve_ls",
        "matmul": "matmul",
        "matrix_transpose": "matrix_transpose",
        "norm": "norm",
        "qr": "qr",
        "svd": "svd",
        "tensordot": "tensordot",
        "tensor_diag": "diag",
        "tensor_diag_part": "diag_part",
        "trace": "matrix_trace",
        "triangular_solve": "matrix_triangular_solve",
    },
    _modules(
        {
            "nn": "l2_normalize normalize",
            "operators.matrices": "adjoint matvec slogdet",
            "operators.spectral": "matrix_rank pinv",
        }
    ),
)
random = Space(
    "random",
    "random_{}",
    {
        "multinomial": "multinomial",
        "set_random_seed": "set_random_seed",
        "truncated_normal": "truncated_normal",
    },
    _modules(
        {
            "candidates": "log_uniform_candidate_sampler uniform_candidate_sampler",
            "operators.random": "categorical",
        }
    ),
)
debugging = Space("debugging", "{}", {"assert_all_finite": "verify_tensor_all_finite"})
manip = Space("manip", "{}", {})
queue = Space("queue", "{}", {})
version = Space("version", "{}", {"VERSION": "VERSION"})
