"""Further checks, under TensorFlow's names: of values in the run, of shapes before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import as_dtype
from ...errors import GraphError
from ...ops import logic
from ..lined import lined
from ..node import Node, UnknownShape, convert
from ..scope import control_dependencies
from ..state import no_op
from .effects import Assert, assert_less, assert_less_equal
from .elementwise import abs as size_of
from .math import reduce_all
from .shaping import identity, rank, reshape, shape


def assert_negative(x: Any, message: str | None = None, name: str | None = None) -> Node:
    """An operation that stops the run unless every element is below 0."""
    return assert_less(x, 0, message=message, name=name)


def assert_non_positive(x: Any, message: str | None = None, name: str | None = None) -> Node:
    """An operation that stops the run unless every element is 0 or less."""
    return assert_less_equal(x, 0, message=message, name=name)


@lined
def assert_none_equal(
    x: Any,
    y: Any,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Node:
    """An operation that stops the run unless x != y everywhere."""
    left = convert(x)
    right = convert(y, left.dtype)
    words = message or f"{left.name} != {right.name}, elementwise"
    return Assert(logic.ne(left, right), data or [words, left, right], summarize, name)


@lined
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Sequence[Any] | None = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Node:
    """An operation that stops the run unless |x - y| <= atol + rtol |y| everywhere.

    Args:
        rtol, atol: ten times the dtype's resolution unless given.
    """
    left = convert(x)
    right = convert(y, left.dtype)
    fine = 10 * float(np.finfo(left.dtype).eps)
    limit = size_of(right) * (fine if rtol is None else rtol) + (fine if atol is None else atol)
    words = message or f"{left.name} is near {right.name}, elementwise"
    holds = logic.le(size_of(left - right), limit)
    return Assert(holds, data or [words, left, right], summarize, name)


# ── asked while the graph is being built ────────────────────────────────────────────────────────


def _wrong(where: str, message: str | None, node: Node, got: Any, expected: Any) -> GraphError:
    said = f"{message}: " if message else ""
    return GraphError(
        f"{where}: {said}got {got}, expected {expected} (node {node.name!r} built at "
        f"{node.location})."
    )


def assert_rank_at_least(
    x: Any, rank: int, message: str | None = None, name: str | None = None
) -> Node:
    """Nothing, if `x` has so many axes or more, which is asked while the graph is being built.

    Raises:
        GraphError: it has fewer.
    """
    node = convert(x)
    axes = node.shape.ndims
    if axes is not None and axes < rank:
        raise _wrong("assert_rank_at_least", message, node, node.shape, f"{rank} axes or more")
    return no_op(name)


def assert_rank_in(
    x: Any, ranks: Sequence[int], message: str | None = None, name: str | None = None
) -> Node:
    """Nothing, if `x` has one of these numbers of axes.

    Raises:
        GraphError: it has another.
    """
    node = convert(x)
    if node.shape.ndims is not None and node.shape.ndims not in ranks:
        raise _wrong("assert_rank_in", message, node, node.shape, f"axes in {list(ranks)}")
    return no_op(name)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Node:
    """The value, which has no axes.

    Raises:
        GraphError: it has.
    """
    node = convert(tensor)
    if node.shape.ndims not in (None, 0):
        raise _wrong("assert_scalar", message, node, node.shape, "()")
    return node if name is None else identity(node, name)


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Node:
    """Nothing, if `tensor` is of that dtype.

    Raises:
        GraphError: it is of another.
    """
    node = convert(tensor)
    if node.dtype != as_dtype(tf_type):
        raise _wrong("assert_type", message, node, node.dtype, as_dtype(tf_type))
    return no_op(name)


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Node:
    """Nothing, if `x` is of a dtype of integers.

    Raises:
        GraphError: it is not.
    """
    node = convert(x)
    if node.dtype.kind not in "iu":
        raise _wrong("assert_integer", message, node, node.dtype, "integers. Use cast")
    return no_op(name)


@lined
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Node:
    """The value, which the run checks to be of this shape; sizes that vary are None.

    Raises:
        ShapeError: what is known of its shape contradicts that.
    """
    node = convert(x)
    found = identity(node)
    found.set_shape(shape)
    wanted = found.shape if isinstance(shape, UnknownShape) else tuple(found.shape)
    if isinstance(wanted, UnknownShape):
        return identity(found, name)
    guards = [_axes_are(node, len(wanted))]
    with control_dependencies(guards):
        guards += [_size_is(node, i, n) for i, n in enumerate(wanted) if n is not None]
    with control_dependencies(guards):
        last = identity(found, name)
    last.set_shape(wanted)
    return last


def _axes_are(node: Node, count: int) -> Node:
    return Assert(
        logic.eq(rank(node), count), [f"ensure_shape: {node.name} has {count} axes", shape(node)]
    )


def _size_is(node: Node, axis: int, size: int) -> Node:
    sizes = shape(node)
    words = f"ensure_shape: axis {axis} of {node.name} has size {size}, not as in"
    return Assert(logic.eq(sizes[axis], size), [words, sizes])


# ── asked as values ─────────────────────────────────────────────────────────────────────────────


def is_numeric_tensor(tensor: Any) -> bool:
    """Tell whether `tensor` is a node of numbers."""
    return isinstance(tensor, Node) and tensor.dtype.kind in "iuf"


def is_tensor(x: Any) -> bool:
    """Tell whether `x` is a node."""
    return isinstance(x, Node)


def is_non_decreasing(x: Any, name: str | None = None) -> Node:
    """Whether no element is below the one before it."""
    flat = reshape(x, [-1])
    return reduce_all(logic.ge(flat[1:], flat[:-1]), name=name)


def is_strictly_increasing(x: Any, name: str | None = None) -> Node:
    """Whether every element is above the one before it."""
    flat = reshape(x, [-1])
    return reduce_all(logic.gt(flat[1:], flat[:-1]), name=name)
