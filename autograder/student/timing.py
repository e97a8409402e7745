"""Timed questions: how many times the reference's time an answer takes, by the judge's clock.

Never seconds: the answer and a reference take turns on one core of this machine, and the median of
the ratios counts, with an interval. Where the interval straddles the threshold it is measured
again; where it still does, the learner has the benefit of the doubt. The reference runs apart from
the learner's code and while that is stopped; otherwise it could slow the reference down.

Interval: order statistics of a median, by the normal approximation to the binomial, 95 %.
"""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import Feedback
from autograder.student.protocol import Student

ROUNDS = 11  # the least whose interval leaves out two rounds at each end
TIMES = 3  # measured at most
Z_95 = 1.96
_PROCESSOR = 36  # field of stat after the name (proc(5) counts it as 39)


@dataclass(frozen=True)
class Ratio:
    """The median of some ratios, and the interval in which the true one lies."""

    median: float
    low: float
    high: float


def not_slower(
    student: Student,
    most: float,
    *,
    answer: Callable[[Student], Any],
    reference: Callable[[Student], Any],
    called: str,
    hint: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Raise `Feedback` if the answer takes more than `most` times what the reference takes.

    Both must take milliseconds: what it costs to ask, some tenths of one, is in both times.

    Args:
        answer: asks the learner's code: `lambda s: s.call("scale", x, 2.0)`.
        reference: asks for the reference, which it brings along: `lambda s: s.probe(fast, x=x)`.
        called: what was timed, in the learner's words.
        clock: the judge's; seconds.
    """
    ratios: list[float] = []
    core = _this_core()
    with student.apart() as other, student.pinned(core), other.pinned(core):
        answer(student), reference(other)  # imports and caches are not what is timed
        for _ in range(TIMES):
            ratios += [_round(student, other, answer, reference, clock, i) for i in range(ROUNDS)]
            bounds = interval(ratios)
            if not bounds.low <= most <= bounds.high:
                break
    if bounds.low > most:
        message = f"{called} takes {bounds.median:.1f} times as long as a reference"
        raise Feedback(f"{message}, expected at most {most:g} times.", hint=hint)
    return bounds


def interval(ratios: Sequence[float]) -> Ratio:
    """Return the median and its 95 % interval; at least three ratios."""
    ordered = sorted(ratios)
    n = len(ordered)
    reach = Z_95 * math.sqrt(n) / 2
    low = max(0, math.floor(n / 2 - reach))
    high = min(n - 1, math.ceil(n / 2 + reach) - 1)
    median = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    return Ratio(median, ordered[low], ordered[high])


def _round(
    student: Student,
    other: Student,
    answer: Callable[[Student], Any],
    reference: Callable[[Student], Any],
    clock: Callable[[], float],
    index: int,
) -> float:
    """Return one ratio; who goes first changes from round to round."""
    times = {}
    for ask in (answer, reference) if index % 2 else (reference, answer):
        with contextlib.nullcontext() if ask is answer else student.stopped():
            began = clock()
            ask(student if ask is answer else other)
            times[ask] = clock() - began
    return times[answer] / times[reference] if times[reference] > 0 else 1.0


def _this_core() -> int:
    """Return the core that the judge runs on, which judges beside it have left free."""
    text = Path("/proc/thread-self/stat").read_text()
    return int(text.rpartition(")")[2].split()[_PROCESSOR])
