"""What a run did when: a span for each node, as a table, a picture's data, or a Chrome trace.

The trace opens in Perfetto (ui.perfetto.dev) and in chrome://tracing. Source of the format: Trace
Event Format, Google 2016.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        lines = [f"{'operator':<24}{'nodes':>6}{'us':>12}{'share':>8}"]
        for op, count, spent in rows[:limit]:
            lines.append(f"{op:<24}{count:>6}{spent / 1e3:>12.1f}{spent / total:>8.1%}")
        if len(rows) > limit:
            rest = sum(spent for _, _, spent in rows[limit:])
            count = sum(count for _, count, _ in rows[limit:])
            lines.append(f"{'the rest':<24}{count:>6}{rest / 1e3:>12.1f}{rest / total:>8.1%}")
        return "\n".join(lines)

    def chrome_trace(self) -> dict[str, Any]:
        """Return the run in Chrome's trace format: times in microseconds, live bytes as a curve."""
        return {"traceEvents": [*self._labels(), *self._events()], "displayTimeUnit": "ns"}

    def save(self, path: str | Path) -> Path:
        """Write the Chrome trace to a JSON file; drop that on ui.perfetto.dev."""
        path = Path(path)
        path.write_text(json.dumps(self.chrome_trace()), encoding="utf-8")
        return path

    def _labels(self) -> Iterator[dict[str, Any]]:
        yield _label("process_name", 0, "graph")

    def _events(self) -> Iterator[dict[str, Any]]:
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


def _label(name: str, thread: int, text: str) -> dict[str, Any]:
    return {"name": name, "ph": "M", "pid": 0, "tid": thread, "args": {"name": text}}


def median_of(runs: Sequence[Timeline]) -> Timeline:
    """Return the run whose total time is the median: a run that happened, not a mixture."""
    return sorted(runs, key=lambda timeline: timeline.total_ns)[(len(runs) - 1) // 2]
