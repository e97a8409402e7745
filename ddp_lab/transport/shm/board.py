"""The board in shared memory; see `board`.

A rank's entry: words for version, state, one more than the peer waited for, one more than the slot
of its last header, two lengths; then two texts; then slots for its last headers. The version is
odd while the rank writes, so a reader never takes half of two entries for one; so is a slot's.

Slots are what finds ranks that disagree and do not wait for each other, as two that both take
themselves for the root: each writes its header before it looks at the other's, so one of them
sees both. A rank may be `HISTORY` collectives ahead, and its header is still there.

Each wait that is shown has a number, the version that it makes. A rank notes the number of its
peer's wait at which it found nothing sent: until the peer leaves that wait, nothing will come. A
circle of such notes is a deadlock, whatever the clock says.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from ddp_lab.transport.board import FAILED, NOBODY, RUNNING, Allowances, Entry, compare
from ddp_lab.transport.shm.segment import BOARD_BYTES, SLOT_BYTES, Segment

_VERSION, STATE, PEER, DOING, SITE, WHY = range(6)
TEXTS = {SITE: 128, WHY: 1152}
LONGEST = {SITE: 900, WHY: 900}
SLOTS = 4096  # where they begin
HISTORY = (BOARD_BYTES - SLOTS) // SLOT_BYTES - 1
CHAIN = HISTORY  # the slot behind them: the chain of waits that begins with the rank's own
LONGEST_HEADER = SLOT_BYTES - 16  # a slot's first words are its version and the header's length
PID = 9
IN_VAIN = 10  # the number of the peer's wait since which nothing has come
STAT_BYTES = 4096  # more than the kernel says of a process
DEADLINE_WORD = 8  # of rank 0's entry, in milliseconds of the monotonic clock; 0 is none


class ShmBoard(Allowances):
    """A board for ranks that are processes of one machine."""

    def __init__(self, segment: Segment) -> None:
        super().__init__()
        self.size = segment.layout.size
        self.silent = NOBODY
        self._words = segment.words
        self._bytes = segment.bytes
        self._offsets = [segment.layout.board(rank) for rank in range(self.size)]
        self._lock = threading.Lock()  # two threads of a rank may wait at the same time

    @property
    def deadline(self) -> float:
        """When the run must have ended, on `time.monotonic`'s clock."""
        milliseconds = self._words[DEADLINE_WORD]
        return min(self.allowance.end, milliseconds / 1e3 if milliseconds else float("inf"))

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._words[DEADLINE_WORD] = int(value * 1e3) if value != float("inf") else 0

    def live(self, rank: int) -> None:
        """Say which process `rank` is, so that others can see when it is gone."""
        self._words[(self._offsets[rank] >> 3) + PID] = os.getpid()

    def _state(self, rank: int) -> int:
        base = self._offsets[rank] >> 3
        state, pid = self._words[base + STATE], self._words[base + PID]
        if state == RUNNING and pid not in (0, os.getpid()) and not is_alive(pid):
            self.end(rank, FAILED, "its process ended")
            return self._words[base + STATE]  # it may have returned just before
        return state

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say what `rank` does, and compare with what the other members do or did there."""
        words, base = self._words, self._offsets[rank] >> 3
        slot = _slot_of(doing)
        with self._lock:  # leaving it also orders the stores before the loads that follow
            words[base] += 1
            self._write_slot(rank, slot, doing)
            words[base + DOING] = slot + 1
            words[base] += 1
        for peer in members:
            if peer != rank:
                compare(doing, self._read_slot(peer, slot), rank, peer)

    def _write_slot(self, rank: int, slot: int, header: bytes) -> None:
        start = self._offsets[rank] + SLOTS + slot * SLOT_BYTES
        words, header = self._words, header[:LONGEST_HEADER]
        words[start >> 3] += 1
        words[(start >> 3) + 1] = len(header)
        self._bytes[start + 16 : start + 16 + len(header)] = header
        words[start >> 3] += 1

    def _read_slot(self, rank: int, slot: int) -> bytes:
        """Return the header in a slot, b"" while it is being written."""
        start = self._offsets[rank] + SLOTS + slot * SLOT_BYTES
        before = self._words[start >> 3]
        length = min(self._words[(start >> 3) + 1], LONGEST_HEADER)
        header = bytes(self._bytes[start + 16 : start + 16 + length])
        return header if before % 2 == 0 and self._words[start >> 3] == before else b""

    def _doing(self, rank: int) -> bytes:
        """Return the header of a rank's last collective, b"" if there is none."""
        slot = self._words[(self._offsets[rank] >> 3) + DOING] - 1
        return self._read_slot(rank, slot) if slot >= 0 else b""

    def wait(self, rank: int, peer: int, site: bytes) -> None:
        """Say whom `rank` waits for."""
        words, base = self._words, self._offsets[rank] >> 3
        with self._lock:
            words[base] += 1
            words[base + PEER] = peer + 1
            words[base + IN_VAIN] = 0
            self._write(rank, SITE, site)
            words[base] += 1

    def wait_number(self, rank: int) -> int:
        """Return the number of the wait that `rank` shows, 0 if it shows none."""
        return self._wait_of(rank)[0]

    def note_in_vain(self, rank: int, number: int) -> None:
        """Say that nothing came for `rank` since its peer is in the wait of this number."""
        self._words[(self._offsets[rank] >> 3) + IN_VAIN] = number

    def post_chain(self, rank: int, chain: bytes) -> None:
        """Show the chain of waits that begins with that of `rank`, unless it is too long."""
        if len(chain) <= LONGEST_HEADER:
            with self._lock:
                self._write_slot(rank, CHAIN, chain)

    def read_chain(self, rank: int) -> bytes:
        """Return the last chain that `rank` has shown, b"" if none, or while it is written."""
        with self._lock:
            return self._read_slot(rank, CHAIN)

    def circle(self, rank: int) -> list[int]:
        """Return the ranks that wait for each other for ever, from `rank` on; [] if it does not."""
        members: list[int] = []
        first, peer, in_vain = self._wait_of(rank)
        while first and in_vain and peer not in members:
            members.append(peer)
            if peer == rank:
                return members if in_vain == first else []
            number, next_peer, next_in_vain = self._wait_of(peer)
            if number != in_vain:
                return []
            peer, in_vain = next_peer, next_in_vain
        return []

    def _wait_of(self, rank: int) -> tuple[int, int, int]:
        """Return the number of a rank's wait, its peer, and the peer's wait that it noted."""
        words, base = self._words, self._offsets[rank] >> 3
        number, peer, in_vain = words[base], words[base + PEER] - 1, words[base + IN_VAIN]
        if number % 2 or peer < 0 or words[base] != number:
            return 0, NOBODY, 0
        return number, peer, in_vain

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
                self._doing(rank),
                words[base + PEER] - 1,
                self._text(rank, SITE),
                self._text(rank, WHY).decode(errors="replace"),
                words[base + STATE] != RUNNING or words[base + PID] != 0,
            )
            if before % 2 == 0 and words[base] == before:
                return entry
        return Entry(self._state(rank))

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


def _slot_of(header: bytes) -> int:
    """Return the slot of a collective: ranks number those of a communicator alike."""
    return int(header.partition(b"|")[0].rpartition(b".")[2]) % HISTORY


def stat_of(pid: int) -> bytes:
    """Return what the kernel says of a process; asked often, by ranks that wait."""
    file = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, STAT_BYTES)
    finally:
        os.close(file)


def is_alive(pid: int, stat: Callable[[int], bytes] = stat_of) -> bool:
    """Return whether a process runs: it exists and is not just waiting to be buried.

    It may end between the opening of its file and the read (ESRCH, or nothing to read).
    """
    try:
        state = stat(pid).rpartition(b")")[2].split()[:1]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # without /proc nothing can be said
    except OSError:
        return True  # it is there, but nothing more can be said
    return state not in ([b"Z"], [b"X"], [])
