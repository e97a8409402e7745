"""Reductions of vectors: two into one, and the lanes of one into a number.

May import: text, rows.
"""

from __future__ import annotations

from . import rows
from .text import Text

IDENTITY = {"sum": 0.0, "amax": -float("inf"), "amin": float("inf")}


def fold(t: Text, reduction: str, a: str, b: str) -> str:
    """Return two vectors as one, lane by lane."""
    if reduction == "sum":
        return t.add(a, b)
    row = rows.ROWS["maximum" if reduction == "amax" else "minimum"]
    return row(t, a, b)


def across(t: Text, reduction: str, vector: str) -> str:
    """Fold the lanes of a vector: with its own half turned, quarter turned, ... Return lane 0."""
    turn = t.width // 2
    while turn:
        order = ", ".join(f"i32 {(i + turn) % t.width}" for i in range(t.width))
        turned = t.emit(
            f"shufflevector {t.vector} {vector}, {t.vector} poison, <{t.width} x i32> <{order}>"
        )
        vector = fold(t, reduction, vector, turned)
        turn //= 2
    return t.emit(f"extractelement {t.vector} {vector}, i32 0")
