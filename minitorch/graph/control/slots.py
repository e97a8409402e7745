"""Numbered slots as a value of the graph: what a `TensorArray` is made of.

Writing makes new slots and leaves the old ones as they were; both share all but the way to what was
written (a tree with 32 branches at each of four levels). So slots can be a loop's variable, can be
kept for every round, and have gradients, which are slots again. A gradient that was never written
counts as zeros, and so does the empty list.

Source: tries with wide branches as persistent arrays, Bagwell, Ideal Hash Trees, 2001.
"""

from __future__ import annotations

from typing import Any

from ...arrays import DType, namespace, native_dtype
from ...errors import GraphError
from ...op import Spec
from ..core.node import Node, build
from ..core.variables import State
from .loop_stacks import EMPTY, Opacity, Opaque, flowing, kind_of, namespace_of, zeros_of

BITS, LEVELS = 5, 4
MOST = 1 << (BITS * LEVELS)
Tree = tuple[Any, ...] | None


class Slots:
    """Values by number, from 0; `size` is how many there may be, None for any number."""

    __slots__ = ("count", "root", "size")

    def __init__(self, size: int | None, root: Tree = None, count: int = 0) -> None:
        self.size, self.root, self.count = size, root, count

    def get(self, i: int) -> Any:
        """Return what is in slot `i`; None if nothing is."""
        node: Any = self.root
        for level in reversed(range(LEVELS)):
            if node is None:
                return None
            node = node[(i >> (BITS * level)) & (2**BITS - 1)]
        return node

    def put(self, i: int, value: Any) -> Slots:
        """Return slots with `value` in slot `i`; None to empty it."""
        root = _put(self.root, LEVELS - 1, i, value)
        return Slots(self.size, root, max(self.count, i + 1))

    def __add__(self, other: Any) -> Slots:
        """Add slot by slot; what is not there counts as zeros."""
        if other is EMPTY:
            return self
        return Slots(
            self.size, _merged(self.root, other.root, LEVELS), max(self.count, other.count)
        )


def _put(node: Tree, level: int, i: int, value: Any) -> Tree:
    items = [None] * 2**BITS if node is None else list(node)
    at = (i >> (BITS * level)) & (2**BITS - 1)
    items[at] = value if level == 0 else _put(items[at], level - 1, i, value)
    return tuple(items)


def _merged(a: Any, b: Any, level: int) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if level == 0:
        return a + b
    return tuple([_merged(x, y, level - 1) for x, y in zip(a, b, strict=True)])


class SlotOp(Opacity):
    """Base of the operators on slots; `flows` says whether gradients do."""

    def __init__(self, flows: bool) -> None:
        self.dtype = flowing(flows)


class New(SlotOp):
    """Empty slots, as many as the input says, or as many as will be written."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return them."""
        return Slots(int(arrays[0]) if arrays else None)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: a number of slots has no gradient."""
        return (None,) * len(node.inputs)


class Write(SlotOp):
    """The slots with a value in one of them that was empty; inputs slots, number, value."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the new slots.

        Raises:
            GraphError: there is no such slot, or it was written before.
        """
        slots, i, value = arrays[0], int(arrays[1]), arrays[2]
        most = MOST if slots.size is None else slots.size
        if not 0 <= i < most:
            raise GraphError(
                f"TensorArray.write: got index {i}, expected one from 0 to {most - 1}."
            )
        if slots.get(i) is not None:
            raise GraphError(f"TensorArray.write: index {i} was written before. Write each once.")
        return slots.put(i, value)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The slot's own gradient to the value, the others' to the slots as they were."""
        _, i, value = node.inputs
        rest = build(Clear(True), (out_grad, i), kind=Opaque)
        return rest, None, build(Read(value), (out_grad, i, value), kind=kind_of(value))


class Clear(SlotOp):
    """The slots with one of them empty."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the new slots."""
        return EMPTY if arrays[0] is EMPTY else arrays[0].put(int(arrays[1]), None)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """What is in the other slots."""
        return build(Clear(True), (out_grad, node.inputs[1]), kind=Opaque), None


class Single(SlotOp):
    """A gradient with nothing but one slot; inputs number, value."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the slots."""
        return Slots(None).put(int(arrays[0]), arrays[1])

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """What is in that slot."""
        i, value = node.inputs
        return None, build(Read(value), (out_grad, i, value), kind=kind_of(value))


class Read(Opacity):
    """What is in a slot; with a third input zeros like it where nothing is."""

    def __init__(self, like: Node | Spec) -> None:
        self.shape, self.dtype = like.shape, like.dtype

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the value.

        Raises:
            GraphError: nothing has been written there.
        """
        slots, i = arrays[0], int(arrays[1])
        found = None if slots is EMPTY else slots.get(i) if 0 <= i < MOST else None
        if found is None and len(arrays) == 3:
            return zeros_of(arrays[2])
        if found is None:
            raise GraphError(f"TensorArray.read: index {i} has not been written. Write it first.")
        return found

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of what was written."""
        return Spec(self.shape, self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Slots with nothing but the gradient."""
        by = build(Single(True), (node.inputs[1], out_grad), kind=Opaque)
        return (by, None, None)[: len(node.inputs)]


class Pile(Opacity):
    """All slots as one array with an axis more in front."""

    def __init__(self, shape: Any, dtype: DType) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the array; where nothing was written, zeros if the shape is known.

        Raises:
            GraphError: a slot is empty, and nothing tells its shape.
        """
        xp, slots = namespace_of(state), arrays[0]
        count = slots.count if slots.size is None else slots.size
        found = [slots.get(i) for i in range(count)]
        if None in self.shape and any(f is None for f in found):
            raise GraphError("TensorArray.stack: an index was not written. Give element_shape.")
        shape = tuple(n or 0 for n in self.shape)
        zeros = xp.zeros(shape, dtype=native_dtype(xp, self.dtype))
        rows = [zeros if f is None else xp.asarray(f) for f in found]
        return xp.stack(rows) if rows else zeros[None][:0]

    def infer(self, *specs: Spec) -> Spec:
        """Return the slots' spec with an axis in front."""
        return Spec((None, *self.shape), self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The gradient's rows in slots."""
        return build(Unpile(True), (out_grad,), kind=Opaque)


class Unpile(SlotOp):
    """The rows of an array in slots."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the slots."""
        slots = Slots(arrays[0].shape[0])
        for i, row in enumerate(arrays[0]):
            slots = slots.put(i, row)
        return slots

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The slots' gradients as an array."""
        return build(Collect(), (out_grad, node.inputs[0]))


class Collect(Opacity):
    """A gradient's slots as an array like the second input, zeros where one is missing."""

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the array."""
        slots, like = arrays
        total = namespace(like).zeros_like(like)
        for i in range(0 if slots is EMPTY else like.shape[0]):
            found = slots.get(i)
            if found is not None:
                total[i] = found
        return total

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the array that it is like."""
        return specs[1]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The gradient's rows in slots."""
        return build(Unpile(True), (out_grad,), kind=Opaque), None


class Size(Opacity):
    """How many slots there are, or have been written."""

    dtype = DType("int32")

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the number."""
        slots = arrays[0]
        xp = namespace_of(state)
        return xp.asarray(slots.count if slots.size is None else slots.size, dtype=xp.int32)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: a number has no gradient."""
        return (None,)
