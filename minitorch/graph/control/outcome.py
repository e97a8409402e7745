"""What a loop hands on: a bundle of arrays, and the operators that take values out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...op import Spec
from ..core.naming import label
from ..core.node import Node, build
from ..core.variables import State
from .loop_stacks import NOWHERE, Opacity, Opaque, Slot, flowing, kind_of


class Outcome:
    """What a loop hands on, or the gradients that arrive there: values by slot."""

    def __init__(self, values: dict[Slot, Any]) -> None:
        self.values = values

    def __add__(self, other: Outcome) -> Outcome:
        total = dict(self.values)
        for slot, value in other.values.items():
            total[slot] = total[slot] + value if slot in total else value
        return Outcome(total)


class Output(Opacity):
    """One value of a loop's outcome, or of the gradients that arrive there."""

    def __init__(self, slot: Slot, like: Node) -> None:
        self.slot, self.shape, self.dtype = slot, like.shape, like.dtype

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the value."""
        return arrays[0].values[self.slot]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the loop's variable."""
        return Spec(self.shape, self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Hand the gradient in at this place."""
        return build(Pack(self.slot), (out_grad,), kind=Opaque)


class History(Output):
    """The list of what a node of the body was in each round."""

    def __init__(self, place: int, like: Node) -> None:
        self.slot: Slot = ("past", place)
        self.place, self.shape = place, ()
        self.dtype = flowing(like.dtype.kind == "f")


class Pack(Opacity):
    """A gradient with the place where it belongs."""

    def __init__(self, slot: Slot) -> None:
        self.slot, self.places = slot, NOWHERE | {slot}

    def run(self, state: State, *arrays: Any) -> Any:
        """Return the value by its place."""
        return Outcome({self.slot: arrays[0]})

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Take it out again."""
        (value,) = node.inputs
        return build(Output(self.slot, value), (out_grad,), kind=kind_of(value))


def loop_outputs(loop: Any, first: Sequence[Node], name: str | None = None) -> list[Node]:
    """Return the results of a loop that starts from `first`."""
    node = build(loop, (*first, *loop.captured), kind=Opaque)
    if name is not None:
        label(node, name)
    return [
        build(Output(("out", i), v), (node,), kind=kind_of(v)) for i, v in enumerate(loop.variables)
    ]
