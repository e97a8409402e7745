"""Names that TensorFlow had before version 1, and others that only stand for what is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .collections import GraphKeys
from .defaults import local_variables_initializer
from .node import Node
from .operators.elementwise import multiply, reciprocal, where
from .operators.math import argmax, argmin
from .operators.matrices import cholesky, matrix_inverse, matrix_solve
from .operators.saying import print_
from .operators.shaping import reverse, stack
from .scope import get_default_graph
from .spaces.summary import FileWriter, histogram, image, merge, merge_all, scalar

VERSION = __version__ = "1.15.0+minitorch"
"""The version of TensorFlow whose names and meanings these are, and that this is not TensorFlow."""

SummaryWriter = FileWriter
arg_max, arg_min = argmax, argmin
batch_cholesky, batch_matrix_inverse, batch_matrix_solve = cholesky, matrix_inverse, matrix_solve
initialize_local_variables = local_variables_initializer
inv = reciprocal
merge_all_summaries = merge_all
merge_summary = merge
no_regularizer = None
parallel_stack = stack
print = print_
reverse_v2 = reverse
where_v2 = where


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


def image_summary(
    tag: str,
    tensor: Any,
    max_images: int = 3,
    collections: Sequence[Any] | None = None,
    name: str | None = None,
) -> Node:
    """A summary of images: `summary.image`."""
    return image(name or tag, tensor, max_images, collections)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables of the collection MODEL_VARIABLES."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that moving averages follow."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)
