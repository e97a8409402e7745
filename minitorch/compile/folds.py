"""Reductions of vectors: two into one, the lanes of one into a number, lanes that do not count.

May import: text, rows.
"""

from __future__ import annotations

from . import rows
from .text import Text

IDENTITY = {"sum": 0.0, "amax": -float("inf"), "amin": float("inf")}


def only_inside(t: Text, reduction: str, value: str) -> str:
    """Return the vector with the identity in the lanes that are not `%inside`."""
    return t.either("%inside", value, t.number(IDENTITY[reduction]))


def first_lanes(t: Text, name: str, count: str) -> None:
    """Call the mask of the first `count` lanes, a number of 64 bits, `name`."""
    lanes = "<" + ", ".join(f"i64 {i}" for i in range(t.width)) + ">"
    wide = f"<{t.width} x i64>"
    counts = t.spread("i64", count)
    t.do(f"{name} = icmp slt {wide} {lanes}, {counts}")


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
