"""The dtype in which an operator computes, by torch's rules."""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from .library import DType, Scalar, bfloat16, bool_, float16, float32, get_default_dtype, int64


def promote_types(a: DType, b: DType) -> DType:
    """Return the dtype of an operator over `a` and `b`: a float stays beside an integer."""
    if a is b:
        return a
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    if a is bfloat16 or b is bfloat16:
        other = b if a is bfloat16 else a
        return float32 if other == float16 else other
    return np.promote_types(a, b)


def result_type(operands: Sequence[tuple[DType, int | None] | Scalar]) -> DType:
    """Return the dtype in which an operator computes: torch's rule.

    Arrays with axes decide; 0-d arrays count only when of a higher category (bool, integer,
    float), and Python numbers only when of a higher one still.

    Args:
        operands: (dtype, number of axes) of each array, or a Python number.
    """
    tiers: tuple[list[DType], ...] = ([], [], [])
    for operand in operands:
        if isinstance(operand, tuple):
            tiers[1 if operand[1] == 0 else 0].append(operand[0])
        else:
            tiers[2].append(scalar_dtype(operand))
    by_tier = [reduce(promote_types, tier) for tier in tiers if tier]
    return reduce(_over, by_tier) if by_tier else get_default_dtype()


def _over(higher: DType, lower: DType) -> DType:
    if higher.kind == "f":
        return higher
    if higher.kind == "b" or lower.kind == "f":
        return promote_types(higher, lower)
    return higher


def scalar_dtype(value: object) -> DType:
    """Return the dtype of a Python number on its own."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, int):
        return int64
    return get_default_dtype()
