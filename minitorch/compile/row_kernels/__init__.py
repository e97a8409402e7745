"""Softmax, norms, their gradients, Adam and more: a kernel each that reads and writes memory once.

A row is short enough to stay in the nearest cache from its first number to its result, so what
takes several sweeps over it takes memory's time once. Arrays are contiguous, rows of `n` numbers.

    void kernel(i64 lo, i64 hi, ptr table)   rows (or columns) lo to hi; the table: three integers,
                                             n first, where the arrays' objects are, one number

May import: row_text, adam, extremes, norms, places, planes, scans, softmax; text, engine, pool.
"""

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import pool
from ..engine import Function
from ..text import KERNEL
from . import adam, extremes, norms, places, planes, scans, softmax
from .row_text import RowText

PIECE = 2**12  # numbers of a flat array that count as a row
_Array = np.ndarray[Any, Any]
_PARTS = (adam, extremes, norms, places, planes, scans, softmax)
"""Where the kernels' bodies are, functions of a `RowText`; a kernel has its body's name."""
COLUMNS = 64  # of which a thread has a multiple
_OVER_COLUMNS = {"column_moments", "column_sums"}
_WITH_OWN_LOOP = {"add_rows", "attention_of_one", *_OVER_COLUMNS}  # over rows


def module(name: str, dtype: str, count: int) -> str:
    """Return the LLVM module of a kernel of so many arrays."""
    part = next(part for part in _PARTS if hasattr(part, name))
    body, k = getattr(part, name), RowText(dtype, count)
    if name in _WITH_OWN_LOOP or part in (planes, scans):
        body(k)
    else:
        with k.t.loop("r", "%hi", start="%lo") as r:
            k.first = k.t.times(r, k.integers[0])
            k.row = r
            body(k)
    return k.t.module(KERNEL)


@functools.cache
def _function(name: str, dtype: Any, count: int) -> tuple[Function, Callable[..., bytes]]:
    return Function(module(name, dtype.name, count)), struct.Struct(f"{3 + count}qd").pack


def run(
    name: str, arrays: Sequence[_Array], number: float, rows: int = 1, first: int | None = None,
    n: int = 0,
) -> None:  # fmt: skip
    """Run a kernel on contiguous arrays of one dtype; the last ones are written.

    Args:
        name: of a body in `_PARTS`, whose docstring says what the arrays and the number are.
        rows, first: of a causal softmax, the rows of a matrix, and how many elements count in its
            first row; all of them unless given. Of layer norm's gradient, the rows a sum is over.
            Of others, as their docstrings say.
        n: elements of a row, those of the first array's last axis unless given.
    """
    leading = arrays[0]
    n, size = n or leading.shape[-1], leading.size
    if name == "adam":
        n, first = min(n, PIECE), n
    function, pack = _function(name, leading.dtype, len(arrays))
    reach = n if first is None else first
    table = pack(n, rows, reach, *map(id, arrays), number)  # see `kernels.places_of`
    total, grain = -(-size // n), -(-pool.GRAIN // n)
    if name == "layer_norm_gradient":
        grain = rows
    elif name == "attention_of_one":
        grain = -(-pool.GRAIN // rows)
    elif name == "add_rows":  # the work is in the values, not in what they are added to
        grain = max(1, size * pool.GRAIN // (rows * n * n))
    elif name in _OVER_COLUMNS:
        total, grain = n, -(-pool.GRAIN // (rows * COLUMNS)) * COLUMNS
    pool.share(function.call, total, grain, table)
