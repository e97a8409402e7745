"""Products by panels: some columns of B, a vector of them each, packed as they are read.

A block of rows keeps its sums in registers while the terms are added: of a term, the columns'
numbers are loaded, and each row's is spread over a vector. Each sum is taken term by term, from the
first to the last, whatever the sizes and however threads share the work.

May import: text, engine, pool, kernels; arrays.allocator.
Source: Van Zee & van de Geijn, ACM Trans. Math. Softw. 41(3), 2015 (BLIS).
"""

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arrays import allocator
from . import engine, kernels, pool
from .text import KERNEL, LANES, Text

_Array = np.ndarray[Any, Any]
GRAIN = 2**17  # multiplications, of which a thread should compute a multiple


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
def _packing(dtype: str, vectors: int) -> tuple[engine.Function, Callable[..., bytes]]:
    """Return the kernel that packs weights (vectors, H, K), of any strides, into panels.

    Lanes behind the last unit hold numbers that nobody reads.
    """
    t = Text(dtype, 1)
    width = lanes(dtype)
    depth, hidden, *strides = t.fields("i64", 5)  # of gates, units and terms, in numbers
    source, target = t.arrays(2, 5)
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
    t.do("ret void")
    return engine.Function(t.module(KERNEL)), struct.Struct("7q").pack


def pack_weights(weights_VHK: _Array) -> _Array:
    """Return weights (panels, K, V, lanes): a panel's for one term lie side by side."""
    vectors, hidden, depth = weights_VHK.shape
    dtype = weights_VHK.dtype
    width = lanes(dtype.name)
    panels = allocator.empty((-(-hidden // width), depth, vectors, width), dtype)
    function, pack = _packing(dtype.name, vectors)
    strides = (stride // dtype.itemsize for stride in weights_VHK.strides)
    table = pack(depth, hidden, *strides, *kernels.places_of((weights_VHK, panels)))
    pool.share(function.call, len(panels), -(-GRAIN // max(panels[0].size, 1)), table)
    return panels
