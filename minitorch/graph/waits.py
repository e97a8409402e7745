"""Threads that can do nothing before another one acts; so a wait that has no end is noticed.

A thread is stuck while what it waits for does not hold. Once that holds it is about to act, though
it may be long before it is given the processor: nothing here depends on how fast anybody is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

_untils: dict[threading.Thread, Callable[[], bool]] = {}
_looking = threading.RLock()  # held by whoever begins or ends to wait, so that none acts unnoticed


@contextmanager
def waiting(until: Callable[[], bool]) -> Iterator[None]:
    """Count this thread as stuck, inside the `with` block, as long as `until()` does not hold.

    Args:
        until: what another thread will make true; it is called by any thread, and takes no lock.
    """
    here = threading.current_thread()
    with _looking:
        _untils[here] = until
    try:
        yield
    finally:
        with _looking:
            del _untils[here]


def all_stuck(idle: Collection[threading.Thread]) -> bool:
    """Tell whether each thread but this one and the `idle` ones is stuck: then none ever acts."""
    here = threading.current_thread()
    with _looking:
        return not any(
            _acts(thread)
            for thread in threading.enumerate()
            if thread is not here and thread not in idle
        )


def _acts(thread: threading.Thread) -> bool:
    until = _untils.get(thread)
    if until is not None:
        return until()
    return thread is not threading.main_thread() or thread.is_alive()  # else the process ends


def gone(threads: Collection[threading.Thread]) -> bool:
    """Tell whether all threads that were started have ended.

    Any thread may ask, unlike `is_alive`: two that ask that of a thread which ends may collide.
    """
    return not set(threads).intersection(threading.enumerate())


class Turn:
    """A lock for what one thread does at a time; those who wait for it count as stuck."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            with waiting(lambda: not self._taken):
                self._lock.acquire()
        self._taken = True  # only now: until here whoever has just got it is about to act

    def __exit__(self, *_: object) -> None:
        self._taken = False
        self._lock.release()
