"""Which server keeps which part of which array.

Small arrays go whole to the server that has least; an array of more than `PIECE_BYTES` is cut into
one piece a server. A cut runs between rows (the first axis), so that a sparse gradient's row has
one home; an array with fewer rows than servers is cut between elements.

May import: NumPy, arrays, transport.
Source of the idea: ranges of keys, Li et al., OSDI 2014, section 4.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ddp_lab.arrays import outside
from ddp_lab.transport.base import NDArray

PIECE_BYTES = 4096  # a message costs about as much as copying a few of these


@dataclass(frozen=True)
class Piece:
    """Units `lo` to `hi` of an array: rows, or single elements where `by_row` is False."""

    name: str
    server: int
    lo: int
    hi: int
    shape: tuple[int, ...]  # of the piece
    dtype: np.dtype[Any]
    whole: tuple[int, ...]  # shape of the array
    by_row: bool

    def of(self, array: NDArray) -> NDArray:
        """Return this part of a C-contiguous array of the whole shape, sharing memory."""
        units = array if self.by_row else array.reshape(-1)
        return units[self.lo : self.hi].reshape(self.shape) if self.whole else array


def share_out(arrays: Mapping[str, NDArray], servers: int) -> list[Piece]:
    """Return the pieces of all arrays; every rank computes the same."""
    loads = [0] * servers
    pieces = {name: _cut(name, x, servers) for name, x in arrays.items() if x.nbytes > PIECE_BYTES}
    for cut in pieces.values():
        for piece in cut:
            loads[piece.server] += math.prod(piece.shape) * piece.dtype.itemsize
    small = [(name, x) for name, x in arrays.items() if name not in pieces]
    for name, x in sorted(small, key=lambda item: -item[1].nbytes):
        server = loads.index(min(loads))
        loads[server] += x.nbytes
        rows = len(x) if x.ndim else 1
        pieces[name] = [Piece(name, server, 0, rows, x.shape, x.dtype, x.shape, True)]
    return [piece for name in arrays for piece in pieces[name]]


def _cut(name: str, x: NDArray, servers: int) -> list[Piece]:
    by_row = x.ndim > 0 and len(x) >= servers
    units = len(x) if by_row else x.size
    rest = x.shape[1:] if by_row else ()
    bounds = [i * units // servers for i in range(servers + 1)]
    return [
        Piece(name, server, lo, hi, (hi - lo, *rest), x.dtype, x.shape, by_row)
        for server, (lo, hi) in enumerate(pairwise(bounds))
        if hi > lo
    ]


def at_server(pieces: Sequence[Piece], server: int) -> list[int]:
    """Return the numbers of the pieces that a server keeps."""
    return [number for number, piece in enumerate(pieces) if piece.server == server]


def join(
    pieces: Sequence[Piece], parts: Mapping[int, NDArray], kinds: Mapping[str, tuple[str, Any]]
) -> dict[str, Any]:
    """Return whole arrays by name, from their pieces by number; a single piece is not copied.

    Args:
        kinds: kind and device of each array, which the results are of.
    """
    whole: dict[str, NDArray] = {}
    for number, part in sorted(parts.items()):
        piece = pieces[number]
        if part.shape == piece.whole:
            whole[piece.name] = part
            continue
        if piece.name not in whole:
            whole[piece.name] = np.empty(piece.whole, piece.dtype)
        piece.of(whole[piece.name])[...] = part
    return {name: outside(array, *kinds[name]) for name, array in whole.items()}
