"""The board of a rank that sees of the others only what comes over its connections.

A rank that leaves says why, to all others at once, and who had failed before it; a connection that
ends without these words is one of a process that was killed. So each rank can say who failed
first, whichever of the others it waits for.
"""

import sys
from dataclasses import replace

from ddp_lab.transport.board import (
    ENDED,
    FAILED,
    RUNNING,
    Board,
    Entry,
    MemoryBoard,
    entries,
    first_cause,
    first_failure,
)

LONGEST = 1000  # bytes of last words


class LocalBoard(MemoryBoard):
    """A board on which only this rank and the fate of its connections are seen."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._first: tuple[int, str] | None = None  # the first that failed, and why
        self._own: set[int] = set()  # ranks of this process

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say what `rank` does; nobody else is here to compare with."""
        self._own.add(rank)
        self._doing[rank] = doing

    def wait(self, rank: int, peer: int, site: bytes) -> None:
        self._own.add(rank)
        super().wait(rank, peer, site)

    def read(self, rank: int) -> Entry:
        """Return the entry of `rank`; of another process only how it ended."""
        entry = super().read(rank)
        return replace(entry, heard=entry.state != RUNNING or rank in self._own)

    def end(self, rank: int, state: int, why: str = "") -> None:
        """Say that `rank` is gone, and whether another failed before it."""
        with self._lock:
            if self._states[rank] != RUNNING:
                return
            if self._first is None and state == FAILED:
                self._first = rank, why
            super().end(rank, state, name_first(rank, why, self._first))

    def first_to_fail(self) -> str:
        """Return the rank that failed first and why, as far as is heard here, or ""."""
        return "" if self._first is None else f"{self._first[0]} {self._first[1]}"

    def hear_of(self, rank: int, why: str) -> None:
        """Take from another rank who failed first; what was heard before stays."""
        with self._lock:
            self._first = self._first or (rank, why)


def goodbye(board: Board) -> bytes:
    """Return the words with which this rank leaves: why, and on a second line who failed first."""
    if isinstance(board, LocalBoard):
        first = board.first_to_fail()
    else:
        failure = first_failure(entries(board))
        first = f"{failure[0]} {failure[1]}" if failure else ""
    return last_words() + b"\n" + first.encode()[:LONGEST]


def name_first(rank: int, why: str, first: tuple[int, str] | None) -> str:
    """Return why a rank ends, and which other failed before it, unless that is said already."""
    if first is None or first[0] == rank or (first[1] in why and f"rank {first[0]} " in why):
        return why
    earlier = f"rank {first[0]} was the first to fail: {first[1]}"
    return f"{why}; {earlier}" if why else earlier


def hear(board: Board, rank: int, peer: int, words: str) -> None:
    """Take the words with which `peer` has left; `rank` knows of itself that it has not failed."""
    why, _, first = words.partition("\n")
    culprit, _, because = first.partition(" ")
    state = FAILED if why else ENDED
    if culprit.isdigit() and int(culprit) not in (rank, peer):
        if isinstance(board, LocalBoard):
            board.hear_of(int(culprit), because)
        else:
            why = name_first(peer, why, (int(culprit), because))
    board.end(peer, state, why)


def last_words() -> bytes:
    """Return in one line what ends this interpreter: the exception that nobody caught, or b""."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return b""
    text = str(error).partition("\n")[0]
    words = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return first_cause(words).encode()[:LONGEST]
