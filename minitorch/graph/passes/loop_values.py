"""What a loop need not carry round: values that never change, constants, and what nobody asks for.

A variable that every round hands on as it is counts inside as something captured; what is captured
and constant is a constant inside, where other passes fold it. A variable that decides nothing, is
not asked for and has no effect is dropped, with all that was computed for it alone.
"""

import functools
from collections.abc import Collection, Sequence

from ..control.liveness import Deadness, deadness_of, die_first
from ..control.loop_stacks import Slot, placeholder_like
from ..control.while_op import While
from ..core.copying import copy_nodes
from ..core.graph import like, outside
from ..core.node import Constant, Node
from ..core.order import list_needed, schedule, select_ordered
from .loops import Remade, number_kept_lists, with_loops


def loop_values(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with loops that carry and compute no more than is of use."""
    deaths = functools.cache(lambda: deadness_of(schedule(fetches, fed), fed))  # most have no loop

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        return _Slimmer(node, inputs, asked, fed).remake(deaths())

    return with_loops(fetches, fed, remade)


class _Slimmer:
    """One loop, and what can be left out of it."""

    def __init__(
        self, node: Node, inputs: tuple[Node, ...], asked: Collection[Slot], fed: Collection[Node]
    ) -> None:
        self.node, self.inputs, self.asked, self.fed = node, inputs, asked, fed
        self.loop: While = node.op

    def remake(self, deaths: dict[Node, Deadness]) -> Remade | None:
        """Return the loop without what it need not carry; None if that is nothing."""
        loop, count = self.loop, len(self.loop.variables)
        places, saved = number_kept_lists(loop, self.asked)
        carried = self._find_needed(saved)
        new = self._constants()
        with like(self.node), outside():
            fixed = {
                i: placeholder_like(loop.variables[i], "captured") for i in self._find_fixed(new)
            }
        new.update((loop.variables[i], entrance) for i, entrance in fixed.items())
        before = [loop.test, *(loop.body[i] for i in carried), *saved]
        test, *after = copy_nodes(before, {**{p: p for p in self.loop.placeholders}, **new})
        captured = {e: count + j for j, e in enumerate(loop.entrances)}
        captured.update((entrance, i) for i, entrance in fixed.items())
        used = set(list_needed([test, *after], {*self.loop.placeholders, *captured}))
        captured = {entrance: i for entrance, i in captured.items() if entrance in used}
        counts = len(carried), len(captured)
        same = all(a is b for a, b in zip((test, *after), before, strict=True))
        if same and counts == (count, len(loop.entrances)) and len(saved) == len(loop.saved):
            return None
        body, ends = after[: len(carried)], after[len(carried) :]
        variables = [loop.variables[i] for i in carried]
        slim = While(test, body, variables, [*captured], ends, loop.parallel_iterations)
        slots: dict[Slot, Slot] = {("out", i): ("out", at) for at, i in enumerate(carried)}
        return self._with_inputs(slim, [*carried, *captured.values()], {**slots, **places}, deaths)

    def _with_inputs(
        self, slim: While, taken: list[int], slots: dict[Slot, Slot], deaths: dict[Node, Deadness]
    ) -> Remade:
        """Return the loop over these of the inputs; it still dies of the others."""
        old = self.node.inputs
        left = [old[i] for i in taken] + list(self.node.control_inputs)
        waits = [
            self.inputs[i]
            for i, source in enumerate(old)
            if i not in taken and not die_first(left, source, deaths)
        ]
        return Remade(slim, tuple(self.inputs[i] for i in taken), slots, tuple(waits))

    def _find_needed(self, saved: Sequence[Node]) -> list[int]:
        """Return the variables that matter, by number; one at least."""
        loop = self.loop
        place = {v: i for i, v in enumerate(loop.variables)}
        matter = {i for kind, i in self.asked if kind == "out"}
        if loop.ordered:  # the variables whose next values have effects on their way
            for i, end in enumerate(loop.body):
                if select_ordered(list_needed([end], loop.placeholders)):
                    matter.add(i)
        met: set[Node] = set()
        waiting = [loop.test, *saved, *(loop.body[i] for i in matter)]
        while waiting:
            node = waiting.pop()
            if node in met:
                continue
            met.add(node)
            if node in place:
                matter.add(place[node])
                waiting.append(loop.body[place[node]])
            elif node not in self.loop.placeholders:
                waiting += [*node.inputs, *node.control_inputs]
        return sorted(matter) or [0]

    def _constants(self) -> dict[Node, Node]:
        """Return what is captured and constant, with the constant that stands for it inside."""
        pairs = zip(self.loop.entrances, self.inputs[len(self.loop.variables) :], strict=True)
        return {e: s for e, s in pairs if self._constant(s)}

    def _constant(self, node: Node) -> bool:
        return isinstance(node, Constant) and node not in self.fed and not node.control_inputs

    def _find_fixed(self, new: dict[Node, Node]) -> list[int]:
        """Return the variables that stay as they are; those that are constant go into `new`."""
        pairs = list(enumerate(zip(self.loop.variables, self.loop.body, strict=True)))
        moving = [end for _, (variable, end) in pairs if end is not variable]
        used = set(list_needed([self.loop.test, *moving, *self.loop.saved], self.loop.placeholders))
        fixed = []
        for i, (variable, end) in pairs:
            if end is not variable or variable not in used:
                continue
            if self._constant(self.inputs[i]):
                new[variable] = self.inputs[i]
            else:
                fixed.append(i)
        return fixed
