"""Names that TensorFlow had before version 1, and others that only stand for what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .defaults import local_variables_initializer
from .node import Node
from .operators.elementwise import multiply, reciprocal
from .spaces.summary import FileWriter, histogram, merge, merge_all, scalar

SummaryWriter = FileWriter
initialize_local_variables = local_variables_initializer
inv = reciprocal
merge_all_summaries = merge_all
merge_summary = merge


class AggregationMethod:
    """How TensorFlow adds gradients up; `gradients` takes it, and it has no effect."""

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE, EXPERIMENTAL_ACCUMULATE_N = 1, 2


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Node:
    """A number times `x`."""
    return multiply(scalar, x, name)


def scalar_summary(
    tags: str, values: Any, collections: Sequence[Any] | None = None, name: str | None = None
) -> Node:
    """A summary of one number: `summary.scalar`."""
    return scalar(name or tags, values, collections)


def histogram_summary(
    tag: str, values: Any, collections: Sequence[Any] | None = None, name: str | None = None
) -> Node:
    """A summary of many numbers: `summary.histogram`."""
    return histogram(name or tag, values, collections)
