"""Dtypes that do not mix: a program says by `cast` which one it means, as in TensorFlow.

Asked only of what a program writes; the package's own rules may count a mask as numbers. A bare
number, or a `Constant`, takes the dtype of what is beside it, as long as it keeps its value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..arrays import float32, float64
from ..errors import DTypeError, MinitorchError
from ..ops.casting import cast_to
from .scope import PACKAGE

_SIGNS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
OPERATORS = (*_SIGNS, *(f"r{sign}" for sign in _SIGNS), "lt", "le", "gt", "ge", "eq", "ne")
"""The signs whose two sides must have one dtype."""

IDENTITIES = ("eq", "ne")
"""The signs that Python asks of any two objects, such as those of a list."""


def check_dtypes(what: str, a: Any, b: Any) -> None:
    """Raise unless two sides of an operator have one dtype, or one of them takes the other's.

    Raises:
        DTypeError: names both nodes and the lines that built them.
    """
    if not hasattr(a, "built_at"):
        a, b = b, a
    kind = a.dtype.kind
    if hasattr(b, "built_at"):
        loose = getattr(a, "follows", False) or getattr(b, "follows", False)
        if loose or a.dtype == b.dtype or "b" in (kind, b.dtype.kind):
            return
        raise dtypes_differ(what, a, b)
    if isinstance(b, float) and kind in "iu" and not getattr(a, "follows", False):
        raise DTypeError(
            f"{what}: got the number {b} beside {a.name!r}, which is {a.dtype} and would lose its "
            f"fraction (built at {a.location}). Use cast."
        )


def dtypes_differ(what: str, a: Any, b: Any) -> DTypeError:
    """Return the error for two nodes of different dtypes."""
    return DTypeError(
        f"{what}: dtypes differ: {a.name!r} is {a.dtype} (built at {a.location}) and {b.name!r} is "
        f"{b.dtype} (built at {b.location}). Use cast."
    )


def from_outside(depth: int) -> bool:
    """Tell whether the function `depth` calls up is not one of this package."""
    return not sys._getframe(depth + 1).f_code.co_filename.startswith(PACKAGE)


def strict(operator: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    """Return the method of a sign, which a program may only call with one dtype.

    Of two nodes that cannot be compared element by element `==` only tells that they differ.
    """

    @wraps(operator)
    def call(self: Any, other: Any) -> Any:
        try:
            if from_outside(1):
                check_dtypes(name, self, other)
                if name == "truediv":
                    self, other = quotient_sides(self, other)
            return operator(self, other)
        except MinitorchError:
            if name in IDENTITIES and hasattr(other, "built_at"):
                return NotImplemented
            raise

    return call


def quotient_sides(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the sides of a true quotient: integers as float64, those of 16 bits as float32."""
    kinds = [side.dtype if hasattr(side, "built_at") else np.asarray(side).dtype for side in (a, b)]
    if any(kind.kind not in "iu" for kind in kinds):
        return a, b
    sizes = [k.itemsize for k, side in zip(kinds, (a, b), strict=True) if hasattr(side, "built_at")]
    wide = float32 if max(sizes, default=8) < 4 else float64
    first, second = (
        cast_to(side, wide) if hasattr(side, "built_at") else np.asarray(side, wide)
        for side in (a, b)
    )
    return first, second


def is_comparison(node: Any) -> bool:
    """Tell whether a node is `a == b` or `a != b` of two nodes of which none is a constant."""
    op = node.op
    return getattr(op, "name", "") in IDENTITIES and not any(
        getattr(source, "follows", False) for source in node.inputs
    )
