"""`x[index] = value` as an operator: a copy of x with numbers put in.

May import: errors, arrays, op, ops.
"""

from typing import Any

import numpy as np

from ...arrays.library import (
    Array,
    Index,
    Namespace,
    as_dtype,
    cast,
    copy_array,
    dtype_of,
    host_dtype,
)
from ...errors import AxisError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, apply
from ..elementwise.casting import cast_to
from ..elementwise.unary import zeros_like
from .broadcasting import expand_to, sum_to
from .indexing import place_pattern, put, split_index, take_pattern
from .movement import expand, reshape


class Assign(KeepsSpec):
    """The first input with the second at an index; further inputs are the index's arrays."""

    on_arrays = reads_indices = True
    reads_output = False
    name = "setitem"

    def __init__(self, pattern: tuple[Index, ...]) -> None:
        self.pattern = pattern

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        out = copy_array(arrays[0]) if hasattr(arrays[0], "shape") else arrays[0]
        if isinstance(out, np.generic):
            out = np.array(out)
        put(out, self.pattern, arrays[2:], cast(arrays[1], dtype_of(out)))
        return out

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """What was overwritten gets none; the values get that of their places."""
        _, value, *indices = node.inputs
        rest = apply(Assign(self.pattern), out_grad, zeros_like(value), *indices)
        share = _shape_like(take_pattern(out_grad, self.pattern, indices), value)
        return (rest, share, *(None for _ in indices))


def _shape_like(grad: Kind, value: Any) -> Kind:
    """Return the gradient of values that may carry leading axes of size 1."""
    lead = len(value.shape) - len(grad.shape)
    if lead > 0:
        grad = reshape(grad, (1,) * lead + tuple(grad.shape))
    return cast_to(sum_to(grad, value), value.dtype)


def assign_at(x: Kind, index: object, value: Any) -> Kind:
    """Return `x` with `value` at `index`.

    Raises:
        ShapeError, AxisError: the value does not fit, the index is out of range.
    """
    pattern, arrays = split_index(index)
    if isinstance(value, bool | int | float | list):
        value = np.asarray(value).astype(host_dtype(as_dtype(x.dtype)))
    try:
        return apply(Assign(pattern), x, value, *arrays)
    except (ShapeError, AxisError) as error:
        raise type(error)(f"x[index] = value: does not fit: {error}") from error


def replace_all(x: Kind, value: Any) -> Kind:
    """Return `value` broadcast to the shape of `x`, in its dtype."""
    if not hasattr(value, "shape") or isinstance(value, np.ndarray):
        return assign_at(x, ..., value)
    return assign_at(x, ..., expand_to(value, x))


def index_put(x: Kind, indices: Any, values: Kind, accumulate: bool = False) -> Kind:
    """Return `x` with `values` at an advanced index, or added there; equal places add up."""
    values = cast_to(values, x.dtype)
    if not accumulate:
        return assign_at(x, tuple(indices), values)
    pattern, arrays = split_index(tuple(indices))
    spread = expand(values, tuple(take_pattern(x, pattern, arrays).shape))
    return x + place_pattern(spread, pattern, arrays, x)
