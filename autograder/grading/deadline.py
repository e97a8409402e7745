"""A bound on what the judge's own Python may take: a check that never ends must not stop grading.

By the interval timer, which the main thread alone can have; elsewhere nothing is bounded here, and
whoever waits for the process (the pool) ends it.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

AGAIN_S = 1.0  # for code that swallows the first one, or is not to be interrupted yet
SOON_S = 0.01  # where the body has not begun, or is at its end
_BOUNDED_ELSEWHERE = (
    "autograder.sandbox",
    "autograder.student.local",
)  # waits for the learner's code


@contextlib.contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in the body if it takes longer; never while it waits for the learner.

    What the learner's code takes has limits of its own, which know what to say about it.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    late: list[TimeoutError] = []
    over = False

    def overrun(number: int, frame: FrameType | None) -> None:
        if over:
            return
        if _waits_for_learner(frame):  # whose time it was so far; the body's begins afterwards
            signal.setitimer(signal.ITIMER_REAL, max(seconds, SOON_S), AGAIN_S)
        elif _is_between(frame):  # raised here, it would leave the timer behind
            signal.setitimer(signal.ITIMER_REAL, SOON_S, AGAIN_S)
        else:
            late.append(TimeoutError(f"it did not end within {seconds:.3g} s"))
            raise late[0]

    began = time.monotonic()
    before = signal.signal(signal.SIGALRM, overrun)
    outer, interval = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
        if late:  # raised where Python lets nothing out, as in a finalizer
            raise late[0]
    except SystemError as error:
        if not late:
            raise
        raise late[0] from error  # what the compiler makes of an exception in its middle
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:  # someone else's timer, which goes on
            left = outer - (time.monotonic() - began)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-3), interval)


def _is_between(frame: FrameType | None) -> bool:
    """Return whether a body is just being entered or left, where nothing may be raised."""
    return frame is not None and frame.f_globals.get("__name__") in (__name__, contextlib.__name__)


def _waits_for_learner(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_BOUNDED_ELSEWHERE):
            return True
        frame = frame.f_back
    return False
