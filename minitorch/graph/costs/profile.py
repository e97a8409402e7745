"""`profile`: a run of a session in which every node is timed.

The step is the compiled one, with one more call after each line. What that call costs (a tenth of a
microsecond) is in the spans, so the smallest ones are mostly it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...arrays import Array, Device
from ...errors import GraphError
from ..core.feeds import read_feeds
from ..core.fetches import flatten_fetches
from ..core.node import Constant, Node
from ..core.order import last_uses
from ..core.session import Session
from ..core.variables import State, StateOp
from ..executors.compiled import Step
from ..operators.by_shape import ByShape, needs_shapes
from ..passes.fed_constants import fed_constants
from ..passes.optimize import optimize
from .timeline import Span, Timeline, median_of


class TimedStep(Step):
    """A step that notes the time after each of its lines."""

    def __init__(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        device: Device,
        clock: Callable[[], int],
    ) -> None:
        self.clock = clock
        self.seen: list[tuple[int, int, Any]] = []
        super().__init__(fetches, feeds, device)
        self.free = last_uses(self.order, set(feeds), set(fetches))
        self.fed = set(feeds)

    def _guarded(self, node: Node, line: str, slot: dict[Node, str], names: dict[str, Any]) -> str:
        line = super()._guarded(node, line, slot, names)
        if line == "pass":
            return line
        names["noted"] = self._noted
        return f"{line}; noted({self.place[node]}, {slot[node]})"

    def _noted(self, place: int, value: Any) -> None:
        shape = tuple(value.shape) if hasattr(value, "shape") else None
        size = int(getattr(value, "nbytes", 0)) if shape is not None else 0
        self.seen.append((self.clock(), place, (shape or (), size)))

    def timed(self, state: State, arrays: Sequence[Array]) -> tuple[tuple[Array, ...], Timeline]:
        """Return the fetched arrays, and when each node was at work."""
        self.seen = []
        begin = self.clock()
        found = self(state, arrays)
        spans, now, live, held = [], 0, 0, {}
        for end_ns, place, (shape, size) in self.seen:
            node = self.order[place]
            held[node] = size if _owns(node, self.fed) else 0
            live += held[node]
            spans.append(_span(node, now, end_ns - begin, shape, size, live))
            live -= sum(held.pop(gone, 0) for gone in self.free[place])
            now = end_ns - begin
        return found, Timeline(tuple(spans))


def _owns(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether a node's result is memory of the run, rather than somebody else's."""
    sourced = node in fed or node.op is None or isinstance(node, Constant)
    return not sourced and not isinstance(node.op, StateOp)


def _span(
    node: Node, start: int, end: int, shape: tuple[int, ...], n_bytes: int, live: int
) -> Span:
    op = node.op.name if node.op is not None else ""
    return Span(node.name, op, start, end, n_bytes, shape, live, node.location)


def profile(
    session: Session,
    fetches: Any,
    feed_dict: Mapping[Any, Any] | None = None,
    *,
    runs: int = 1,
    clock: Callable[[], int] = perf_counter_ns,
) -> tuple[Any, Timeline]:
    """Return what `session.run(fetches, feed_dict)` returns, and the timeline of that run.

    The nodes are those that the session runs: after its passes, if it optimizes.

    Args:
        runs: run so many times and keep the timeline of the median run; variables change as often.
        clock: nanoseconds.
    Raises:
        GraphError: what `run` raises; or fewer than 1 run.
    """
    if runs < 1:
        raise GraphError(f"profile: got {runs} runs, expected 1 or more.")
    if session.closed:
        raise GraphError("profile: the session is closed. Open a new one.")
    leaves: list[Node] = []
    rebuild = flatten_fetches(fetches, session.graph, leaves)
    feeds, arrays = read_feeds(feed_dict or {}, session.graph, session.device)
    step = _plan(session, leaves, feeds, arrays, clock)
    done = [step.timed(session.state, arrays) for _ in range(runs)]
    return rebuild(iter(done[-1][0]).__next__), median_of([timeline for _, timeline in done])


def _plan(
    session: Session,
    leaves: list[Node],
    feeds: tuple[Node, ...],
    arrays: Sequence[Array],
    clock: Callable[[], int],
) -> TimedStep:
    def plan(fetches: list[Node], fed: tuple[Node, ...]) -> TimedStep:
        if session.optimize:
            fetches = optimize(fetches, fed)
        return TimedStep(fetches, fed, session.device, clock)

    leaves = fed_constants(leaves, feeds)
    if not needs_shapes(leaves, feeds):
        return plan(leaves, feeds)
    made = ByShape(leaves, feeds, plan)._build([tuple(np.shape(array)) for array in arrays])
    assert isinstance(made, TimedStep)
    return made
