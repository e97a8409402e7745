"""The interpreter: node by node in order, every value kept; what the other executors must equal."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays.library import CPU, Array, Device, asarray
from ..control.liveness import merges, required_inputs
from ..control.loop_stacks import (
    DEAD,
    EMPTY,
    Outcome,
    namespace_of,
    outcome,
    push_each,
    require_alive,
)
from ..control.while_op import While
from ..core.node import Constant, Node
from ..core.order import schedule, sources
from ..core.placeholders import Placeholder
from ..core.variables import NoOp, Read, State, StateOp, Variable
from .compiled import check_source, copy_result
from .node_errors import explain


class InterpretedStep:
    """The run of `fetches` from `feeds`, node by node; called as a `Step` is."""

    def __init__(
        self, fetches: Sequence[Node], feeds: Sequence[Node], device: Device = CPU
    ) -> None:
        self.fetches, self.feeds = tuple(fetches), tuple(feeds)
        self.fed = frozenset(feeds)
        self.order = schedule(fetches, self.fed)
        for node in self.order:
            if node not in self.fed:
                check_source(node)

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays, copied.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        with np.errstate(all="ignore"):
            values: dict[Node, object] = dict(zip(self.feeds, arrays, strict=True))
            self._run(self.order, values, state)
        return tuple(fetched_value(node, values[node]) for node in self.fetches)

    def _run(self, order: Sequence[Node], values: dict[Node, object], state: State) -> None:
        """Put the value of every node of `order` into `values`."""
        for node in order:
            if node in values:
                continue
            if is_dead(node, values):
                values[node] = DEAD
                continue
            inputs = [values[source] for source in sources(node, self.fed)]
            try:
                values[node] = self._value(node, inputs, state)
            except Exception as error:
                raise explain(node, inputs, error) from error

    def _value(self, node: Node, inputs: Sequence[object], state: State) -> object:
        if isinstance(node.op, While):
            return self._loop(node.op, inputs, state)
        return value_of(node, inputs, state)

    def _loop(self, loop: While, inputs: Sequence[object], state: State) -> Outcome:
        """Return the outcome of a loop, with a list for every node that anybody ever asks for."""
        count = len(loop.variables)
        now = list(inputs[:count])
        captured: dict[Node, object] = dict(zip(loop.entrances, inputs[count:], strict=True))
        pasts = [EMPTY for _ in loop.saved]
        test = schedule([loop.test], loop.placeholders)
        body = schedule([*loop.body, *loop.saved], loop.placeholders)
        while True:
            values = {**captured, **dict(zip(loop.variables, now, strict=True))}
            again = dict(values)
            self._run(test, again, state)
            if not require_alive(again[loop.test], loop.test):
                break
            self._run(body, values, state)
            now = [require_alive(values[node], node) for node in loop.body]
            pasts = push_each(pasts, (values[node] for node in loop.saved))
        return outcome(now, enumerate(pasts))


def is_dead(node: Node, values: Mapping[Node, object]) -> bool:
    """Tell whether something that an operator cannot live without is dead."""
    if merges(node):
        return all(values[source] is DEAD for source in node.inputs)
    return node.op is not None and any(values[source] is DEAD for source in required_inputs(node))


def value_of(node: Node, inputs: Sequence[Any], state: State) -> Any:
    """Return the value of a node for those of its `sources`."""
    if isinstance(node, Constant):
        return node.value if state.device == CPU else asarray(node.value, None, state.device)
    if isinstance(node, Variable):
        return node.value_in(state)
    if isinstance(node, Placeholder) or (isinstance(node.op, Read) and inputs):
        return inputs[0]  # its default; or the variable that is read is fed
    if isinstance(node.op, StateOp):
        return node.op.run(state, *inputs)
    return node.op.compute(namespace_of(state), *inputs)


def fetched_value(node: Node, value: object) -> Any:
    """Return what a run gives for a fetched node: an array of the caller's own."""
    return None if isinstance(node.op, NoOp) else copy_result(require_alive(value, node))
