"""The interpreter: node by node in order, every value kept; what the other executors must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import CPU, Array, Device, asarray, namespace_on
from ..control.dead_values import DEAD, alive, deadly, merges
from ..control.loop_stacks import EMPTY, Outcome, Past
from ..control.while_op import While
from ..core.node import Constant, Node, Placeholder
from ..core.order import schedule
from ..core.variables import NoOp, Read, State, StateOp, Variable
from .compiled import check_source, copied
from .node_errors import explain


class InterpretedStep:
    """The run of `fetches` from `feeds`, node by node; called as a `Step` is."""

    def __init__(
        self, fetches: Sequence[Node], feeds: Sequence[Node], device: Device = CPU
    ) -> None:
        self.fetches, self.feeds, self.device = tuple(fetches), tuple(feeds), device
        self.xp = namespace_on(device)
        self.fed = frozenset(feeds)
        self.order = schedule(fetches, self.fed)
        for node in self.order:
            if node not in self.fed:
                check_source(node)

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return the fetched arrays, copied.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        with np.errstate(all="ignore"):
            values = dict(zip(self.feeds, arrays, strict=True))
            self._run(self.order, values, state)
        return tuple(
            None if isinstance(node.op, NoOp) else copied(alive(values[node], node))
            for node in self.fetches
        )

    def _run(self, order: Sequence[Node], values: dict[Node, Any], state: State) -> None:
        """Put the value of every node of `order` into `values`."""
        for node in order:
            if node in values:
                continue
            if node.op is not None and any(values.get(n) is DEAD for n in deadly(node)):
                values[node] = DEAD
                continue
            inputs = [values.get(source) for source in node.inputs]
            dead_merge = merges(node) and all(value is DEAD for value in inputs)
            try:
                values[node] = DEAD if dead_merge else self._value(node, inputs, values, state)
            except Exception as error:
                raise explain(node, inputs, error) from error

    def _value(self, node: Node, inputs: list[Any], values: dict[Node, Any], state: State) -> Any:
        op = node.op
        if isinstance(node, Constant):
            return node.value if self.device == CPU else asarray(node.value, None, self.device)
        if isinstance(node, Placeholder):
            return inputs[0]
        if isinstance(node, Variable) or isinstance(op, Read):
            variable = node if isinstance(node, Variable) else op.variable
            return values[variable] if variable in self.fed else variable.value_in(state)
        if isinstance(op, While):
            return self._loop(op, inputs, state)
        if isinstance(op, StateOp):
            return op.run(state, *inputs)
        return op.compute(self.xp, *inputs)

    def _loop(self, loop: While, inputs: Sequence[object], state: State) -> Outcome:
        """Return the outcome of a loop, with a list for every node that anybody ever asks for."""
        count = len(loop.variables)
        now = list(inputs[:count])
        captured: dict[Node, Any] = dict(zip(loop.entrances, inputs[count:], strict=True))
        pasts = [EMPTY for _ in loop.saved]
        inside = {*loop.variables, *loop.entrances}
        test = schedule([loop.test], inside)
        body = schedule([*loop.body, *loop.saved], inside)
        while True:
            values = {**captured, **dict(zip(loop.variables, now, strict=True))}
            again = dict(values)
            self._run(test, again, state)
            if not alive(again[loop.test], loop.test):
                break
            self._run(body, values, state)
            now = [alive(values[node], node) for node in loop.body]
            kept = [None if values[n] is DEAD else values[n] for n in loop.saved]
            pasts = [Past(item, past) for item, past in zip(kept, pasts, strict=True)]
        return Outcome(
            {
                **{("out", i): value for i, value in enumerate(now)},
                **{("past", k): past for k, past in enumerate(pasts)},
            }
        )
