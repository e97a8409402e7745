"""The loop as one node: what runs the rounds, and what takes values out of the outcome.

Condition and body are graphs of their own over placeholders for the loop's variables; what they
use from outside is captured as further inputs. The outcome is a bundle of arrays, from which
`Output` takes one and `History` the list of what a node of the body was in each round.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...arrays.library import Array
from ...op import Gradients
from ..core.copying import copy_nodes
from ..core.graph import outside
from ..core.node import Constant, Node, fresh_id
from ..core.order import is_ordered, list_needed, writes_of
from ..core.variables import State, Variable
from ..executors.compiled import Step
from .loop_gradient import backward
from .loop_stacks import (
    EMPTY,
    Empty,
    History,
    Outcome,
    Output,
    StackOp,
    outcome,
    placeholder_like,
    push_each,
)

KEPT_APART = 10
"""Rounds of one loop that may be under way at once, TensorFlow's number."""


class While(StackOp):
    """The loop itself; inputs are the first values, then what is captured.

    Attributes:
        variables: the placeholders of the loop's variables.
        captured: the outer nodes that condition and body use; known to a loop made by `capture`.
        entrances: the placeholders that stand for these inside.
        given: the placeholders of all inputs; as a set, `placeholders`.
        test, body: whether there is another round; the variables' next values. Both depend on
            nothing but the placeholders.
        saved: nodes of the body whose values in each round somebody may ask for.
        built: the ids between which a program built what is inside; the loop has copies of these.
        parallel_iterations: rounds that a token executor may have under way at once.
    """

    name = "while"

    captured: tuple[Node, ...] = ()
    built = (0, 0)

    @classmethod
    def capture(
        cls,
        test: Node,
        body: Sequence[Node],
        variables: Sequence[Node],
        parallel_iterations: int = KEPT_APART,
    ) -> "While":
        """Return a loop whose graphs are copies of these, with all from outside captured."""
        built = (min((v.id for v in variables), default=0), fresh_id())
        captured = outer_nodes([test, *body], variables)
        with outside():
            entrances = [placeholder_like(node, "captured") for node in captured]
        copies: dict[Node, Node] = dict(zip(captured, entrances, strict=True))
        copies.update((v, v) for v in variables)
        test, *after = copy_nodes([test, *body], copies)
        loop = cls(test, after, variables, entrances, (), parallel_iterations)
        loop.captured, loop.built = captured, built
        return loop

    def __init__(
        self,
        test: Node,
        body: Sequence[Node],
        variables: Sequence[Node],
        entrances: Sequence[Node],
        saved: Sequence[Node],
        parallel_iterations: int,
    ) -> None:
        self.test, self.body = test, tuple(body)
        self.variables, self.entrances = tuple(variables), tuple(entrances)
        self.parallel_iterations = parallel_iterations
        self.saved = list(saved)
        self._places = {node: k for k, node in enumerate(saved)}
        self.given = (*variables, *entrances)
        self.placeholders = frozenset(self.given)
        inside = self.nodes()
        self.writes = tuple({v: None for node in inside for v in writes_of(node)})
        self.ordered = any(isinstance(node, Variable) or is_ordered(node) for node in inside)
        self._steps: dict[tuple[int, ...], tuple[Step, Step]] = {}

    def nodes(self) -> list[Node]:
        """Return all that is inside."""
        return list_needed([self.test, *self.body, *self.saved], self.placeholders)

    def place_of(self, node: Node) -> int:
        """Return the number under which `History` has the rounds of a node of the body."""
        if node not in self._places:
            self._places[node] = len(self.saved)
            self.saved.append(node)
        return self._places[node]

    def run(self, state: State, *arrays: object) -> Any:
        return self.run_keeping(())(state, *arrays)

    def runner(self, asked: Sequence[Node]) -> Callable[..., Any]:
        """Return `run` that also keeps the rounds of what is asked for by a `History`."""
        return self.run_keeping(sorted({n.op.place for n in asked if isinstance(n.op, History)}))

    def run_keeping(self, places: Sequence[int]) -> Callable[..., Outcome]:
        """Return `run` that also keeps the rounds of these nodes of `saved`."""
        test, once = self.steps(tuple(places))
        count = len(self.variables)

        def run(state: State, *arrays: Array) -> Outcome:
            values, captured = tuple(arrays[:count]), arrays[count:]
            pasts = [EMPTY] * len(places)
            while test(state, (*values, *captured))[0]:
                ends = once(state, (*values, *captured))
                values = ends[:count]
                pasts = push_each(pasts, ends[count:])
            return outcome(values, zip(places, pasts, strict=True))

        return run

    def steps(self, places: tuple[int, ...]) -> tuple[Step, Step]:
        """Return the condition and one round, which also gives these nodes of `saved`."""
        if places not in self._steps:
            saved = [self.saved[k] for k in places]
            self._steps[places] = (
                Step([self.test], self.given, inner=1),
                Step([*self.body, *saved], self.given, inner=len(self.body)),
            )
        return self._steps[places]

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """A loop backwards over the rounds."""
        return backward(self, out_grad, node)


def loops_used(
    order: Sequence[Node], fed: Collection[Node]
) -> dict[Node, tuple[list[Node], list[Node]]]:
    """Return the loops of a run: what takes values or lists out of each, and what uses it whole."""
    uses: dict[Node, tuple[list[Node], list[Node]]] = {
        node: ([], []) for node in order if isinstance(node.op, While) and node not in fed
    }
    for node in order if uses else ():
        for source in () if node in fed else node.inputs:
            if source in uses:
                uses[source][0 if isinstance(node.op, Output) else 1].append(node)
    return uses


def outer_nodes(fetches: Sequence[Node], variables: Sequence[Node]) -> tuple[Node, ...]:
    """Return what a loop's graphs use from outside: nodes built before the loop's variables.

    A Variable is outside wherever it was built, but for one that the loop itself writes, and so is
    what is taken out of an outer loop: that one only keeps what is asked for outside. Constants
    stay where they are, and so do empty lists.
    """
    start = min((v.id for v in variables), default=0)
    outsiders: dict[Node, None] = {}
    inside: dict[Node, None] = {}
    waiting = list(fetches)
    while waiting:
        node = waiting.pop()
        if node in inside or node in outsiders:
            continue
        outer = node.id < start or isinstance(node, Variable) or _is_taken_before(node, start)
        if outer and not isinstance(node, Constant) and not isinstance(node.op, Empty):
            outsiders[node] = None
            continue
        inside[node] = None
        waiting += [*node.inputs, *node.control_inputs]
    written = {v for node in inside for v in writes_of(node)}
    return tuple(node for node in outsiders if not (isinstance(node, Variable) and node in written))


def _is_taken_before(node: Node, start: int) -> bool:
    """Tell whether a node does nothing but take a value out of a loop built before `start`."""
    takes = isinstance(node.op, Output) and not node.control_inputs
    return takes and node.inputs[0].id < start
