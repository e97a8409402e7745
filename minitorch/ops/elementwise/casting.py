"""The same numbers under another dtype, or on another device."""

from typing import Any

import numpy as np

from ...arrays.allocator import rows_of
from ...arrays.library import (
    Array,
    Device,
    DType,
    DTypeLike,
    Namespace,
    as_dtype,
    cast,
    copy_array,
    device_of,
    float16,
    float32,
    move,
)
from ...errors import DTypeError
from ...op import Gradients, KeepsSpec, Kind, Methods, ReadsShapes, Spec, apply
from . import compiled


class Cast(ReadsShapes):
    """The numbers as `dtype`; between floats the gradient comes back in the dtype of the input."""

    halves = "as they are"

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is np and (x.dtype, self.dtype) in ((float16, float32), (float32, float16)):
            converted: Array = compiled.convert(x, self.dtype)
            return converted
        return cast(x, self.dtype)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[0].shape, self.dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the gradient converted back; integers on either side let none through."""
        source = as_dtype(node.inputs[0].dtype)
        if source.kind != "f" or self.dtype.kind != "f":
            return (None,)
        return (apply(Cast(source), out_grad),)


class Move(ReadsShapes, KeepsSpec):
    """The numbers on `device`; the gradient goes back to where the input is."""

    halves = "as they are"

    def __init__(self, device: Device) -> None:
        self.device = device

    def compute(self, xp: Namespace, x: Array) -> Array:
        return move(x, self.device)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        x = node.inputs[0]
        back = x.device if isinstance(getattr(x, "device", None), Device) else device_of(x)
        return (apply(Move(back), out_grad),)


class Clone(ReadsShapes, KeepsSpec):
    """A copy that lies in memory as what it was made of, or in rows."""

    halves = "as they are"

    def __init__(self, in_rows: bool = False) -> None:
        self.in_rows = in_rows

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return a new array with the same numbers; what repeats some is copied in rows."""
        if type(x) is not np.ndarray or x.flags.c_contiguous:
            return copy_array(x)
        if not self.in_rows and 0 not in x.strides:
            return x.copy("K")
        return rows_of(x, x.shape) if x.flags.f_contiguous else x.copy()

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (out_grad,)


def cast_to(x: Kind, dtype: DTypeLike) -> Kind:
    """Return `x` as `dtype`; `x` itself when it already is."""
    kind = as_dtype(dtype)
    return x if as_dtype(x.dtype) == kind else apply(Cast(kind), x)


def clone(x: Kind) -> Kind:
    """Return a copy of `x`, through which gradients flow."""
    return apply(Clone(), x)


def own_copy(value: Methods) -> Methods:
    """Return a copy by which a gradient can be asked for, without a path to other copies."""
    copy = clone(value)
    if not getattr(copy, "requires_grad", True):
        copy.requires_grad = True  # type: ignore[attr-defined]
    return copy


def copy_in_rows(x: Kind) -> Kind:
    """Return a copy of `x` whose elements lie in memory in order."""
    return apply(Clone(in_rows=True), x)


def require_floats(name: str, x: Methods) -> None:
    """Raise unless `x` has a floating dtype.

    Raises:
        DTypeError: names the operator and the dtype.
    """
    if as_dtype(x.dtype).kind != "f":
        raise DTypeError(
            f"{name}: got {x.dtype}, expected a floating dtype. Convert with .float()."
        )


def type_as(x: Kind, other: Any) -> Kind:
    """Return `x` with the dtype of `other`."""
    return cast_to(x, other.dtype)
