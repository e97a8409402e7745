"""Cheap values computed again: memory for next to no time.

What the forward pass computes waits for the backward pass. A large value that waits across the peak
goes if one sweep over values which are there anyway gives it again: gelu of what its gradient reads
too, a layer norm of the sum that goes on beside it. A product is never computed twice.

Source: what is worth computing again, He and Yu, Transcending Runtime-Memory Tradeoffs in
Checkpointing by being Fusion Aware, MLSys 2023. They cut a graph at least cost; here the lifetimes
of values decide.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Sequence

from ...errors import GraphError
from ...ops.elementwise.casting import Cast
from ...ops.elementwise.rows import Elementwise
from ...ops.networks.standardizing import LayerNorm, Standardize
from ..control.liveness import maybe_dead
from ..core.node import Node, UnknownShape
from ..core.order import list_needed
from ..memory.lives import Lives, lives_of
from .fused import Fused
from .rewrite import may_change, over, simple

CHEAP = (Cast, Elementwise, Fused, LayerNorm, Standardize)
LARGE = 2**17  # bytes of a value from which on its memory counts
WAIT = 4  # steps between two uses from which on a value counts as waiting
WORTH = 8  # byte-steps saved for one by which an input must live longer


def rematerialize(
    fetches: Sequence[Node], fed: Collection[Node] = (), beyond_bytes: int = LARGE
) -> list[Node]:
    """Return the fetches with cheap values computed again that would wait across the peak.

    They have more than so many bytes, and sizes that are known. The peak is never higher.
    """
    fed = set(fed)
    if not any(
        _is_cheap(node, beyond_bytes) for node in list_needed(fetches, fed) if node not in fed
    ):
        return list(fetches)
    try:
        lives = lives_of(fetches, fed)
    except GraphError:  # a size is not known
        return list(fetches)
    ends = _ends_of_waits(lives, fed, beyond_bytes)
    if not ends:
        return list(fetches)
    late = {
        node: ends[lives.home[node]]
        for i, node in enumerate(lives.order)
        if i < ends.get(lives.home[node], 0)
    }
    after = _Sweep(fetches, fed, lives, late, ends).fetches()
    return after if lives_of(after, fed).peak[0] < lives.peak[0] else list(fetches)


def _is_cheap(node: Node, beyond_bytes: int) -> bool:
    """Tell whether a node is a large value that one sweep over its inputs gives."""
    shape = node.shape
    if not isinstance(node.op, CHEAP) or getattr(node.op, "reduction", None) is not None:
        return False
    if isinstance(shape, UnknownShape) or None in shape:
        return False
    return math.prod(shape) * node.dtype.itemsize > beyond_bytes and simple(node)


def _ends_of_waits(lives: Lives, fed: Collection[Node], beyond_bytes: int) -> dict[Node, int]:
    """Return the memory that may be free at the peak, with the step from which it is needed."""
    risky = maybe_dead(lives.order, fed)
    ends: dict[Node, int] = {}
    stays: set[Node] = set()
    for home in sorted(lives.uses, key=lives.bytes_of.__getitem__, reverse=True):
        uses = lives.uses[home]
        at = bisect_right(uses, lives.peak[1])
        if not 0 < at < len(uses) or uses[-1] == len(lives.order) or home in stays | risky:
            continue
        begin, end = uses[at - 1], uses[at]
        sources = {lives.home.get(source, source) for source in home.inputs}
        if (
            end - begin < WAIT
            or not _is_cheap(home, beyond_bytes)
            or not ends.keys().isdisjoint(sources)
        ):
            continue
        longer = {s: end - lives.uses[s][-1] for s in sources if s in lives.uses}
        lost = sum(lives.bytes_of[s] * max(0, steps) for s, steps in longer.items())
        if lost * WORTH <= lives.bytes_of[home] * (end - begin):
            ends[home] = end
            stays |= sources
    return ends


class _Sweep:
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
        plan: Lives,
        late: dict[Node, int],
        dropped: Collection[Node],
    ) -> None:
        self.ends, self.fed, self.plan, self.late, self.dropped = fetches, fed, plan, late, dropped
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
            return self._recompute(source, self._before(user, step), user.id)
        return self.new.get(source, source)

    def _before(self, user: Node, step: int) -> tuple[Node, ...]:
        """Return what to wait for, so that nothing is computed again before it is needed."""
        others = [s for s in user.inputs if not self._drops(s) and s.op is not None]
        latest = max(others, key=self.place.__getitem__, default=self.plan.order[step - 1])
        return () if latest in self.risky or latest.op is None else (self.new[latest],)

    def _recompute(self, node: Node, wait: tuple[Node, ...], turn: int) -> Node:
        """Return `node` computed again, at that turn, from values that are still there."""
        waiting = [node]
        while waiting:
            at = waiting[-1]
            missing = [s for s in at.inputs if not self._is_alive(s) and s not in self.again]
            if missing and at not in self.again:
                waiting += missing
                continue
            waiting.pop()
            if at not in self.again:
                inputs = (
                    self.new.get(s, s) if self._is_alive(s) else self.again[s] for s in at.inputs
                )
                self.again[at] = at.with_inputs(tuple(inputs), wait)
                self.again[at].id = turn
        return self.again[node]

    def _is_alive(self, node: Node) -> bool:
        return self.plan.home.get(node, node) not in self.dropped
