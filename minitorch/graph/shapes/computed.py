"""Shapes that are computed in the run: `zeros([shape(x)[0], 5])`, `random_normal(shape(mean))`.

`of_shape(dims)` is a value of which only the shape counts; whatever can follow another value's
shape (a broadcast, a reshape, random numbers) follows its.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

from ...arrays.library import Array, DType, Namespace, int32, native_dtype
from ...arrays.shapes import Shape
from ...errors import ShapeError
from ...op import FixedSpec, Flat, Spec
from ...ops.elementwise.casting import cast_to
from ...ops.shaping import movement
from ...ops.shaping.broadcasting import ExpandTo, expand_to
from ...ops.shaping.joining import stack
from ..core.node import Constant, Node, UnknownShape, as_shape, build, convert
from .deferred import as_scalar


class ShapeOf(Flat):
    """The sizes of the input as a vector of int32."""

    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return xp.asarray(tuple(arrays[0].shape), dtype=native_dtype(xp, int32))

    def infer(self, *specs: Spec) -> Spec:
        return Spec((len(specs[0].shape),), int32)


class OfShape(Flat, FixedSpec):
    """Zeros of the sizes in a vector; in memory they are one.

    Attributes:
        shape: what is known of them before the run.
    """

    dtype = int32
    reads_inputs = reads_output = False

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return one 0, stretched; a size of -1 takes what a second input leaves for it.

        Raises:
            ShapeError: a size is negative, or does not divide.
        """
        sizes = tuple(int(n) for n in arrays[0])
        if len(arrays) > 1 and sizes.count(-1) == 1:
            left = -math.prod(sizes)
            count = math.prod(arrays[1].shape)
            sizes = tuple(count // left if n == -1 and left else n for n in sizes)
        if any(n < 0 for n in sizes):
            raise ShapeError(f"shape: got {sizes}, expected sizes of 0 or more.")
        return xp.broadcast_to(xp.zeros((), dtype=native_dtype(xp, int32)), sizes)


class Counting(Flat, FixedSpec):
    """The integers from the first input up to but not the second, a third apart."""

    shape, dtype = (None,), int32
    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        start, stop, step = (int(a) for a in arrays)
        return xp.arange(start, stop, step, dtype=native_dtype(xp, int32))


def is_computed(shape: object) -> bool:
    """Tell whether `shape` is a node, or has nodes among its sizes."""
    if isinstance(shape, list | tuple) and not isinstance(shape, UnknownShape):
        return any(isinstance(n, Node) for n in shape)
    return isinstance(shape, Node)


def of_shape(dims: Any, like: Node | None = None) -> Node:
    """Return a value of the sizes in `dims`, a node or a list with nodes in it.

    Args:
        like: has as many elements, so that one size may be -1.
    Raises:
        GraphError: how many sizes there are is not known, or they are no integers.
    """
    sizes, vector = _of_node(dims) if isinstance(dims, Node) else _of_list(dims)
    return build(OfShape(sizes), (vector,) if like is None else (vector, like))


def reshape_to_computed(x: Node, dims: object) -> Node:
    """Return the elements of `x` under the sizes in `dims`, of which one may be -1."""
    like = of_shape(dims, x)
    return build(movement.Reshape(None), (x, like))


def fill_computed(dims: object, value: object, dtype: DType | None = None) -> Node:
    """Return `value` repeated to the sizes in `dims`."""
    return build(ExpandTo(), (convert(value, dtype), of_shape(dims)))


def range_computed(start: object, stop: object, step: object) -> Node:
    """Return the integers from `start` up to but not `stop`, `step` apart."""
    ends = [as_scalar(convert(end)) for end in (start, stop, step)]
    for end in ends:
        if end.dtype.kind not in "iu" or end.shape != ():
            raise end.error(
                f"range: got {end.name!r}, {end.dtype} of shape {end.shape}, expected one integer. "
                "Cast it."
            )
    return build(Counting(), ends)


def tile_computed(x: Node, times: Any) -> Node:
    """Return copies of `x` side by side, as many along each axis as `times` has there."""
    axes = len(x.shape)
    counts = [times[i] for i in range(axes)]
    sizes = [build(ShapeOf(), (x,))[i] if n is None else n for i, n in enumerate(x.shape)]
    apart = movement.insert_axes(x, tuple(range(0, 2 * axes, 2)))
    stretched = expand_to(apart, of_shape([*chain(*zip(counts, sizes, strict=True))]))
    return reshape_to_computed(stretched, [c * n for c, n in zip(counts, sizes, strict=True)])


def _of_node(dims: Node) -> tuple[Shape, Node]:
    if isinstance(dims.op, ShapeOf):
        return dims.inputs[0].shape, dims
    if isinstance(dims.shape, UnknownShape) or len(dims.shape) != 1 or dims.shape[0] is None:
        raise dims.error(
            f"shape: got node {dims.name!r} of shape {dims.shape}, expected a vector of known "
            "length. Give it as a list of sizes."
        )
    if isinstance(dims, Constant):
        return as_shape(dims.value.tolist()), dims
    return (None,) * dims.shape[0], dims


def _of_list(dims: Sequence[Any]) -> tuple[Shape, Node]:
    sizes: list[int | None] = []
    parts: list[Node] = []
    for size in dims:
        node = size if isinstance(size, Node) else Constant(int(size), int32)
        if node.dtype.kind not in "iu":
            raise node.error(
                f"shape: got size {node.name!r} of {node.dtype}, expected an integer. Use cast."
            )
        sizes.append(int(node.value) if isinstance(node, Constant) else None)
        parts.append(node if node.dtype == int32 else cast_to(node, int32))
    return as_shape(sizes), stack(parts)
