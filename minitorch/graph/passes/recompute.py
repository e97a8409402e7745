"""Recomputation, also called checkpointing: memory for time, under a budget of bytes.

What the forward pass computes waits for the backward pass. Of those values only every k-th is kept;
the others are computed again, from the nearest kept ones, just before they are needed. The pass
tries each k, asks the memory plan for the peak, and takes the one with the least to compute again
that fits.

Source: Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

from ...errors import GraphError
from ..control.liveness import maybe_dead
from ..core.node import Node
from ..memory.lives import Lives
from ..memory.plan import MemoryPlan, memory_plan
from .rewrite import may_change, over, simple

DENSE = 16  # up to here every k is tried
WAIT = 4  # steps between two uses from which on a value counts as waiting


def recompute(
    fetches: Sequence[Node], fed: Collection[Node] = (), budget_bytes: int | None = None
) -> list[Node]:
    """Return the fetches with some values computed twice, so that the plan's peak is lower.

    Args:
        budget_bytes: the peak that is allowed; the lowest that can be had unless given.
    Raises:
        GraphError: no choice fits the budget; says what the lowest peak is. Or a size is unknown.
    """
    fed = set(fed)
    plan = memory_plan(list(fetches), fed)
    if budget_bytes is not None and plan.peak_bytes <= budget_bytes:
        return list(fetches)
    late = _late_uses(fetches, fed, plan)
    best, peak = list(fetches), plan.peak_bytes
    for dropped in _choices(list(dict.fromkeys(plan.home[node] for node in late))):
        after = Sweep(fetches, fed, plan, late, dropped).fetches()
        lower = memory_plan(after, fed).peak_bytes
        if lower < peak:
            best, peak = after, lower
        if budget_bytes is not None and peak <= budget_bytes:
            return best
    if budget_bytes is not None:
        raise GraphError(
            f"recompute: no choice fits: got a budget of {budget_bytes} bytes, expected {peak} or "
            "more. Take a smaller batch."
        )
    return best


def _choices(waiting: Sequence[Node]) -> list[set[Node]]:
    """Return the sets of values to compute again, the smallest set first."""
    choices: list[set[Node]] = []
    k = 2
    while k <= len(waiting) + 1:
        choices.append({node for i, node in enumerate(waiting) if (i + 1) % k == 0})
        choices.append({node for i, node in enumerate(waiting) if (i + 1) % k})
        k += max(1, k // DENSE)  # ever fewer, so that large graphs take no longer
    return sorted([c for c in choices if c], key=len)


def _late_uses(fetches: Sequence[Node], fed: Collection[Node], plan: MemoryPlan) -> dict[Node, int]:
    """Return the values that wait, each with the step at which its wait ends."""
    uses: dict[Node, list[int]] = {}
    for i, node in enumerate(plan.order):
        uses.setdefault(node, []).append(i)
        for source in () if node in fed else node.inputs:
            uses.setdefault(source, []).append(i)
    wait_ends, fetched = {}, set(fetches)
    for node in plan.order:
        if node in fed or not simple(node) or node in fetched:
            continue
        steps = uses[node]
        gaps = [(b - a, b) for a, b in pairwise(steps)]
        wait, end = max(gaps, default=(0, 0))
        if wait >= WAIT:
            wait_ends[node] = end
    return wait_ends


class Sweep:
    """The graph built once more, with values computed again where a wait ends.

    Args:
        plan: the order of the run, and in whose memory each value is.
        late: for each value that waits the step that ends its wait.
        dropped: the memory that is not to wait.
    """

    def __init__(
        self,
        fetches: Sequence[Node],
        fed: Collection[Node],
        plan: MemoryPlan | Lives,
        late: dict[Node, int],
        dropped: Collection[Node],
    ) -> None:
        self.ends, self.fed, self.plan, self.late, self.dropped = fetches, fed, plan, late, dropped
        self.kept = set(fetches)
        self.risky = maybe_dead(plan.order, fed)
        self.new: dict[Node, Node] = {}
        self.again: dict[Node, Node] = {}
        self.place = {node: i for i, node in enumerate(plan.order)}

    def fetches(self) -> list[Node]:
        """Return what stands for the fetches."""
        for step, node in enumerate(self.plan.order):
            if node in self.fed or not may_change(node):
                self.new[node] = node
                continue
            inputs = tuple(self._input(source, node, step) for source in node.inputs)
            control = tuple(self.new.get(source, source) for source in node.control_inputs)
            self.new[node] = over(node, inputs, control)
        return [self.new[node] for node in self.ends]

    def _drops(self, node: Node) -> bool:
        return node in self.late and self.plan.home[node] in self.dropped

    def _input(self, source: Node, user: Node, step: int) -> Node:
        if self._drops(source) and step >= self.late[source]:
            return self._computed(source, self._before(user, step), user.id)
        return self.new.get(source, source)

    def _before(self, user: Node, step: int) -> tuple[Node, ...]:
        """Return what to wait for, so that nothing is computed again before it is needed."""
        others = [s for s in user.inputs if not self._drops(s) and s.op is not None]
        latest = max(others, key=self.place.__getitem__, default=self.plan.order[step - 1])
        return () if latest in self.risky or latest.op is None else (self.new[latest],)

    def _computed(self, node: Node, wait: tuple[Node, ...], turn: int) -> Node:
        """Return `node` computed again, at that turn, from values that are still there."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [s for s in at.inputs if not self._is_there(s) and s not in self.again]
            if missing and at not in self.again:
                waiting += missing
                continue
            waiting.pop()
            if at not in self.again:
                inputs = (
                    self.new.get(s, s) if self._is_there(s) else self.again[s] for s in at.inputs
                )
                self.again[at] = at.with_inputs(tuple(inputs), wait)
                self.again[at].id = turn
        return self.again[node]

    def _is_there(self, node: Node) -> bool:
        """Tell whether a value lives long enough anyway, or cannot be computed twice."""
        if node in self.fed or node.op is None or not simple(node) or node in self.kept:
            return True
        return node in self.late and self.plan.home[node] not in self.dropped
