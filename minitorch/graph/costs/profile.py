"""`profile`: a run of a session in which every node is timed, and its timeline.

The step is the compiled one, with one more call after each line. What that call costs (a tenth of a
microsecond) is in the spans, so the smallest ones are mostly it. The timeline is a span for each
node, as a table or as a trace that opens in Perfetto (ui.perfetto.dev) and chrome://tracing.

Source of the trace's format: Trace Event Format, Google 2016.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...arrays.library import Array, Device
from ...errors import GraphError
from ..core.fetches import Feeds, flatten_fetches, read_feeds
from ..core.node import Node
from ..core.order import last_uses
from ..core.session import Session
from ..core.variables import State, StateOp
from ..executors.compiled import Step
from ..passes.fold import fed_constants
from ..passes.optimize import optimize
from ..shapes.by_shape import ByShape, needs_shapes


@dataclass(frozen=True)
class Span:
    """One node at work.

    Attributes:
        name, op: the node, and its operator ("" where there is none).
        start_ns, end_ns: since the run began.
        n_bytes, shape: of the result; 0 and () when it is no array.
        live_bytes: all results that are still needed, once this node is done.
        where: `file:line` that built it.
    """

    name: str
    op: str
    start_ns: int
    end_ns: int
    n_bytes: int = 0
    shape: tuple[int, ...] = ()
    live_bytes: int = 0
    where: str = ""

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class Timeline:
    """The spans of one run, in the order in which they began."""

    spans: tuple[Span, ...]

    @property
    def total_ns(self) -> int:
        """From the beginning of the run to the end of its last span."""
        return max((span.end_ns for span in self.spans), default=0)

    @property
    def peak_bytes(self) -> int:
        """The most that results needed at one time."""
        return max((span.live_bytes for span in self.spans), default=0)

    def by_op(self) -> list[tuple[str, int, int]]:
        """Return (operator, how many, nanoseconds), the costliest first."""
        sums: dict[str, tuple[int, int]] = {}
        for span in self.spans:
            count, spent = sums.get(span.op or span.name, (0, 0))
            sums[span.op or span.name] = (count + 1, spent + span.duration_ns)
        rows = [(op, count, spent) for op, (count, spent) in sums.items()]
        return sorted(rows, key=lambda row: (-row[2], row[0]))

    def table(self, limit: int = 20) -> str:
        """Return the costliest operators as lines of text: share of the run, time and number."""
        total = sum(span.duration_ns for span in self.spans) or 1
        rows = self.by_op()
        lines = [f"{'operator':<24}{'nodes':>6}{'µs':>12}{'share':>8}"]
        for op, count, spent in rows[:limit]:
            lines.append(f"{op:<24}{count:>6}{spent / 1e3:>12.1f}{spent / total:>8.1%}")
        if len(rows) > limit:
            rest = sum(spent for _, _, spent in rows[limit:])
            count = sum(count for _, count, _ in rows[limit:])
            lines.append(f"{'the rest':<24}{count:>6}{rest / 1e3:>12.1f}{rest / total:>8.1%}")
        return "\n".join(lines)

    def chrome_trace(self) -> dict[str, object]:
        """Return the run in Chrome's trace format: times in microseconds, live bytes as a curve."""
        label = {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "graph"}}
        return {"traceEvents": [label, *self._events()], "displayTimeUnit": "ns"}

    def save(self, path: str | Path) -> Path:
        """Write the Chrome trace to a JSON file; drop that on ui.perfetto.dev."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome_trace()), encoding="utf-8")
        return path

    def _events(self) -> Iterator[dict[str, object]]:
        for span in self.spans:
            yield {
                "name": span.name,
                "cat": span.op or "source",
                "ph": "X",
                "ts": span.start_ns / 1e3,
                "dur": span.duration_ns / 1e3,
                "pid": 0,
                "tid": 0,
                "args": {"shape": list(span.shape), "bytes": span.n_bytes, "where": span.where},
            }
            yield {
                "name": "live bytes",
                "ph": "C",
                "ts": span.end_ns / 1e3,
                "pid": 0,
                "args": {"bytes": span.live_bytes},
            }

    def __repr__(self) -> str:
        return self.table()


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
        self.seen: list[tuple[int, int, tuple[tuple[int, ...], int]]] = []
        super().__init__(fetches, feeds, device)
        self.free = last_uses(self.order, set(feeds), set(fetches))
        self.fed = set(feeds)

    def _guarded(self, node: Node, line: str) -> str:
        line = super()._guarded(node, line)
        if line == "pass":
            return line
        self.names["noted"] = self._noted
        return f"{line}; noted({self.place[node]}, {self.slot[node]})"

    def _noted(self, place: int, value: object) -> None:
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
            # the result is memory of the run, rather than somebody else's
            sourced = node in self.fed or node.op is None or isinstance(node.op, StateOp)
            held[node] = 0 if sourced else size
            live += held[node]
            op = node.op.name if node.op is not None else ""
            end = end_ns - begin
            spans.append(Span(node.name, op, now, end, size, shape, live, node.location))
            live -= sum(held.pop(gone, 0) for gone in self.free[place])
            now = end
        return found, Timeline(tuple(spans))


def profile(
    session: Session,
    fetches: object,
    feed_dict: Feeds | None = None,
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
    timelines = sorted((timeline for _, timeline in done), key=lambda timeline: timeline.total_ns)
    return rebuild(iter(done[-1][0])), timelines[(runs - 1) // 2]


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
