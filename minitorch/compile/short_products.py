"""Products whose terms are few, as of queries with keys: A (M, K) by the rows of B (N, K).

BLAS packs both for each product, and writes all of C for few terms. Here B is packed once for many
blocks of rows, and a sum is in registers from its first term to its last.

    void kernel(i64 lo, i64 hi, ptr table)   blocks of rows lo to hi; the table: six integers
                                             (`_module`), and where the addresses of A, the packed
                                             B and C are

May import: text, engine, pool, kernels, panels.
"""

import functools
import struct
from typing import Any

import numpy as np

from . import engine, kernels, panels, pool
from .text import KERNEL, Text

_Array = np.ndarray[Any, Any]
PAIR = 2  # panels that are taken at a time
_PACK = struct.Struct("9q").pack


@functools.cache
def rows_of_block() -> int:
    """Return how many rows a block has: its sums fill half of the registers."""
    registers, _ = engine.vector_registers()
    return registers // (2 * PAIR)


def _module(dtype: str) -> str:
    t, rows = Text(dtype, panels.lanes(dtype)), rows_of_block()
    m, n, depth, a_row, c_row, last = t.fields("i64", 6)
    a, b, c = t.arrays(3, 6)
    sums = [t.variable() for _ in range(rows * PAIR)]
    with t.loop("block", "%hi", start="%lo") as block:
        first = t.least(t.times(block, rows), t.plus(m, -rows))  # the end overlaps what is before
        numbers = [t.plus(first, i) for i in range(rows)]
        lines = [t.at(a, t.times(row, a_row), t.scalar) for row in numbers]
        with t.loop("p", t.plus(last, 1), PAIR) as panel:
            pair = [t.plus(panel, v) for v in range(PAIR)]
            starts = [t.times(t.times(t.least(p, last), depth), t.width) for p in pair]
            columns = [t.at(b, start, t.scalar) for start in starts]
            panels.add_terms(t, lines, columns, depth, t.width, sums)
            for v, place in enumerate(pair):
                column = t.times(place, t.width)
                inside = t.first_lanes(t.minus(n, column))
                for i, row in enumerate(numbers):
                    at = t.at(c, t.plus(t.times(row, c_row), column), t.scalar)
                    t.store_inside(t.load(sums[i * PAIR + v], align=64), at, inside)
    t.do("ret void")
    return t.module(KERNEL)


@functools.cache
def _function(dtype: str) -> engine.Function:
    return engine.Function(_module(dtype))


def product(a: _Array, packed_b: _Array, out: _Array) -> None:
    """Write A times the first rows of B, turned, into `out`.

    Args:
        a: (M, K), its rows contiguous, a block of them or more.
        packed_b: what `panels.pack_weights` returns of (1, N, K).
        out: (M, N or fewer), contiguous.
    """
    (m, depth), n, item = a.shape, out.shape[1], a.itemsize
    rows = rows_of_block()
    last = -(-n // packed_b.shape[-1]) - 1
    ints = (m, n, depth, a.strides[0] // item, n, last)
    grain = -(-panels.GRAIN // (rows * n * depth))
    table = _PACK(*ints, *kernels.places_of((a, packed_b, out)))
    function = _function(a.dtype.name)  # whose code is there as long as it is
    pool.share(function.call, -(-m // rows), grain, table)
