"""Where buffers stand in one arena: offsets, so that none overlap that live at the same time.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020; best fit for very many.
"""

import bisect
import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...arrays.allocator import Gaps, Piece
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


UNBOUNDED = 2**62
"""Bytes of the gap from which an arena takes what fits nowhere else: it grows as it must."""
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
    gaps.add(_piece(0, UNBOUNDED))
    ending: list[tuple[int, int, int]] = []  # the last step of a buffer, its offset and its bytes
    for buffer in sorted(buffers, key=lambda b: b.first):
        while ending and ending[0][0] < buffer.first:
            gaps.add(_piece(*heapq.heappop(ending)[1:]))
        n_bytes = -(-buffer.n_bytes // grain) * grain
        offset = 0
        if n_bytes and (gap := gaps.cut(n_bytes)):
            offset = gap.start
            heapq.heappush(ending, (buffer.last, offset, n_bytes))
        placed.append(replace(buffer, offset=offset))
    return placed


def _piece(start: int, size: int) -> Piece:
    """Return a piece of the arena, which no memory stands behind yet."""
    return Piece(None, start, size)  # type: ignore[arg-type]
