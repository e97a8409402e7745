"""Where buffers stand in one arena: offsets, so that none overlap that live at the same time.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020; best fit for very many.
"""

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.node import Node

ALIGNMENT = 16
"""Bytes to which the arena and what is in loops are rounded: a multiple of every element's size."""


@dataclass(frozen=True)
class Buffer:
    """A piece of the arena: bytes from `offset`, from the step `first` to the step `last`."""

    node: Node
    n_bytes: int
    first: int
    last: int
    offset: int = 0


MANY = 2000
"""Buffers from which on they are placed in the order of the run: the other way takes the square."""


def assign_offsets(buffers: Sequence[Buffer], grain: int = ALIGNMENT) -> list[Buffer]:
    """Return the buffers with offsets, so that no two that live at the same time overlap.

    Args:
        grain: bytes of which every offset is a multiple.
    """
    return _by_time(buffers, grain) if len(buffers) > MANY else _by_size(buffers, grain)


def _by_size(buffers: Sequence[Buffer], grain: int) -> list[Buffer]:
    """Return the buffers with offsets: largest first, each at the lowest place that is free."""
    placed: list[Buffer] = []
    taken: list[tuple[int, int, int, int]] = []  # start, aligned end, first, last: by start
    for buffer in sorted(buffers, key=lambda b: (-b.n_bytes, b.first)):
        offset, n_bytes, begin, end = 0, buffer.n_bytes, buffer.first, buffer.last
        for start, stop, first, last in taken:
            if first <= end and begin <= last:
                if offset + n_bytes <= start:
                    break
                if stop > offset:
                    offset = stop
        stop = -(-(offset + n_bytes) // grain) * grain
        bisect.insort(taken, (offset, stop, begin, end))
        placed.append(replace(buffer, offset=offset))
    return placed


def _by_time(buffers: Sequence[Buffer], grain: int) -> list[Buffer]:
    """Return the buffers with offsets: in the order of the run, each in the smallest gap."""
    gaps, placed = Gaps(), []
    ending: list[tuple[int, int, int]] = []  # the last step of a buffer, its offset and its bytes
    for buffer in sorted(buffers, key=lambda b: b.first):
        while ending and ending[0][0] < buffer.first:
            gaps.give_back(*heapq.heappop(ending)[1:])
        n_bytes = -(-buffer.n_bytes // grain) * grain
        offset = gaps.take(n_bytes) if n_bytes else 0
        heapq.heappush(ending, (buffer.last, offset, n_bytes))
        placed.append(replace(buffer, offset=offset))
    return placed


class Gaps:
    """The free pieces of an arena that grows as it must: (offset, end), in order, none touching.

    Attributes:
        top: how far it reaches.
    """

    def __init__(self) -> None:
        self.top = 0
        self._free: list[tuple[int, int]] = []

    def take(self, n_bytes: int) -> int:
        """Return the offset of a piece: the smallest gap that is wide enough, or a new end."""
        wide = [(end - start, start) for start, end in self._free if end - start >= n_bytes]
        if wide:
            size, start = min(wide)
            at = bisect.bisect_left(self._free, (start, 0))
            self._free[at : at + 1] = [(start + n_bytes, start + size)] if size > n_bytes else []
            return start
        touches = self._free and self._free[-1][1] == self.top  # the last gap becomes wider
        start = self._free.pop()[0] if touches else self.top
        self.top = start + n_bytes
        return start

    def give_back(self, offset: int, n_bytes: int) -> None:
        """Make a piece free; gaps that touch become one."""
        if not n_bytes:
            return
        start, end = offset, offset + n_bytes
        at = bisect.bisect_left(self._free, (start, 0))
        if at < len(self._free) and self._free[at][0] == end:
            end = self._free.pop(at)[1]
        if at and self._free[at - 1][1] == start:
            at, start = at - 1, self._free.pop(at - 1)[0]
        self._free.insert(at, (start, end))
