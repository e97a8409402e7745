"""Places of values and of variables written by index rows, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Array, asarray, to_numpy
from ...errors import GraphError
from ...op import Op, Spec
from ...ops import indexing, logic, movement
from ...ops.casting import cast_to
from ..lined import lined
from ..naming import rename
from ..node import Node, UnknownShape, build, convert
from ..state import Variable, assign, assign_add, assign_sub
from .elementwise import where
from .late import once_known
from .making import ones_like
from .making import range as counted
from .segments import gather_nd, scatter_nd
from .shaping import shape


class Overwritten(Op):
    """The first input with the third at the places that the last axis of the second names."""

    reads_output = False

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the array; of equal places the last update stays."""
        found, places, updates = (np.asarray(to_numpy(a)) for a in arrays)
        found = found.copy()
        found[tuple(np.moveaxis(places, -1, 0))] = updates
        return found if xp is np else asarray(found, None, arrays[0].device)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the first input."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """What was written over gets nothing; the updates get what is at their places."""
        places, updates = node.inputs[1:]
        hit = logic.gt(scatter_nd(places, ones_like(updates), shape(node.inputs[0])), 0.0)
        return where(hit, out_grad * 0.0, out_grad), None, gather_nd(out_grad, places)


@lined
def tensor_scatter_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Node:
    """The tensor with `updates` at the places that the last axis of `indices` names."""
    node, places = convert(tensor), convert(indices)
    values = convert(updates, node.dtype)
    _check("tensor_scatter_update", node, places, values)
    return rename(build(Overwritten(), (node, places, values)), name)


@lined
def tensor_scatter_add(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Node:
    """The tensor with `updates` added at places; equal places add up."""
    node = convert(tensor)
    return rename(node + scatter_nd(indices, convert(updates, node.dtype), shape(node)), name)


@lined
def tensor_scatter_sub(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Node:
    """The tensor with `updates` subtracted at places."""
    node = convert(tensor)
    return rename(node - scatter_nd(indices, convert(updates, node.dtype), shape(node)), name)


tensor_scatter_nd_update = tensor_scatter_update
tensor_scatter_nd_add = tensor_scatter_add
tensor_scatter_nd_sub = tensor_scatter_sub


def scatter_nd_update(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Node:
    """A node that sets the places of a variable that index rows name, and gives all of it."""
    return assign(ref, tensor_scatter_update(_variable(ref), indices, updates), name=name)


def scatter_nd_add(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that adds to the places of a variable that index rows name."""
    values = convert(updates, _variable(ref).dtype)
    return assign_add(ref, scatter_nd(indices, values, shape(ref)), name=name)


def scatter_nd_sub(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that subtracts from the places of a variable that index rows name."""
    values = convert(updates, _variable(ref).dtype)
    return assign_sub(ref, scatter_nd(indices, values, shape(ref)), name=name)


def _variable(ref: Any) -> Variable:
    if not isinstance(ref, Variable):
        raise GraphError(f"scatter_nd: got {type(ref).__name__}, expected a Variable.")
    return ref


def _check(where_: str, node: Node, places: Node, values: Node) -> None:
    if places.dtype.kind not in "iu" or values.dtype != node.dtype:
        raise GraphError(
            f"{where_}: got indices of {places.dtype} and updates of {values.dtype}, expected "
            f"integers and {node.dtype} (node {node.name!r} built at {node.location})."
        )


@lined
@once_known
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Node:
    """params[b, indices[b, i]] for every b of the first axes, all but the last of the indices."""
    places = convert(indices)
    if isinstance(places.shape, UnknownShape) or not len(places.shape):
        raise GraphError(
            f"batch_gather: got indices of shape {places.shape}, expected one axis or more (node "
            f"{places.name!r} built at {places.location})."
        )
    last = len(places.shape) - 1
    sizes = shape(places)
    index = [_along(counted(sizes[axis]), axis, last, places) for axis in range(last)]
    return rename(indexing.getitem(params, (*index, places)), name)


def _along(numbers: Node, axis: int, last: int, places: Node) -> Any:
    """Return numbers that vary along one axis, as whole as the places beside them."""
    wide = movement.reshape(numbers, [-1 if i == axis else 1 for i in range(last + 1)])
    return cast_to(wide, places.dtype) + places * 0
