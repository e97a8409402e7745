"""Where buffers stand in one arena: offsets, so that none overlap that live at the same time.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020; best fit for very many.
"""

from __future__ import annotations

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


def placed(buffers: Sequence[Buffer], grain: int = ALIGNMENT) -> list[Buffer]:
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
        placed.append(Buffer(buffer.node, n_bytes, begin, end, offset))
    return placed


def _by_time(buffers: Sequence[Buffer], grain: int) -> list[Buffer]:
    """Return the buffers with offsets: in the order of the run, each in the smallest gap."""
    gaps, found = Gaps(), []
    ending: list[tuple[int, int, int]] = []  # the last step of a buffer, its offset and its bytes
    for buffer in sorted(buffers, key=lambda b: b.first):
        while ending and ending[0][0] < buffer.first:
            gaps.give_back(*heapq.heappop(ending)[1:])
        n_bytes = -(-buffer.n_bytes // grain) * grain
        offset = gaps.take(n_bytes)
        heapq.heappush(ending, (buffer.last, offset, n_bytes))
        found.append(replace(buffer, offset=offset))
    return found


class Gaps:
    """The free pieces of an arena that grows as it must.

    Attributes:
        top: how far it reaches.
    """

    def __init__(self) -> None:
        self.top = 0
        self._sizes: list[tuple[int, int]] = []  # (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # offset: bytes
        self._ends: dict[int, int] = {}  # end: offset

    def take(self, n_bytes: int) -> int:
        """Return the offset of a piece: the smallest gap that is wide enough, or a new end."""
        if not n_bytes:
            return 0
        at = bisect.bisect_left(self._sizes, (n_bytes, 0))
        if at < len(self._sizes):
            size, offset = self._sizes[at]
            self._drop(offset)
            self._add(offset + n_bytes, size - n_bytes)
            return offset
        start = self._ends.get(self.top, self.top)  # the last gap becomes wider
        if start < self.top:
            self._drop(start)
        self.top = start + n_bytes
        return start

    def give_back(self, offset: int, n_bytes: int) -> None:
        """Make a piece free; gaps that touch become one."""
        if not n_bytes:
            return
        after = self._starts.get(offset + n_bytes, 0)
        if after:
            self._drop(offset + n_bytes)
        before = self._ends.get(offset, offset)
        if before < offset:
            self._drop(before)
        self._add(before, offset - before + n_bytes + after)

    def _add(self, offset: int, size: int) -> None:
        if size:
            bisect.insort(self._sizes, (size, offset))
            self._starts[offset], self._ends[offset + size] = size, offset

    def _drop(self, offset: int) -> None:
        size = self._starts.pop(offset)
        del self._ends[offset + size]
        del self._sizes[bisect.bisect_left(self._sizes, (size, offset))]
