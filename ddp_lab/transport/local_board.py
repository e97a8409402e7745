"""The board of a rank that sees of the others only what comes over its connections.

A rank that leaves says why, to all others at once; a connection that ends without that word is one
of a process that was killed. As every rank hears of every other, each can say who failed first.
"""

import sys

from ddp_lab.transport.board import FAILED, RUNNING, MemoryBoard

LONGEST = 1000  # bytes of last words


class LocalBoard(MemoryBoard):
    """A board on which only this rank and the fate of its connections are seen."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._first = -1

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say what `rank` does; nobody else is here to compare with."""
        self._doing[rank] = doing

    def end(self, rank: int, state: int, why: str = "") -> None:
        """Say that `rank` is gone, and whether another failed before it."""
        with self._lock:
            if self._states[rank] != RUNNING:
                return
            if self._first >= 0:
                earlier = f"rank {self._first} was the first to fail: {self._why[self._first]}"
                why = f"{why}; {earlier}" if why else earlier
            elif state == FAILED:
                self._first = rank
            super().end(rank, state, why)


def last_words() -> bytes:
    """Return in one line what ends this interpreter: the exception that nobody caught, or b""."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return b""
    text = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {text}".encode()[:LONGEST]
