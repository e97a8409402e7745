"""Constant folding: what depends on constants alone is computed once, now."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...ops.broadcasting import ExpandTo
from ..core.node import Constant, Node, UnknownShape
from .rewrite import rewrite, simple

LARGEST = 2**20  # bytes: a larger result would only move work into memory


def fold(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with constant operators replaced by constants."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if not inputs or not simple(node) or isinstance(node.op, ExpandTo):
            return None
        if not all(isinstance(source, Constant) and source not in fed for source in inputs):
            return None
        if _is_large(node):
            return None
        array = _computed(node.op, [s.value for s in inputs])  # type: ignore[attr-defined]
        if array is None or array.nbytes > LARGEST or array.dtype != node.dtype:
            return None
        return Constant(array, name=node.name)

    return rewrite(fetches, rule, fed)


def _is_large(node: Node) -> bool:
    """Tell whether a result would be too large to keep, as far as its size is known."""
    if isinstance(node.shape, UnknownShape) or None in node.shape:
        return False
    count = math.prod(int(size) for size in node.shape)
    return count * int(node.dtype.itemsize) > LARGEST


def _computed(op: Any, values: Sequence[Array]) -> Array | None:
    """Return the result; None where the operator fails, which a run shall say and not this pass."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.compute(np, *values))
    except Exception:
        return None
