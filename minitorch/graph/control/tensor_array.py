"""TensorArray: values by number that a loop writes and reads, under TensorFlow's name."""

from __future__ import annotations

from typing import Any

from ...arrays import as_dtype, int32
from ...errors import GraphError
from ...op import Spec
from ..core.node import Node, UnknownShape, as_shape, build, convert
from .loop_stacks import Opaque
from .slots import New, Pile, Read, Size, Unpile, Write


class Elements:
    """What is known of the values of a TensorArray; shared by all of its versions."""

    def __init__(self, dtype: Any, shape: Any) -> None:
        self.dtype = as_dtype(dtype)
        self.shape = None if shape is None else tuple(as_shape(shape))

    def add(self, value: Node) -> None:
        """Take note of a value that is written.

        Raises:
            GraphError: it has another dtype or shape than the others.
        """
        if value.dtype != self.dtype:
            raise GraphError(
                f"TensorArray.write: got a value of {value.dtype}, expected {self.dtype} (node "
                f"{value.name!r} built at {value.location})."
            )
        if isinstance(value.shape, UnknownShape):
            return
        got = tuple(value.shape)
        if self.shape is None:
            self.shape = got
        if len(got) != len(self.shape) or any(
            None not in (a, b) and a != b for a, b in zip(got, self.shape, strict=True)
        ):
            raise GraphError(
                f"TensorArray.write: got a value of shape {got}, expected {self.shape}, that of "
                f"the others (node {value.name!r} built at {value.location})."
            )


class TensorArray:
    """Values by number. `write` gives a new one, which is to be used from then on.

    Args:
        dtype: of the values.
        size: how many there are; not needed with `dynamic_size`.
        dynamic_size: as many as are written.
        element_shape: of each value; that of the first one written unless given.

    It may be a variable of a `while_loop`, and has gradients of any order.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool = False,
        element_shape: Any = None,
    ) -> None:
        if size is None and not dynamic_size:
            raise GraphError("TensorArray: got no size. Give one, or dynamic_size=True.")
        self.elements = Elements(dtype, element_shape)
        new = New(self.elements.dtype.kind == "f")
        self.flow = build(new, () if dynamic_size else (convert(size),), kind=Opaque)

    def with_flow(self, flow: Node) -> TensorArray:
        """Return this array after what `flow` stands for."""
        other = object.__new__(TensorArray)
        other.elements, other.flow = self.elements, flow
        return other

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.elements.dtype

    def write(self, index: Any, value: Any) -> TensorArray:
        """Return the array with `value` at `index`, where nothing was before."""
        node = convert(value, self.dtype)
        self.elements.add(node)
        write = Write(self.dtype.kind == "f")
        return self.with_flow(build(write, (self.flow, convert(index, int32), node), kind=Opaque))

    def read(self, index: Any) -> Node:
        """Return the value at `index`."""
        read = Read(Spec(self._shape("read"), self.dtype))
        return build(read, (self.flow, convert(index, int32)))

    def stack(self) -> Node:
        """Return all values as one array, with an axis more in front."""
        return build(Pile(self._shape("stack"), self.dtype), (self.flow,))

    def unstack(self, value: Any) -> TensorArray:
        """Return an array that has the rows of `value`."""
        node = convert(value, self.dtype)
        self.elements.add(node[0])
        return self.with_flow(build(Unpile(self.dtype.kind == "f"), (node,), kind=Opaque))

    def size(self) -> Node:
        """Return how many values there are."""
        return build(Size(), (self.flow,))

    def _shape(self, what: str) -> Any:
        if self.elements.shape is None:
            raise GraphError(
                f"TensorArray.{what}: the shape of its values is not known yet. Write one first, "
                "or give element_shape."
            )
        return self.elements.shape
