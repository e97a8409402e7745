"""Values that begin a graph: constants, zeros, ones, counts; under TensorFlow's names."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.library import DType, DTypeLike, get_default_dtype, graph_dtype, int32
from ...arrays.shapes import INTEGERS, is_known
from ...errors import GraphError
from ...exports import own_names
from ...ops.elementwise import unary as elementwise
from ...ops.shaping.broadcasting import expand_to
from ..core.naming import locates_errors, rename
from ..core.node import Constant, Node, UnknownShape, convert
from ..shapes.computed import fill_computed, is_computed, range_computed
from ..shapes.static import as_static


@locates_errors
def constant(
    value: object, dtype: DTypeLike = None, shape: object = None, name: str | None = None
) -> Constant:
    """A value fixed now. Python floats become float32, integers int32; arrays keep their dtype.

    Unlike a bare number it belongs to its graph and keeps its dtype beside others.
    """
    fixed = Constant(value, dtype, shape, name or "Const")
    fixed.follows = False
    return fixed


@locates_errors
def fill(dims: Any, value: object, name: str | None = None) -> Node:
    """A value of this shape, all one number; the shape may be computed in the run."""
    if is_computed(dims) or isinstance(value, Node):
        return rename(fill_computed(dims, value), name)
    return Constant(np.full(_sizes(dims), value, _dtype_for(value)), name=name or "Fill")


def zeros(shape: Any, dtype: DTypeLike = None, name: str | None = None) -> Node:
    """A value of zeros; the shape may be computed in the run."""
    return _all(0, shape, dtype, name, "zeros")


def ones(shape: Any, dtype: DTypeLike = None, name: str | None = None) -> Node:
    """A value of ones; the shape may be computed in the run."""
    return _all(1, shape, dtype, name, "ones")


@locates_errors
def _all(value: int, shape: Any, dtype: DTypeLike, name: str | None, called: str) -> Node:
    if is_computed(shape):
        return rename(fill_computed(shape, value, _or_default(dtype)), name)
    return Constant(np.full(_sizes(shape), value, _or_default(dtype)), name=name or called)


def eye(
    num_rows: int, num_columns: int | None = None, dtype: DTypeLike = None, name: str = "eye"
) -> Node:
    """The identity matrix, with rows or columns of zeros where it is not square."""
    return Constant(np.eye(num_rows, num_columns, dtype=_or_default(dtype)), name=name)


def zeros_like(tensor: object, dtype: DTypeLike = None, name: str | None = None) -> Node:
    """Zeros of the shape that the node has at run time."""
    return _like(tensor, 0, dtype, name)


def ones_like(tensor: object, dtype: DTypeLike = None, name: str | None = None) -> Node:
    """Ones of the shape that the node has at run time."""
    return _like(tensor, 1, dtype, name)


def _like(tensor: object, value: int, dtype: DTypeLike, name: str | None) -> Node:
    node = convert(tensor)
    kind = node.dtype if dtype is None else graph_dtype(dtype)
    if not isinstance(node.shape, UnknownShape) and is_known(node.shape):
        return Constant(np.full(tuple(node.shape), value, kind), name=name or "like")
    if isinstance(node.shape, UnknownShape):
        make = elementwise.ones_like if value else elementwise.zeros_like
        return rename(make(node), name)
    return rename(expand_to(Constant(value, kind), node), name)


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: DTypeLike = None, name: str = "range"
) -> Node:
    """A vector that counts from start (0) up to but not limit, either of them a node or not."""
    low, high = (0, start) if limit is None else (start, limit)
    if is_computed([low, high, delta]):
        return rename(range_computed(low, high, delta), None if name == "range" else name)
    numbers = np.arange(low, high, delta)
    whole = numbers.dtype.kind == "i"
    return Constant(numbers, dtype or (int32 if whole else get_default_dtype()), name=name)


def _sizes(shape: object) -> tuple[int, ...]:
    """Return a shape as sizes; one number is one axis."""
    sizes = as_static([shape] if isinstance(shape, INTEGERS) else shape)
    if not sizes.is_fully_defined():
        raise GraphError(f"shape: got {shape}, expected every size. Use tf.shape for the others.")
    return tuple(int(n) for n in sizes.as_list() if n is not None)


def _or_default(dtype: DTypeLike) -> DType:
    return get_default_dtype() if dtype is None else graph_dtype(dtype)


def _dtype_for(value: object) -> DType:
    dtype = np.asarray(value).dtype
    if isinstance(value, np.generic | np.ndarray):
        return dtype
    return get_default_dtype() if dtype.kind == "f" else int32 if dtype.kind == "i" else dtype


if not TYPE_CHECKING:
    __all__ = own_names(globals())
