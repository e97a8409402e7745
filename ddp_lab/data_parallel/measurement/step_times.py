"""The moments of one training step, and the stretches of time between them: pure data.

May import: the standard library.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NS_PER_MS = 1e6


@dataclass(frozen=True)
class Span:
    """A named stretch of time on one lane; nanoseconds of `perf_counter_ns`."""

    name: str
    lane: str  # "compute" or "communication"
    start_ns: int
    end_ns: int

    @property
    def ms(self) -> float:
        """Its length in milliseconds."""
        return (self.end_ns - self.start_ns) / NS_PER_MS


@dataclass(frozen=True)
class StepTimes:
    """One iteration: four moments of the training thread, and when messages were under way."""

    start_ns: int
    forward_end_ns: int
    backward_end_ns: int  # gradients averaged
    end_ns: int
    communication: tuple[Span, ...]
    blocked: tuple[Span, ...]  # when the training thread did nothing but wait

    def parts_ms(self) -> dict[str, float]:
        """Return the milliseconds of each part; hidden communication runs beside compute."""
        waiting, talking = union(self.blocked), union(self.communication)
        exposed = length(waiting)
        backward = self.backward_end_ns - self.forward_end_ns
        return {
            "forward": (self.forward_end_ns - self.start_ns) / NS_PER_MS,
            "backward compute": (backward - exposed) / NS_PER_MS,
            "exposed communication": exposed / NS_PER_MS,
            "hidden communication": (length(talking) - length(intersection(talking, waiting)))
            / NS_PER_MS,
            "optimizer": (self.end_ns - self.backward_end_ns) / NS_PER_MS,
            "step": (self.end_ns - self.start_ns) / NS_PER_MS,
        }

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


def length(stretches: Sequence[tuple[int, int]]) -> int:
    """Return the nanoseconds of all stretches together."""
    return sum(end - start for start, end in stretches)


def intersection(
    a: Sequence[tuple[int, int]], b: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the stretches that lie in both `a` and `b`, each of which is disjoint."""
    pairs = [(max(s1, s2), min(e1, e2)) for s1, e1 in a for s2, e2 in b]
    return [(start, end) for start, end in pairs if start < end]
