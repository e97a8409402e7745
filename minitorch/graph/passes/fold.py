"""Constant folding: what depends on constants alone is computed once, now."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ...ops.broadcasting import ExpandTo
from ..node import Constant, Node
from .rewrite import rewrite, simple

LARGEST = 2**20  # bytes: a larger result would only move work into memory


def fold(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with constant operators replaced by constants."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if not inputs or not simple(node) or isinstance(node.op, ExpandTo):
            return None
        if not all(isinstance(source, Constant) and source not in fed for source in inputs):
            return None
        with np.errstate(all="ignore"):
            array = np.asarray(node.op.compute(np, *[s.value for s in inputs]))  # type: ignore[attr-defined]
        if array.nbytes > LARGEST or array.dtype != node.dtype:
            return None
        return Constant(array, name=node.name)

    return rewrite(fetches, rule, fed)
