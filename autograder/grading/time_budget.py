"""Who may run for how long: the wall time of one submission dealt out to its checks.

Each question may use its share of what is left. A question that is slow waits with its other
checks until the other questions have had their turn, so that an answer that hangs costs itself.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autograder.checks import Check
from autograder.records import Question

SLOW = 0.5  # of what it was allowed


@dataclass(frozen=True, eq=False)
class Task:
    """A check with its share of the question's points."""

    check: Check
    question: Question
    max_score: float


def deal_time(
    tasks: Sequence[Task], ends: float, call_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Task, float]]:
    """Yield each task once, with the seconds that it may use; none or fewer when time is up.

    The time between two tasks is taken to be the first one's. `call_s` is the most for a check
    that names no limit of its own. Hidden checks come last: the messages of others, in which
    learners read what they like, are there before anything of a hidden one has been asked.
    """
    slow: set[str] = set()
    hidden = [task for task in tasks if task.check.hidden]
    for turn in ([task for task in tasks if not task.check.hidden], hidden):
        after = hidden if turn is not hidden else []
        later: list[Task] = []
        for index, task in enumerate(turn):
            name = task.question.name
            if name in slow:
                later.append(task)
                continue
            began = clock()
            waiting = {other.question.name for other in [*turn[index:], *after]} - slow
            allowed = _share(task, ends - began, len(waiting), call_s)
            yield task, allowed
            if clock() - began > SLOW * allowed:
                slow.add(name)
        for index, task in enumerate(later):
            yield task, _share(task, ends - clock(), len(later) - index + len(after), call_s)


def _share(task: Task, left_s: float, waiting: int, call_s: float) -> float:
    return min(task.check.timeout_s or call_s, left_s / waiting)
