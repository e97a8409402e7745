"""The board: what each rank does, for those who wait for it and for the launcher.

A rank writes its own entry as it enters a collective, at the price of storing a few bytes. Nobody
reads it until somebody has waited for a while. Then it turns a hang into a fact: the peer has
ended, or is in another collective, or waits itself for a third rank at such a line.
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from ddp_lab.errors import Deadlock, RankLost, RankTimeout
from ddp_lab.transport import header as headers

RUNNING, RETURNED, FAILED, ENDED = range(4)  # ended: by itself, whatever its exit code
NOBODY = -1
ENDS = {RETURNED: "has returned", ENDED: "has ended", FAILED: "has failed"}
# an error of a wait for a lost rank, whatever is around it; and one that such a rank has left
LOSS = re.compile(
    r"RankLost: .*?(rank \d+ (?:has|is) .*)"
    r"(?:: rank \d+ (?:still waits|could not send)|\. See whether)"
)
LOSS_OF_LOST = re.compile(r"\(RankLost: (rank .*)\)")


@dataclass(frozen=True)
class Entry:
    """One rank's entry: `state`, the header of its last collective, and its wait, if any.

    Of a rank on another host only its end is `heard`.
    """

    state: int
    doing: bytes = b""
    waits_for: int = -1
    waits_at: bytes = b""
    why: str = ""
    heard: bool = True


class Board(Protocol):
    """Where each of `size` ranks keeps an entry that all can read.

    `silent` is a rank whose host this process no longer hears: every wait of it ends with that.
    """

    size: int
    deadline: float
    silent: int
    allowance: "Allowance"

    def may_go_on(self) -> bool:
        """Return whether the calling thread may send after its wait though nothing has come."""

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say that `rank` enters the collective of `members` with this header.

        Raises:
            Mismatch: another member is seen to be in a different one at this place in the order.
        """

    def wait(self, rank: int, peer: int, site: bytes) -> None:
        """Say that `rank` waits for `peer`; peer -1 says that it no longer does."""

    def end(self, rank: int, state: int, why: str = "") -> None:
        """Say that `rank` is gone; the first such word stays."""

    def read(self, rank: int) -> Entry:
        """Return the entry of `rank`."""


class Allowance(threading.local):
    """When the waits of a thread must have ended: each thread of a rank has its own.

    `may_go_on` says whether the program set the limit for this wait, and so may send afterwards.
    """

    end = float("inf")  # of the class: asked in every wait, and no thread need have set it
    may_go_on = False


class Allowances:
    """When the waits of each thread of a rank must have ended, for the boards to have."""

    def __init__(self) -> None:
        self.allowance = Allowance()

    def may_go_on(self) -> bool:
        """Return whether the calling thread may send after its wait though nothing has come."""
        return self.allowance.may_go_on


class Onlooker(threading.Thread):
    """A thread of a rank's process that sends no message while it is idle, and this one never."""

    is_idle = True


# the threads that wait, without a limit, for a job of another one, and whether that has ended
dependent: dict[threading.Thread, Callable[[], bool]] = {}


@contextmanager
def waiting_for(has_ended: Callable[[], bool]) -> Iterator[None]:
    """Around a wait for a job of another thread: those who look for circles of waits know."""
    thread = threading.current_thread()
    dependent[thread] = has_ended
    try:
        yield
    finally:
        dependent.pop(thread, None)


def is_alone(ranks: Collection[threading.Thread | None] = ()) -> bool:
    """Return whether no thread of this process can send but the calling one and `ranks`.

    One that waits for a job cannot before some thread has ended that, and so is not idle itself.
    """
    able = {threading.current_thread(), *ranks}
    return all(t in able or _is_passive(t) for t in threading.enumerate())


def _is_passive(thread: threading.Thread) -> bool:
    has_ended = dependent.get(thread)
    return getattr(thread, "is_idle", False) or (has_ended is not None and not has_ended())


@runtime_checkable
class Watched(Protocol):
    """A transport whose ranks keep a board."""

    board: Board


class MemoryBoard(Allowances):
    """A board for ranks that are threads of one process."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.silent = NOBODY
        self._deadline = float("inf")
        self._states = [RUNNING] * size
        self._doing = [b""] * size
        self._waits: list[tuple[int, bytes]] = [(-1, b"")] * size
        self._why = [""] * size
        self._lock = threading.Lock()
        self._entered: dict[tuple[bytes, tuple[int, ...]], tuple[int, bytes, int]] = {}

    @property
    def deadline(self) -> float:
        """When the waits of the calling thread must have ended."""
        return min(self.allowance.end, self._deadline)

    @deadline.setter
    def deadline(self, value: float) -> None:
        self._deadline = value

    def enter(self, rank: int, doing: bytes, members: tuple[int, ...]) -> None:
        """Say what `rank` does; the first member to do so speaks for all that follow."""
        self._doing[rank] = doing
        key = (_order(doing), members)
        with self._lock:
            first, theirs, entered = self._entered.get(key, (rank, doing, 0))
            self._entered[key] = (first, theirs, entered + 1)
            if entered + 1 == len(members):
                del self._entered[key]
        headers.check(doing, theirs, rank, first)

    def wait(self, rank: int, peer: int, site: bytes) -> None:
        """Say whom `rank` waits for."""
        self._waits[rank] = (peer, site)

    def end(self, rank: int, state: int, why: str = "") -> None:
        """Say that `rank` is gone."""
        if self._states[rank] == RUNNING:
            self._why[rank] = why
            self._states[rank] = state

    def read(self, rank: int) -> Entry:
        """Return the entry of `rank`."""
        peer, site = self._waits[rank]
        return Entry(self._states[rank], self._doing[rank], peer, site, self._why[rank])


def inspect(board: Board, rank: int, peer: int) -> None:
    """Raise if the board shows that `rank` waits for `peer` in vain.

    Raises:
        Mismatch: the peer stands in another collective than this rank, or ended there.
        RankLost: the peer has ended. Whoever calls this looks for a last message afterwards.
        RankTimeout: the run's deadline has passed.
    """
    mine, theirs = board.read(rank), board.read(peer)
    compare(mine.doing, theirs.doing, rank, peer)

    def own() -> Entry:  # the board shows one wait of a rank, which may be another thread's
        return replace(mine, waits_for=peer, waits_at=headers.call_site())

    if theirs.state != RUNNING:
        raise RankLost(
            f"{waiting(own())}: rank {peer} {fate(theirs)}: rank {rank} still waits for it. "
            f"Look at what rank {peer} did instead of sending.",
            peer,
        )
    if board.silent != NOBODY:
        raise RankLost(
            f"{waiting(own())}: rank {board.silent} {fate(board.read(board.silent))}. "
            "See whether its machine and the way to it are up.",
            board.silent,
        )
    if time.monotonic() > board.deadline:
        raise RankTimeout(
            f"{waiting(own())}: the timeout has passed: rank {rank} waited for rank {peer}. "
            f"{sentence({**entries(board), rank: own()})}",
            peer,
        )


def deadlock(board: Board, rank: int, peer: int, report: str) -> Deadlock:
    """Return the error of a rank that waits for `peer` in a circle, of which it has a report."""
    return Deadlock(
        f"{waiting(board.read(rank))}: ranks wait for each other, and none will send: "
        f"{report} Let one of them send first, or all call the same.",
        peer,
    )


def silent(rank: int, peer: int, timeout_s: float | None) -> RankTimeout:
    """Return the error of a wait that ran out of its own time."""
    return RankTimeout(
        f"recv: nothing came: rank {rank} waited {timeout_s} s for rank {peer} at "
        f"{headers.call_site().decode()}. See what rank {peer} does instead of sending.",
        peer,
    )


def is_ending(board: Board, rank: int) -> bool:
    """Return whether a rank has ended, or waits for one that has and so is about to."""
    seen: set[int] = set()
    while rank >= 0 and rank not in seen:
        entry = board.read(rank)
        if entry.state != RUNNING:
            return True
        seen.add(rank)
        rank = entry.waits_for
    return False


def fate(entry: Entry) -> str:
    """Return how a rank has ended, and why as far as its entry says."""
    return f"{ENDS[entry.state]} ({entry.why})" if entry.why else ENDS[entry.state]


def first_cause(words: str) -> str:
    """Return the words of an error, or of one that tells of a lost rank what ended the first."""
    loss = LOSS.search(words)
    if loss is None:
        return words
    before = LOSS_OF_LOST.search(loss[1])
    return f"RankLost: {before[1] if before else loss[1]}"


def first_failure(entries: Mapping[int, Entry]) -> tuple[int, str] | None:
    """Return a rank that has failed by itself, not for the loss of another, and why."""
    for rank, entry in entries.items():
        if entry.state == FAILED and not entry.why.startswith("RankLost: "):
            return rank, entry.why
    return None


def compare(mine: bytes, theirs: bytes, rank: int, peer: int) -> None:
    """Raise `Mismatch` if two ranks are in different collectives at one place in the order."""
    if mine and _order(mine) == _order(theirs):
        headers.check(mine, theirs, rank, peer)


def _order(header: bytes) -> bytes:
    return header.partition(b"|")[0]


def waiting(entry: Entry) -> str:
    """Return what a rank waits in, with its line."""
    waits_at = entry.waits_at.decode()
    same = bool(entry.doing) and headers.site_of(entry.doing) == waits_at
    operation = headers.operation_of(entry.doing) if same else "recv"
    return f"{operation} at {waits_at}" if waits_at else operation


def entries(board: Board, ranks: Iterable[int] | None = None) -> dict[int, Entry]:
    """Return what the board says of these ranks, or of all."""
    return {rank: board.read(rank) for rank in (range(board.size) if ranks is None else ranks)}


def sentence(entries: Mapping[int, Entry]) -> str:
    """Return who waits for whom, and where, of ranks' entries."""
    return "; ".join(f"rank {rank} {_state(e)}" for rank, e in entries.items() if e.heard) + "."


def _state(entry: Entry) -> str:
    if entry.state != RUNNING:
        return ENDS[entry.state]
    operation = headers.operation_of(entry.doing) if entry.doing else ""
    site = headers.site_of(entry.doing) if entry.doing else ""
    waits_at = entry.waits_at.decode()
    if entry.waits_for < 0:
        return "waits for nobody" + (f", last seen in {operation} at {site}" if operation else "")
    waits_in = operation if site == waits_at else "recv"
    return f"waits for rank {entry.waits_for} in {waits_in} at {waits_at}"
