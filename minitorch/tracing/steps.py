"""The run of a trace that has effects: stage by stage, the graph of each and then its effects."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minitorch.graph.core.node import Constant, Node
from minitorch.graph.core.placeholders import Placeholder
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.effects import Effects
from minitorch.tracing.program import Plan, Program
from minitorch.tracing.stages import Effect, OldGradient


class Steps:
    """The run of a trace with effects: stage by stage, the graph of each and then its effects.

    Args:
        starts: the nodes of the arguments.
        results: the nodes of what is returned.
    """

    def __init__(
        self,
        effects: Effects,
        starts: Sequence[Node],
        captured: dict[Node, Tensor],
        results: Sequence[Node],
        program: Callable[[Sequence[Node], Sequence[Node]], Program],
    ) -> None:
        self._ends = [stage.end for stage in effects.stages[:-1]]
        self._stage_of, self._program = effects.stage_of, program
        self._captured = captured
        outside: list[Any] = list(captured.values())
        self._read = {id(held.tensor) for held in outside if isinstance(held, OldGradient)}
        self._place = {node: i for i, node in enumerate(starts)}
        written = {id(e.on) for stage in effects.stages for e in stage.effects}
        stages = range(len(effects.stages))
        wanted: list[dict[Node, None]] = [{} for _ in stages]
        for node in results:
            wanted[self._of(node)][node] = None
        for stage in effects.stages:
            for effect in stage.effects:
                if isinstance(effect.value, Node):
                    wanted[self._of(effect.value)][effect.value] = None
        self._stages: list[tuple[Any, ...]] = []
        for k in reversed(stages):
            feeds = self._feeds(wanted[k], k)
            for node in feeds:
                if self._of(node) < k and not self._stays(node, written):
                    wanted[self._of(node)][node] = None
            self._stages.insert(0, self._stage(k, wanted[k], feeds, effects.stages[k].effects))
        self.results = [self._number(node) for node in results]
        self.count = len(self._place)

    def _of(self, node: Node) -> int:
        """Return the stage in which a node is computed, or is read from outside."""
        if isinstance(node, Placeholder):
            return self._stage_of.get(node, 0)
        return bisect_right(self._ends, node.id)

    def _stays(self, node: Node, written: set[int]) -> bool:
        """Tell whether what a placeholder stands for is what it was in an earlier stage."""
        if not isinstance(node, Placeholder):
            return False
        if node not in self._captured:
            return self._place[node] not in written
        tensor = self._captured[node]
        return id(tensor) not in written and not tensor.requires_grad

    def _feeds(self, outputs: dict[Node, None], k: int) -> list[Node]:
        """Return what stage `k` needs that it does not compute."""
        feeds: dict[Node, None] = {}
        seen: set[Node] = set()
        waiting = list(outputs)
        while waiting:
            node = waiting.pop()
            if node in seen or isinstance(node, Constant):
                continue
            seen.add(node)
            if isinstance(node, Placeholder) or self._of(node) < k:
                feeds[node] = None
            else:
                waiting += [*node.inputs, *node.control_inputs]
        return list(feeds)

    def _number(self, node: Node) -> int:
        return self._place.setdefault(node, len(self._place))

    def _stage(
        self, k: int, outputs: dict[Node, None], feeds: list[Node], effects: list[Effect]
    ) -> tuple[Any, ...]:
        """Return what to read, the places of the feeds, the plan, the places it fills, effects."""
        program = self._program(feeds, list(outputs))
        read = [
            (self._number(node), self._captured[node])
            for node in feeds
            if node in self._captured and self._of(node) == k
        ]
        do = [partial(DO[e.kind], e.on, self._value(e)) for e in effects]
        places = [self._number(node) for node in feeds], [self._number(node) for node in outputs]
        replaced = [e.on for e in effects if e.kind == "grad" and id(e.on) not in self._read]
        drop = partial(_drop_gradients, replaced) if replaced else None
        plan: Plan | None = program.plan(program.outputs, feeds, drop) if outputs else None
        return read, places[0], plan, places[1], do

    def _value(self, effect: Effect) -> object:
        return self._number(effect.value) if isinstance(effect.value, Node) else effect.value

    def run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return the results for these arguments, and have the effects."""
        values: list[Any] = [None] * self.count
        values[: len(tensors)] = [tensor.array for tensor in tensors]
        for read, feeds, plan, outputs, effects in self._stages:
            for i, tensor in read:
                values[i] = tensor.array
            if plan is not None:
                for i, array in zip(outputs, plan([values[i] for i in feeds]), strict=True):
                    values[i] = array
            with no_grad():
                for effect in effects:
                    effect(values, tensors)
        return [Tensor._new(values[i]) for i in self.results]


def _write(target: Any, value: Any, values: list[Any], tensors: Sequence[Tensor]) -> None:
    on = tensors[target] if isinstance(target, int) else target
    on.copy_(Tensor._new(values[value]))


def _give(tensor: Tensor, value: Any, values: list[Any], tensors: Sequence[Tensor]) -> None:
    tensor._grad = Tensor._new(values[value]) if type(value) is int else value


def _add(target: int, value: Any, values: list[Any], tensors: Sequence[Tensor]) -> None:
    tensors[target].accumulate(Tensor._new(values[value]), False)


def _call(function: Any, value: Any, values: list[Any], tensors: Sequence[Tensor]) -> None:
    function()


def _drop_gradients(tensors: Sequence[Tensor]) -> None:
    """Free the memory of gradients that a stage replaces."""
    for tensor in tensors:
        tensor._grad = None


DO: dict[str, Callable[..., None]] = {"write": _write, "grad": _give, "add": _add, "call": _call}
