"""The board in shared memory; see `board`.

A rank's entry: words for version, state, one more than the peer waited for, three lengths; then
three texts. The
version is odd while the rank writes, so a reader never takes half of two entries for one.
"""

import os
import threading
import time
from pathlib import Path

from ddp_lab.transport.board import FAILED, RUNNING, Entry, compare
from ddp_lab.transport.segment import Segment

_VERSION, STATE, PEER, DOING, SITE, WHY = range(6)
TEXTS = {DOING: 128, SITE: 1664, WHY: 2600}
LONGEST = {DOING: 1500, SITE: 900, WHY: 900}
PID = 9
DEADLINE_WORD = 8  # of rank 0's entry, in milliseconds of the monotonic clock; 0 is none


class ShmBoard:
    """A board for ranks that are processes of one machine."""

    def __init__(self, segment: Segment) -> None:
        self.size = segment.layout.size
        self._words = segment.words
        self._bytes = segment.bytes
        self._offsets = [segment.layout.board(rank) for rank in range(self.size)]
        self._lock = threading.Lock()  # two threads of a rank may wait at the same time
        self._own_deadline = float("inf")

    @property
    def deadline(self) -> float:
        """When the run must have ended, on `time.monotonic`'s clock."""
        milliseconds = self._words[DEADLINE_WORD]
        return min(self._own_deadline, milliseconds / 1e3 if milliseconds else float("inf"))

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._words[DEADLINE_WORD] = int(value * 1e3) if value != float("inf") else 0

    def allow(self, seconds: float) -> None:
        """Let this process wait for so long from now on, and no longer."""
        self._own_deadline = time.monotonic() + seconds

    def live(self, rank: int) -> None:
        """Say which process `rank` is, so that others can see when it is gone."""
        self._words[(self._offsets[rank] >> 3) + PID] = os.getpid()

    def _state(self, rank: int) -> int:
        base = self._offsets[rank] >> 3
        state, pid = self._words[base + STATE], self._words[base + PID]
        if state == RUNNING and pid and not is_alive(pid):
            self.end(rank, FAILED, "its process ended")
            return FAILED
        return state

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say what `rank` does, and compare with what the other members do now."""
        words, base = self._words, self._offsets[rank] >> 3
        with self._lock:
            words[base] += 1
            self._write(rank, DOING, doing)
            words[base] += 1
        for peer in members:
            if peer != rank:
                compare(doing, self._doing(peer), rank, peer)

    def wait(self, rank: int, peer: int, site: bytes) -> None:
        """Say whom `rank` waits for."""
        words, base = self._words, self._offsets[rank] >> 3
        with self._lock:
            words[base] += 1
            words[base + PEER] = peer + 1
            self._write(rank, SITE, site)
            words[base] += 1

    def end(self, rank: int, state: int, why: str = "") -> None:
        """Say that `rank` is gone."""
        base = self._offsets[rank] >> 3
        if self._words[base + STATE] == RUNNING:
            self._write(rank, WHY, why.encode())
            self._words[base + STATE] = state

    def read(self, rank: int) -> Entry:
        """Return the entry of `rank`."""
        words, base = self._words, self._offsets[rank] >> 3
        for _ in range(1000):  # a writer that died half-way leaves an odd version for ever
            before = words[base]
            entry = Entry(
                self._state(rank),
                self._text(rank, DOING),
                words[base + PEER] - 1,
                self._text(rank, SITE),
                self._text(rank, WHY).decode(errors="replace"),
            )
            if before % 2 == 0 and words[base] == before:
                return entry
        return Entry(self._state(rank))

    def _doing(self, rank: int) -> bytes:
        """Return the header of another rank's collective, b"" while it is being written."""
        base = self._offsets[rank] >> 3
        before = self._words[base]
        text = self._text(rank, DOING)
        return text if before % 2 == 0 and self._words[base] == before else b""

    def _write(self, rank: int, field: int, text: bytes) -> None:
        offset = self._offsets[rank]
        text = text[: LONGEST[field]]
        self._words[(offset >> 3) + field] = len(text)
        start = offset + TEXTS[field]
        self._bytes[start : start + len(text)] = text

    def _text(self, rank: int, field: int) -> bytes:
        offset = self._offsets[rank]
        start = offset + TEXTS[field]
        length = min(self._words[(offset >> 3) + field], LONGEST[field])
        return bytes(self._bytes[start : start + length])


def is_alive(pid: int) -> bool:
    """Return whether a process runs: it exists and is not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # without /proc nothing can be said
