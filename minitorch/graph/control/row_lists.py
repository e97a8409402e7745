"""An array as a list of its rows, and back: what a loop reads one row a round of, or writes.

Each is the other's gradient. In a list for reading the next row is on top; in a list that a loop
has written the last one is.
"""

from typing import Any

from ...arrays.library import Array, Namespace, namespace, native_dtype
from ...op import Gradients, KeepsSpec, Op, Spec
from ..core.node import Node, build
from ..core.variables import State
from .loop_stacks import (
    EMPTY,
    HOLE,
    HandleNode,
    Stack,
    StackOp,
    Top,
    list_dtype,
    namespace_of,
    rest,
)


class Spread(StackOp):
    """The rows of an array as a list: the first on top, or the last."""

    def __init__(self, first_on_top: bool) -> None:
        self.first_on_top = first_on_top

    def run(self, state: State, *arrays: Any) -> Any:
        (array,) = arrays
        stack = EMPTY
        for i in range(array.shape[0])[:: -1 if self.first_on_top else 1]:
            stack = Stack(array[i], stack)
        return stack

    def infer(self, *specs: Spec) -> Spec:
        return Spec((), list_dtype(specs[0].dtype.kind == "f"))

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The rows' gradients as an array, zeros where one is missing."""
        return build(Collect(self.first_on_top), (out_grad, node.inputs[0]))


class StackRows(StackOp):
    """A list of equal arrays as one array with an axis more in front, of size `count` if known."""

    def __init__(self, first_on_top: bool, like: Node, count: int | None) -> None:
        self.first_on_top = first_on_top
        self.shape, self.dtype = (count, *tuple(like.shape)), like.dtype

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the array; of no row, one of size 0."""
        xp = namespace_of(state)
        items = rows(arrays[0])
        if not items:
            return xp.zeros(
                (0, *(n or 0 for n in self.shape[1:])), dtype=native_dtype(xp, self.dtype)
            )
        return xp.stack([xp.asarray(r) for r in (items if self.first_on_top else items[::-1])])

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return build(Spread(self.first_on_top), (out_grad,), kind=HandleNode)


class Collect(KeepsSpec, StackOp):
    """A gradient's list as an array like the second input, zeros where a row is missing."""

    like = 1

    def __init__(self, first_on_top: bool) -> None:
        self.first_on_top = first_on_top

    def run(self, state: State, *arrays: Any) -> Any:
        stack, like = arrays
        total = namespace(like).zeros_like(like)
        order = range(like.shape[0])[:: 1 if self.first_on_top else -1]
        for i, row in zip(order, rows(stack), strict=False):
            if row is not HOLE:
                total[i] = row
        return total

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return build(Spread(self.first_on_top), (out_grad,), kind=HandleNode), None


class Resize(Op):
    """The first input with as many rows as the second has: cut off, or zeros below."""

    reads_inputs = reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        x, like = arrays
        if like.shape[0] <= x.shape[0]:
            return x[: like.shape[0]]
        out = xp.zeros((like.shape[0], *x.shape[1:]), dtype=x.dtype)
        out[: x.shape[0]] = x
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec((specs[1].shape[0], *specs[0].shape[1:]), specs[0].dtype)

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The rows that were there before, or the same with zeros below."""
        return build(Resize(), (out_grad, node.inputs[0])), None


def rows(stack: Stack) -> list[Any]:
    """Return the items of a list, top first."""
    items = []
    while stack is not EMPTY:
        items.append(stack.top)
        stack = rest(stack)
    return items


def spread(array: Node) -> Node:
    """Return the rows of an array as a list, the first on top."""
    return build(Spread(True), (array,), kind=HandleNode)


def next_row(rows: Node, array: Node) -> Node:
    """Return the top of a list of rows of `array`."""
    return build(Top(array.shape[1:], array.dtype), (rows,))


def stack_arrays(stack: Node, like: Node, count: int | None = None) -> Node:
    """Return a list of arrays like `like`, the last on top, as one array."""
    return build(StackRows(False, like, count), (stack,))
