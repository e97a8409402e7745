"""Torch's switches of libraries that minitorch does not use: each may be set, and changes nothing.

Results here are the same in every run with the same seed, and float32 is never computed in less.
"""

from minitorch.errors import ArgumentError

from . import cuda, cudnn, mps


def set_float32_matmul_precision(precision: str) -> None:
    """Allow products of float32 in less: they are computed in float32 all the same.

    Raises:
        ArgumentError: not one of torch's three words.
    """
    if precision not in ("highest", "high", "medium"):
        raise ArgumentError(
            f"set_float32_matmul_precision: got {precision!r}, expected 'highest', 'high' or "
            "'medium'."
        )


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results in every run, which there are in any case."""


__all__ = ["cuda", "cudnn", "mps"]
