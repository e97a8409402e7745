"""Products by panels: some columns of B, a vector of them each, packed as they are read.

BLAS packs both sides of each product, and writes all of C for few terms. Here B is packed once.

A block of rows keeps its sums in registers while the terms are added: of a term, the columns'
numbers are loaded, and each row's is spread over a vector. Each sum is taken term by term, from the
first to the last, whatever the sizes and however threads share the work.

May import: text, engine, kernels; arrays.allocator.
Source: Van Zee & van de Geijn, ACM Trans. Math. Softw. 41(3), 2015 (BLIS).
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import allocator
from . import engine, kernels
from .text import KERNEL, LANES, Text

_Array = np.ndarray[Any, Any]
GRAIN = 2**17  # multiplications, of which a thread should compute a multiple
PAIR = 2  # panels that are taken at a time for short products


@functools.cache
def lanes(dtype: str) -> int:
    """Return how many numbers a vector register of this processor holds."""
    _, bits = engine.vector_registers()
    return min(LANES[dtype], bits // (32 if dtype == "float32" else 64))


def add_terms(
    t: Text,
    lines: Sequence[str],
    columns: Sequence[str],
    depth: str,
    step: int,
    sums: Sequence[str],
) -> None:
    """Set the sums of a block to those of all terms.

    Args:
        lines: where the block's rows of A begin, whose numbers lie side by side.
        columns: where each vector of columns begins.
        depth: how many terms there are.
        step: from one term to the next in a column, in numbers.
        sums: variables, for each row one a vector of columns.
    """
    for place in sums:
        t.store(t.number(0.0), place, how="align 64")
    with t.loop("k", depth) as k:
        further = t.times(k, step)
        vectors = [t.load(t.at(at, further, t.scalar), align=t.item) for at in columns]
        for i, line in enumerate(lines):
            number = t.spread_from(t.at(line, k, t.scalar))
            for v, vector in enumerate(vectors):
                place = sums[i * len(columns) + v]
                t.store(t.fma(number, vector, t.load(place, align=64)), place, how="align 64")


@functools.cache
def _packing(dtype: str, vectors: int) -> engine.Function:
    """Return the kernel that packs weights (vectors, H, K), of any strides, into panels.

    Lanes behind the last unit hold numbers that nobody reads.
    """
    t = Text(dtype, 1)
    width = lanes(dtype)
    source, target = t.arrays(2)
    depth, hidden, *strides = t.fields("i64", 5, 2)  # of gates, units and terms, in numbers
    last = t.plus(hidden, -1)
    with t.loop("p", "%hi", start="%lo") as panel, t.loop("k", depth) as k:
        line = t.times(t.plus(t.times(panel, depth), k), vectors * width)
        for v in range(vectors):
            with t.loop("l", str(width)) as lane:
                unit = t.least(t.plus(t.times(panel, width), lane), last)
                steps = zip((str(v), unit, k), strides, strict=True)
                offset = functools.reduce(t.plus, (t.times(i, stride) for i, stride in steps))
                into = t.plus(t.plus(line, v * width), lane)
                t.store(t.load(t.at(source, offset, t.scalar)), t.at(target, into, t.scalar))
    return engine.Function(t.module(KERNEL))


def pack_weights(weights_VHK: _Array) -> _Array:
    """Return weights (panels, K, V, lanes): a panel's for one term lie side by side."""
    vectors, hidden, depth = weights_VHK.shape
    dtype = weights_VHK.dtype
    width = lanes(dtype.name)
    panels = allocator.empty((-(-hidden // width), depth, vectors, width), dtype)
    numbers = (depth, hidden, *(stride // dtype.itemsize for stride in weights_VHK.strides))
    grain = -(-GRAIN // max(panels[0].size, 1))
    kernels.run(_packing(dtype.name, vectors), (weights_VHK, panels), numbers, len(panels), grain)
    return panels


# Products whose terms are few, as of queries with keys: A (M, K) by the rows of B (N, K)


@functools.cache
def rows_of_block() -> int:
    """Return how many rows a block has: its sums fill half of the registers."""
    registers, _ = engine.vector_registers()
    return registers // (2 * PAIR)


@functools.cache
def _product(dtype: str) -> engine.Function:
    """Return the kernel of blocks of rows, two panels at a time."""
    t, rows = Text(dtype, lanes(dtype)), rows_of_block()
    a, b, c = t.arrays(3)
    m, n, depth, a_row, c_row, last = t.fields("i64", 6, 3)
    sums = [t.variable() for _ in range(rows * PAIR)]
    with t.loop("block", "%hi", start="%lo") as block:
        first = t.least(t.times(block, rows), t.plus(m, -rows))  # the end overlaps what is before
        numbers = [t.plus(first, i) for i in range(rows)]
        lines = [t.at(a, t.times(row, a_row), t.scalar) for row in numbers]
        with t.loop("p", t.plus(last, 1), PAIR) as panel:
            pair = [t.plus(panel, v) for v in range(PAIR)]
            starts = [t.times(t.times(t.least(p, last), depth), t.width) for p in pair]
            columns = [t.at(b, start, t.scalar) for start in starts]
            add_terms(t, lines, columns, depth, t.width, sums)
            for v, place in enumerate(pair):
                column = t.times(place, t.width)
                inside = t.first_lanes(t.minus(n, column))
                for i, row in enumerate(numbers):
                    at = t.at(c, t.plus(t.times(row, c_row), column), t.scalar)
                    t.store_inside(t.load(sums[i * PAIR + v], align=64), at, inside)
    return engine.Function(t.module(KERNEL))


def product(a: _Array, packed_b: _Array, out: _Array) -> None:
    """Write A times the first rows of B, turned, into `out`.

    Args:
        a: (M, K), its rows contiguous, a block of them or more.
        packed_b: what `pack_weights` returns of (1, N, K).
        out: (M, N or fewer), contiguous.
    """
    (m, depth), n, rows = a.shape, out.shape[1], rows_of_block()
    last = -(-n // packed_b.shape[-1]) - 1
    numbers = (m, n, depth, a.strides[0] // a.itemsize, n, last)
    grain = -(-GRAIN // (rows * n * depth))
    kernels.run(_product(a.dtype.name), (a, packed_b, out), numbers, -(-m // rows), grain)
