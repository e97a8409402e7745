"""Broadcasting by strides: operands of different shapes as one loop nest of as few axes as can be.

Pure functions of tuples. A stride is in bytes; 0 repeats an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Strides = tuple[int, ...]


class Nest(NamedTuple):
    """A loop nest: the sizes of its axes, and the strides of every operand along them."""

    sizes: tuple[int, ...]
    strides: tuple[Strides, ...]


def stretched(shape: Sequence[int], strides: Strides, to: Sequence[int]) -> Strides:
    """Return the strides of an operand of `shape` when it is broadcast to the shape `to`."""
    lead = len(to) - len(shape)
    own = (
        0 if size == 1 and wanted != 1 else stride
        for size, stride, wanted in zip(shape, strides, to[lead:], strict=True)
    )
    return (*([0] * lead), *own)


def in_rows(shape: Sequence[int], n_bytes: int) -> Strides:
    """Return the strides of a contiguous array."""
    found, step = [], n_bytes
    for size in reversed(shape):
        found.append(step)
        step *= size
    return tuple(reversed(found))


def merged(nest: Nest) -> Nest:
    """Return the same nest with as few axes as possible, one at least.

    Axes of size 1 go; two neighbours become one where every operand steps through both as
    through one.
    """
    sizes: list[int] = []
    columns: list[list[int]] = [[] for _ in nest.strides]
    for d in reversed(range(len(nest.sizes))):  # from the row outwards
        size, steps = nest.sizes[d], [s[d] for s in nest.strides]
        if size == 1:
            continue
        whole = sizes and all(
            step == column[-1] * sizes[-1] for step, column in zip(steps, columns, strict=True)
        )
        if whole:
            sizes[-1] *= size
            continue
        sizes.append(size)
        for step, column in zip(steps, columns, strict=True):
            column.append(step)
    if not sizes:
        return Nest((1,), tuple((0,) for _ in nest.strides))
    return Nest(tuple(sizes[::-1]), tuple(tuple(c[::-1]) for c in columns))


def kind(stride: int, n_bytes: int) -> str:
    """Return how an operand goes along a row: "c" contiguous, "b" one element, "s" strided."""
    return "c" if stride == n_bytes else "b" if stride == 0 else "s"
