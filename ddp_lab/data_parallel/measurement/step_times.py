"""The moments of one training step, and the stretches of time between them: pure data.

May import: the standard library.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A named stretch of time on one lane; nanoseconds of `perf_counter_ns`."""

    name: str
    lane: str  # "compute" or "communication"
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class StepTimes:
    """One iteration: four moments of the training thread, and when messages were under way."""

    start_ns: int
    forward_end_ns: int
    backward_end_ns: int  # gradients averaged
    end_ns: int
    communication: tuple[Span, ...]
    blocked: tuple[Span, ...]  # when the training thread did nothing but wait

    def spans(self) -> list[Span]:
        """Return everything there is to draw."""
        return [
            Span("forward", "compute", self.start_ns, self.forward_end_ns),
            Span("backward", "compute", self.forward_end_ns, self.backward_end_ns),
            Span("optimizer", "compute", self.backward_end_ns, self.end_ns),
            *self.blocked,
            *self.communication,
        ]


def union(spans: Sequence[Span]) -> list[tuple[int, int]]:
    """Return the stretches covered by at least one span, disjoint and in order."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((s.start_ns, s.end_ns) for s in spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
