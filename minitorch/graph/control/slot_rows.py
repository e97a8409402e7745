"""Many slots at once: rows written to and read from some of them, arrays cut into them and glued.

Each is made of slots, arrays and numbers, and each one's gradient is another of them.
"""

from __future__ import annotations

from typing import Any

from ...arrays import Array, DType, namespace, native_dtype
from ...errors import GraphError
from ...op import Spec
from ..node import UNKNOWN, build
from ..state import State
from .history import EMPTY, Opacity, Opaque, namespace_of
from .slots import MOST, SlotOp, Slots


class WriteMany(SlotOp):
    """The slots with a row of an array in each of some; inputs slots, their numbers, the array."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the new slots.

        Raises:
            GraphError: there is no such slot, it was written before, or rows and numbers differ.
        """
        slots, numbers, rows = arrays
        if len(numbers) != len(rows):
            raise GraphError(
                f"TensorArray.scatter: got {len(numbers)} indices for {len(rows)} rows, expected "
                "one for each."
            )
        for i, row in zip(map(int, numbers), rows, strict=True):
            most = MOST if slots.size is None else slots.size
            if not 0 <= i < most:
                raise GraphError(
                    f"TensorArray.scatter: got index {i}, expected one from 0 to {most - 1}."
                )
            if slots.get(i) is not None:
                raise GraphError(f"TensorArray.scatter: index {i} was written before.")
            slots = slots.put(i, row)
        return slots

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The rows' own gradients to the array, the others' to the slots as they were."""
        _, numbers, rows = node.inputs
        rest = build(ClearMany(True), (out_grad, numbers), kind=Opaque)
        return rest, None, build(ReadLike(), (out_grad, numbers, rows))


class ClearMany(SlotOp):
    """The slots with some of them empty."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the new slots."""
        slots, numbers = arrays
        for i in [] if slots is EMPTY else map(int, numbers):
            slots = slots.put(i, None)
        return slots

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The gradient, but for those."""
        return build(ClearMany(True), (out_grad, node.inputs[1]), kind=Opaque), None


class AddMany(SlotOp):
    """New slots with the rows of an array in them; those of one number are added up."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the slots."""
        numbers, rows = arrays
        slots = Slots(None)
        for i, row in zip(map(int, numbers), rows, strict=True):
            there = slots.get(i)
            slots = slots.put(i, row if there is None else there + row)
        return slots

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The rows of the gradient."""
        numbers, rows = node.inputs
        return None, build(ReadLike(), (out_grad, numbers, rows))


class ReadMany(Opacity):
    """What is in some slots, as one array."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the array.

        Raises:
            GraphError: one has not been written.
        """
        slots, numbers = arrays
        found = [slots.get(int(i)) if 0 <= int(i) < MOST else None for i in numbers]
        for i, row in zip(numbers, found, strict=True):
            if row is None:
                raise GraphError(f"TensorArray.gather: index {int(i)} has not been written.")
        xp = namespace_of(state)
        sizes = () if self.shape is UNKNOWN else tuple(n or 0 for n in self.shape)
        empty = xp.zeros((0, *sizes), dtype=native_dtype(xp, self.dtype))
        return xp.stack([xp.asarray(row) for row in found]) if found else empty

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of as many rows as there are numbers."""
        if self.shape is UNKNOWN:
            return Spec(UNKNOWN, self.dtype)
        return Spec((specs[1].shape[0], *self.shape), self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Slots with nothing but the gradient's rows."""
        return build(AddMany(True), (node.inputs[1], out_grad), kind=Opaque), None


class ReadLike(Opacity):
    """Some slots as an array like the third input, zeros where nothing is."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the array."""
        slots, numbers, like = arrays
        total = namespace(like).zeros_like(like)
        for row, i in enumerate(map(int, numbers)):
            found = None if slots is EMPTY else slots.get(i)
            if found is not None:
                total[row] = found
        return total

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the array that it is like."""
        return specs[2]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Slots with nothing but the gradient's rows."""
        return build(AddMany(True), (node.inputs[1], out_grad), kind=Opaque), None, None


# ── one after another ───────────────────────────────────────────────────────────────────────────


class Lengths(Opacity):
    """How many rows each slot has; an empty one as many as all have, where that is known."""

    dtype = DType("int32")

    def __init__(self, shape: Any) -> None:
        self.shape = shape

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the numbers.

        Raises:
            GraphError: a slot is empty.
        """
        slots, xp = arrays[0], namespace_of(state)
        found = [slots.get(i) for i in range(slots.count if slots.size is None else slots.size)]
        if None in self.shape and any(part is None for part in found):
            raise GraphError("TensorArray.concat: an index was not written. Write each of them.")
        rows = [self.shape[0] if part is None else part.shape[0] for part in found]
        return xp.asarray(rows, dtype=xp.int32)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a vector."""
        return Spec((None,), self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: numbers of rows have no gradient."""
        return (None,)


class Cut(SlotOp):
    """An array in pieces of these lengths, a slot for each; inputs the array, the lengths."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the slots.

        Raises:
            GraphError: the lengths do not add up to the array's.
        """
        array, lengths = arrays[0], [int(n) for n in arrays[1]]
        if sum(lengths) != array.shape[0] or min(lengths, default=0) < 0:
            raise GraphError(
                f"TensorArray.split: got lengths {lengths} for {array.shape[0]} rows, expected "
                "them to add up to it."
            )
        slots, start = Slots(len(lengths)), 0
        for i, n in enumerate(lengths):
            slots, start = slots.put(i, array[start : start + n]), start + n
        return slots

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The pieces' gradients one after another."""
        array, lengths = node.inputs
        glued = Glue(tuple(array.shape)[1:] if array.shape is not UNKNOWN else UNKNOWN, array.dtype)
        return build(glued, (out_grad, lengths, array)), None


class Glue(Opacity):
    """The slots one after another; inputs slots, their lengths, and what has zeros for a gap."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype

    def run(self, state: State, *arrays: Any) -> Array:
        """Return the array."""
        slots, lengths, xp = arrays[0], [int(n) for n in arrays[1]], namespace_of(state)
        known = () if self.shape is UNKNOWN else tuple(n or 0 for n in self.shape)
        inner = tuple(arrays[2].shape)[1:] if len(arrays) > 2 else known
        parts = []
        for i, n in enumerate(lengths):
            found = None if slots is EMPTY else slots.get(i)
            zeros = xp.zeros((n, *inner), dtype=native_dtype(xp, self.dtype))
            parts.append(zeros if found is None else xp.asarray(found))
        empty = xp.zeros((0, *known), dtype=native_dtype(xp, self.dtype))
        return xp.concat(parts) if parts else empty

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of rows of that shape."""
        return Spec(UNKNOWN if self.shape is UNKNOWN else (None, *self.shape), self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The gradient cut into the same pieces."""
        pieces = build(Cut(True), (out_grad, node.inputs[1]), kind=Opaque)
        return (pieces, None, None)[: len(node.inputs)]
