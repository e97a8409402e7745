"""A recorded run told in rounds: who sends what to whom, and what each rank then knows.

Pure data: messages in, plain lists out. The round of a message is its place in a schedule with one
port in and one port out a rank (Thakur, Rabenseifner, Gropp 2005, section 3): rounds are what
latency and bandwidth are paid by, whatever the clock of a busy machine said.

Which partial sum a message carried is found from its values and the ranks' inputs.

May import: NumPy, errors, transport.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.record import Message

MAX_RANKS = 8  # 2**8 subsets are searched for each message
MAX_ELEMENTS = 64
TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-9}  # by bytes of a number: sums differ by their order


@dataclass(frozen=True)
class PartialSum:
    """Elements `lo` to `hi` (exclusive) summed over `ranks`; no ranks: it is no partial sum."""

    lo: int
    hi: int
    ranks: frozenset[int]

    def words(self) -> str:
        """Return what it is, as the object of a sentence."""
        if not self.ranks:
            return "something that is no partial sum of the inputs"
        last = self.hi - 1
        what = f"element {self.lo}" if last == self.lo else f"elements {self.lo} to {last}"
        names = [str(rank) for rank in sorted(self.ranks)]
        if len(names) == 1:
            return f"{what} of rank {names[0]}"
        return f"{what} summed over ranks {', '.join(names[:-1])} and {names[-1]}"


NO_PARTIAL_SUM = PartialSum(0, 0, frozenset())


def subset_sums(inputs: Sequence[NDArray[Any]] | None) -> NDArray[Any] | None:
    """Return the sum over every subset of ranks, shape (2**n, elements); the row is a bit mask.

    None where there are no inputs, or more than can be searched.
    """
    if inputs is None or len(inputs) > MAX_RANKS:
        return None
    flat = np.stack([np.asarray(x, dtype=np.float64).reshape(-1) for x in inputs])
    if flat.shape[1] > MAX_ELEMENTS:
        return None
    masks = np.arange(2 ** len(flat))[:, None] >> np.arange(len(flat)) & 1
    return np.asarray(masks @ flat)


def explain(values: Any, sums: NDArray[Any] | None) -> PartialSum | None:
    """Return the partial sum that `values` are; None where there is nothing to tell it by.

    Where several fit, the nearest; then the one over the lowest ranks and of the lowest elements.
    """
    if values is None or sums is None:
        return None
    tolerance = TOLERANCE.get(np.asarray(values).itemsize, 0.0)
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not 0 < flat.size <= sums.shape[1]:
        return NO_PARTIAL_SUM
    windows = np.lib.stride_tricks.sliding_window_view(sums, flat.size, axis=1)
    # Relative, without a floor: the smallest input may be 10**-7 of the largest.
    scale = np.maximum(np.abs(flat), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):  # beside a zero all else is infinitely far away
        error = (np.abs(windows - flat) / scale).max(axis=2)
    error[0] = np.inf  # the empty subset
    mask, lo = (int(i) for i in np.unravel_index(np.argmin(error), error.shape))
    if error[mask, lo] > tolerance:
        return NO_PARTIAL_SUM
    ranks = frozenset(rank for rank in range(mask.bit_length()) if mask >> rank & 1)
    return PartialSum(lo, lo + flat.size, ranks)


MAX_MESSAGES = 20_000  # all are in the page, some 130 bytes each; only one round's are drawn


@dataclass(frozen=True)
class Hop:
    """One message in its round, with the partial sum that it carried where that is known."""

    round: int
    src: int
    dst: int
    n_bytes: int
    carried: PartialSum | None = None

    def sentence(self) -> str:
        """Return the hop in words."""
        what = "a message" if self.carried is None else self.carried.words()
        return f"Rank {self.src} sends rank {self.dst} {what} ({self.n_bytes} bytes)."

    def covers(self, lo: int, hi: int) -> bool:
        """Return whether it brought elements `lo` to `hi`."""
        what = self.carried
        return what is not None and bool(what.ranks) and what.lo <= lo and hi <= what.hi


Knowledge = tuple[tuple[frozenset[int], ...], ...]  # [rank][cell]: whose contributions were seen


@dataclass(frozen=True)
class Story:
    """A run in rounds, ready to be drawn.

    `known[k][rank][cell]` is the set of ranks whose contribution to the cell `rank` has seen
    after `k` rounds, `sent[k][rank]` the bytes it has sent; cell c is elements cuts[c]:cuts[c+1].
    `ended_s[k]` is when all messages up to round k had arrived, where they went over a link.
    """

    title: str
    world_size: int
    n_bytes: int
    cuts: tuple[int, ...]
    rounds: tuple[tuple[Hop, ...], ...]
    known: tuple[Knowledge, ...]
    sent: tuple[tuple[int, ...], ...]
    ended_s: tuple[float, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the story as JSON-ready data for the player."""
        return {
            "title": self.title,
            "world_size": self.world_size,
            "n_bytes": self.n_bytes,
            "cuts": list(self.cuts),
            "rounds": [[_hop_data(hop, self.cuts) for hop in hops] for hops in self.rounds],
            "known": [[[sorted(c) for c in rank] for rank in frame] for frame in self.known],
            "sent": [list(frame) for frame in self.sent],
            "ended_ms": [round(1e3 * seconds, 1) for seconds in self.ended_s],
        }


def tell(
    messages: Iterable[Message],
    world_size: int,
    inputs: Sequence[NDArray[Any]] | None = None,
    title: str = "A recorded run",
    timed: bool = False,
) -> Story:
    """Return the story of a run.

    Args:
        messages: every message of the run, in any order, by one clock; one may also have `values`,
            a copy of the array that travelled.
        world_size: number of ranks.
        inputs: what each rank put in, one array a rank, all of one size; with them, and with
            messages that have `values`, each message is explained as a partial sum.
        title: what the player writes above the picture.
        timed: tell when each round had ended too; so much means something over a link alone.
    Raises:
        InvalidArgument: too many messages to draw, or an input missing.
    """
    ordered = sorted(messages, key=lambda m: (m.sent_at, m.src, m.dst))
    _check(len(ordered), world_size, inputs)
    sums = subset_sums(inputs)
    hops = [
        Hop(at, m.src, m.dst, m.n_bytes, explain(getattr(m, "values", None), sums))
        for m, at in zip(ordered, rounds_of(ordered), strict=True)
    ]
    rounds = _by_round(hops)
    cuts = _cuts(hops, 0 if sums is None else sums.shape[1])
    return Story(
        title=title,
        world_size=world_size,
        n_bytes=0 if inputs is None else int(inputs[0].nbytes),
        cuts=cuts,
        rounds=rounds,
        known=_trace_knowledge(rounds, world_size, cuts),
        sent=_count_sent(rounds, world_size),
        ended_s=_end_times(ordered, hops) if timed else (),
    )


def _end_times(messages: Sequence[Message], hops: Sequence[Hop]) -> tuple[float, ...]:
    """Return by round the seconds from the first message's start until all so far had arrived."""
    ends = [0.0] * (max(hop.round for hop in hops) + 1) if hops else []
    for message, hop in zip(messages, hops, strict=True):
        ends[hop.round] = max(ends[hop.round], message.received_at - messages[0].sent_at)
    return tuple(accumulate(ends, max))


def rounds_of(messages: Sequence[Message]) -> list[int]:
    """Return the round of each message; `messages` in order of sending.

    A message goes out after every message that its sender had received, as soon as the sender's
    port out and the receiver's port in are both free.
    """
    port_out: dict[int, int] = {}
    port_in: dict[int, _FreeRounds] = {}
    inbox: dict[int, list[tuple[float, int]]] = {}  # a heap of (received_at, round after it)
    rounds: list[int] = []
    for m in messages:
        waiting = inbox.get(m.src, [])
        earliest = port_out.get(m.src, 0)
        while waiting and waiting[0][0] <= m.sent_at:
            earliest = max(earliest, heappop(waiting)[1])
        at = port_in.setdefault(m.dst, _FreeRounds()).take(earliest)
        port_out[m.src] = at + 1
        if not isnan(m.received_at):
            heappush(inbox.setdefault(m.dst, []), (m.received_at, at + 1))
        rounds.append(at)
    return rounds


class _FreeRounds:
    """The rounds in which a port is still free, all of them at first."""

    def __init__(self) -> None:
        self._later: dict[int, int] = {}  # a taken round, and one at or after the next free one

    def take(self, earliest: int) -> int:
        """Return the first free round from `earliest` on, which is then taken."""
        passed, at = [], earliest
        while at in self._later:
            passed.append(at)
            at = self._later[at]
        for taken in [*passed, at]:
            self._later[taken] = at + 1
        return at


def _check(n_messages: int, world_size: int, inputs: Sequence[NDArray[Any]] | None) -> None:
    if n_messages > MAX_MESSAGES:
        raise InvalidArgument(
            f"ring player: too many messages to draw: got {n_messages}, expected at most "
            f"{MAX_MESSAGES}. Record one call on a small array."
        )
    if inputs is not None and len(inputs) != world_size:
        raise InvalidArgument(
            f"ring player: one input a rank is needed: got {len(inputs)}, expected {world_size}. "
            "Give the array that each rank started with."
        )


def _by_round(hops: Sequence[Hop]) -> tuple[tuple[Hop, ...], ...]:
    n_rounds = max((hop.round for hop in hops), default=-1) + 1
    rounds: list[list[Hop]] = [[] for _ in range(n_rounds)]
    for hop in sorted(hops, key=lambda hop: hop.src):
        rounds[hop.round].append(hop)
    return tuple(map(tuple, rounds))


def _cuts(hops: Iterable[Hop], n_elements: int) -> tuple[int, ...]:
    edges = {0, n_elements} if n_elements else set()
    for hop in hops:
        if hop.carried and hop.carried.ranks:
            edges |= {hop.carried.lo, hop.carried.hi}
    return tuple(sorted(edges))


def _trace_knowledge(
    rounds: Iterable[Iterable[Hop]], world_size: int, cuts: tuple[int, ...]
) -> tuple[Knowledge, ...]:
    now = [[frozenset({rank}) for _ in cuts[1:]] for rank in range(world_size)]
    frames = [tuple(map(tuple, now))]
    for hops in rounds:
        for hop in hops:
            for cell, edges in enumerate(pairwise(cuts)):
                if hop.carried and hop.covers(*edges):
                    now[hop.dst][cell] |= hop.carried.ranks
        frames.append(tuple(map(tuple, now)))
    return tuple(frames)


def _count_sent(rounds: Iterable[Iterable[Hop]], world_size: int) -> tuple[tuple[int, ...], ...]:
    totals = [0] * world_size
    frames = [tuple(totals)]
    for hops in rounds:
        for hop in hops:
            totals[hop.src] += hop.n_bytes
        frames.append(tuple(totals))
    return tuple(frames)


def _hop_data(hop: Hop, cuts: tuple[int, ...]) -> dict[str, Any]:
    return {
        "src": hop.src,
        "dst": hop.dst,
        "bytes": hop.n_bytes,
        "cells": [c for c, edges in enumerate(pairwise(cuts)) if hop.covers(*edges)],
        "ranks": None if hop.carried is None else sorted(hop.carried.ranks),
        "text": hop.sentence(),
    }
