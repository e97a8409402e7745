"""What a loop remembers of its rounds, as values of the graph: persistent lists and bundles.

A round of a backward loop needs what the same round computed forwards. The forward loop keeps such
values in a `Stack`, a list whose newest item is on top and which is never changed: putting an item
on it makes a new list. That makes the list a value like any other, so it has a gradient (which is
again such a list), and a loop over lists has a gradient of any order. What a loop hands on in the
end is a bundle, `Outcome`, out of which `Output` takes one value and `History` a list.

A gradient's list may be shorter than its list or have holes; what is missing counts as zeros.
A value that was dead when it was kept is a hole too, and dead again when it is taken out.

Source: gradients of loops by lists that are values are TensorFlow's `while_v2`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ...arrays.library import Array, DType, Namespace, as_dtype, float32, namespace, namespace_on
from ...arrays.shapes import Shape
from ...op import FixedSpec, Flat, Gradients, KeepsSpec, Spec
from ..core.naming import label
from ..core.node import Node, build
from ..core.placeholders import Placeholder
from ..core.variables import State, StateOp

if TYPE_CHECKING:
    from .while_op import While


class Dead:
    """A value that was not sent; there is one, `DEAD`."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()


V = TypeVar("V")


def require_alive(value: V, node: Node) -> V:
    """Return a fetched value.

    Raises:
        GraphError: it is dead: the run went the other way.
    """
    if value is DEAD:
        raise node.error(
            f"run: fetched {node.name!r} is dead: the run went the other way at a switch. Fetch "
            "what merges both sides."
        )
    return value


class Stack:
    """Values of earlier rounds: the newest, and all that are below it."""

    __slots__ = ("below", "top")

    def __init__(self, top: Any, below: Stack | None) -> None:
        self.top, self.below = top, below

    def __add__(self, other: Stack) -> Stack:
        """Add item by item; a hole is zeros, and so is what lies below the end."""
        tops: list[Any] = []
        a, b = self, other
        while a is not EMPTY and b is not EMPTY:
            tops.append(_total(a.top, b.top))
            a, b = rest(a), rest(b)
        total = b if a is EMPTY else a
        for top in reversed(tops):
            total = Stack(top, total)
        return total


HOLE = None  # in the place of an item
EMPTY = Stack(HOLE, None)


def rest(stack: Stack) -> Stack:
    """Return the list without its top; of the empty one the empty one."""
    return EMPTY if stack.below is None else stack.below


def zeros_of(value: object) -> Any:
    """Return zeros like an array; like what is no array, the empty list."""
    return namespace(value).zeros_like(value) if hasattr(value, "dtype") else EMPTY


def _total(a: Any, b: Any) -> Any:
    if a is HOLE or b is HOLE:
        return b if a is HOLE else a
    return a + b


Slot = tuple[str, int]
"""A place in a loop's outcome: ("out", i) for a variable, ("past", k) for a list."""
NOWHERE: frozenset[Slot] = frozenset()


# ── nodes whose value is no array ───────────────────────────────────────────────────────────────


class HandleNode(Node):
    """A node whose value is a list or a loop's outcome. Gradients of it are added by `Join`."""

    __slots__ = ()

    def __add__(self, other: Node) -> Node:  # type: ignore[override]  # of its own kind alone
        places = getattr(self.op, "places", NOWHERE) | getattr(other.op, "places", NOWHERE)
        return build(Join(places), (self, other), kind=HandleNode)


class HandlePlaceholder(HandleNode, Placeholder):
    """A loop's variable that is a list."""

    __slots__ = ()


def list_dtype(flows: bool) -> DType:
    """Return the dtype of a list, which only says whether gradients flow through it."""
    return float32 if flows else as_dtype(bool)


class StackOp(FixedSpec, StateOp):
    """Base of the operators on lists and bundles: no pass looks into them, none has an effect.

    Of a list's type only `dtype` means something: whether gradients flow.
    """

    ordered = False
    hands_on = True
    dtype: DType = float32


class Empty(StackOp):
    """The empty list; `flows` says whether gradients are to flow through what will be kept."""

    def __init__(self, flows: bool = True) -> None:
        self.dtype = list_dtype(flows)

    def run(self, state: State, *arrays: object) -> Any:
        return EMPTY

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """Return nothing: there is no input."""
        return ()


class Push(StackOp):
    """The list with a value on top. It fires on a dead value too, and keeps a hole then."""

    fires_on_dead = (1,)

    def run(self, state: State, *arrays: Any) -> Any:
        stack, value = arrays
        return Stack(HOLE if value is DEAD else value, stack)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a list through which gradients flow if they do through the value."""
        return Spec((), list_dtype(specs[1].dtype.kind == "f"))

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """What lies below belongs to the list, the top to the value."""
        value = node.inputs[1]
        by_value = top_or_zeros(out_grad, value) if value.dtype.kind == "f" else None
        return without_top(out_grad), by_value


class Top(StackOp):
    """The newest value; dead where that is a hole. With a second input, zeros like it instead."""

    may_kill = True

    def __init__(self, shape: Shape, dtype: DType) -> None:
        self.shape, self.dtype = shape, dtype

    def run(self, state: State, *arrays: Any) -> Any:
        value = arrays[0].top
        if value is not HOLE:
            return value
        return zeros_of(arrays[1]) if len(arrays) == 2 else DEAD

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """A list with nothing but the gradient on top."""
        return (push(empty(), out_grad), None)[: len(node.inputs)]


class Pop(KeepsSpec, StackOp):
    """The list without its top."""

    def run(self, state: State, *arrays: Any) -> Any:
        return rest(arrays[0])

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The gradient's list with a hole on top."""
        return build(PushHole(), (out_grad,), kind=HandleNode)


class PushHole(StackOp):
    """The list with a hole on top."""

    def run(self, state: State, *arrays: Any) -> Any:
        return Stack(HOLE, arrays[0])

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """What lies below."""
        return without_top(out_grad)


class Join(StackOp):
    """The sum of two gradients that are lists or bundles; `places` are those of the bundles."""

    def __init__(self, places: frozenset[Slot] = NOWHERE) -> None:
        self.places = places

    def run(self, state: State, *arrays: Any) -> Any:
        return arrays[0] + arrays[1]

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return out_grad, out_grad


class Filled(Flat, StackOp):
    """Whether a list has a round left."""

    dtype = as_dtype(bool)

    def run(self, state: State, *arrays: object) -> Array:
        return namespace_of(state).asarray(arrays[0] is not EMPTY)


def namespace_of(state: State) -> Namespace:
    """Return the array namespace of a session's device."""
    return namespace_on(state.device)


def kind_of(node: Node) -> type[Node]:
    """Return the class of a node that stands for the same sort of value as `node`."""
    return HandleNode if isinstance(node, HandleNode) else Node


def placeholder_like(node: Node, name: str) -> Placeholder:
    """Return a placeholder, inside a loop, for a value of the same type as `node`."""
    kind = HandlePlaceholder if isinstance(node, HandleNode) else Placeholder
    like = kind(node.dtype, node.shape, name)
    like.inside = True
    return like


def top(stack: Node, like: Node) -> Node:
    """Return the newest value of `stack`, which was kept from `like`."""
    return build(Top(like.shape, like.dtype), (stack,), kind=kind_of(like))


def top_or_zeros(stack: Node, like: Node) -> Node:
    """Return the newest value of the gradient list `stack`; where it is missing, zeros."""
    return build(Top(like.shape, like.dtype), (stack, like), kind=kind_of(like))


def empty(flows: bool = True) -> Node:
    """Return the empty list; `flows` says whether gradients are to flow through its items."""
    return build(Empty(flows), (), kind=HandleNode)


def push(stack: Node, value: Node) -> Node:
    """Return the list with a value on top."""
    return build(Push(), (stack, value), kind=HandleNode)


def without_top(stack: Node) -> Node:
    """Return the list without its newest value."""
    return build(Pop(), (stack,), kind=HandleNode)


def has_more(stack: Node) -> Node:
    """Return whether the list has a value."""
    return build(Filled(), (stack,))


class Outcome:
    """What a loop hands on, or the gradients that arrive there: values by slot."""

    def __init__(self, values: dict[Slot, Any]) -> None:
        self.values = values

    def __add__(self, other: Outcome) -> Outcome:
        total = dict(self.values)
        for slot, value in other.values.items():
            total[slot] = total[slot] + value if slot in total else value
        return Outcome(total)


def outcome(values: Iterable[object], lists: Iterable[tuple[int, Stack]]) -> Outcome:
    """Return what a loop hands on: its variables' last values, and lists by number."""
    last: dict[Slot, object] = {("out", i): value for i, value in enumerate(values)}
    return Outcome({**last, **{("past", k): stack for k, stack in lists}})


def push_each(pasts: Iterable[Stack], items: Iterable[object]) -> list[Stack]:
    """Return each list with an item more on top; what is dead leaves a hole."""
    pairs = zip(pasts, items, strict=True)
    return [Stack(HOLE if item is DEAD else item, stack) for stack, item in pairs]


class Output(StackOp):
    """One value of a loop's outcome, or of the gradients that arrive there."""

    def __init__(self, slot: Slot, like: Node) -> None:
        self.slot, self.shape, self.dtype = slot, like.shape, like.dtype

    def run(self, state: State, *arrays: Any) -> Any:
        return arrays[0].values[self.slot]

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """Return the gradient, marked with its place in the outcome."""
        return build(Pack(self.slot), (out_grad,), kind=HandleNode)


class History(Output):
    """The list of a node's values in the rounds, newest first."""

    def __init__(self, place: int, like: Node) -> None:
        self.slot: Slot = ("past", place)
        self.place, self.shape = place, ()
        self.dtype = list_dtype(like.dtype.kind == "f")


class Pack(StackOp):
    """A gradient with the place where it belongs."""

    def __init__(self, slot: Slot) -> None:
        self.slot, self.places = slot, NOWHERE | {slot}

    def run(self, state: State, *arrays: object) -> Any:
        return Outcome({self.slot: arrays[0]})

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        (value,) = node.inputs
        return build(Output(self.slot, value), (out_grad,), kind=kind_of(value))


def loop_outputs(loop: While, first: Sequence[Node], name: str | None = None) -> list[Node]:
    """Return the results of a loop that starts from `first`."""
    node = build(loop, (*first, *loop.captured), kind=HandleNode)
    if name is not None:
        label(node, name)
    return [
        build(Output(("out", i), v), (node,), kind=kind_of(v)) for i, v in enumerate(loop.variables)
    ]
