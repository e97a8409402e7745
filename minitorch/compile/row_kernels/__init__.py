"""Softmax, norms, their gradients, Adam and more: a kernel each that reads and writes memory once.

A row is short enough to stay in the nearest cache from its first number to its result, so what
takes several sweeps over it takes memory's time once. Arrays are contiguous, rows of `n` numbers.

    void kernel(i64 lo, i64 hi, ptr table)   rows (or columns) lo to hi; the table: three integers,
                                             n first, where the arrays' objects are, one number

May import: row_text, softmax, extremes, norms, adam, places, planes, ranges, scans; text, engine,
pool.
"""

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import pool
from ..engine import Function
from ..text import KERNEL
from .adam import adam
from .extremes import EXTREMES
from .norms import (
    channel_sums,
    column_moments,
    column_sums,
    group_norm,
    group_norm_gradient,
    layer_norm,
    layer_norm_gradient,
    row_moments,
    standardize_gradient,
)
from .places import add_rows, gather, scatter, scatter_add
from .planes import PLANES
from .ranges import range_sums
from .row_text import RowText
from .scans import SCANS
from .softmax import (
    attention_of_one,
    class_gradient,
    class_loss,
    log_softmax,
    log_softmax_gradient,
    log_sum_exp,
    softmax,
    softmax_gradient,
)

PIECE = 2**12  # numbers of a flat array that count as a row
_Array = np.ndarray[Any, Any]


_KERNELS: dict[str, tuple[int, Callable[[RowText], None]]] = {
    "softmax": (2, softmax),
    "softmax_gradient": (3, softmax_gradient),
    "attention_of_one": (5, attention_of_one),
    "class_loss": (4, class_loss),
    "class_gradient": (4, class_gradient),
    "log_softmax": (2, log_softmax),
    "log_softmax_gradient": (3, log_softmax_gradient),
    "log_sum_exp": (2, log_sum_exp),
    "layer_norm": (4, layer_norm),
    "layer_norm_gradient": (6, layer_norm_gradient),
    "standardize_gradient": (3, standardize_gradient),
    "group_norm": (4, group_norm),
    "group_norm_gradient": (6, group_norm_gradient),
    "row_moments": (3, row_moments),
    "channel_sums": (6, channel_sums),
    "column_moments": (3, column_moments),
    "column_sums": (6, column_sums),
    "adam": (5, adam),
    "add_rows": (3, add_rows),
    "gather": (4, gather),
    "scatter": (4, scatter),
    "scatter_add": (4, scatter_add),
    "range_sums": (4, range_sums),
    **EXTREMES,
    **PLANES,
    **SCANS,
}
COLUMNS = 64  # of which a thread has a multiple
_OVER_COLUMNS = {"column_moments", "column_sums"}
_WITH_OWN_LOOP = {"add_rows", "attention_of_one", "range_sums", *PLANES, *SCANS, *_OVER_COLUMNS}


def module(name: str, dtype: str) -> str:
    """Return the LLVM module of a kernel, one of `_KERNELS`."""
    count, body = _KERNELS[name]
    k = RowText(dtype, count)
    if name in _WITH_OWN_LOOP:
        body(k)
    else:
        with k.t.loop("r", "%hi", start="%lo") as r:
            k.first = k.t.times(r, k.integers[0])
            k.row = r
            body(k)
    k.t.do("ret void")
    return k.t.module(KERNEL)


@functools.cache
def _function(name: str, dtype: Any) -> tuple[Function, Callable[..., bytes]]:
    return Function(module(name, dtype.name)), struct.Struct(f"{3 + _KERNELS[name][0]}qd").pack


def run(
    name: str, arrays: Sequence[_Array], number: float, rows: int = 1, first: int | None = None,
    n: int = 0,
) -> None:  # fmt: skip
    """Run a kernel on contiguous arrays of one dtype; the last ones are written.

    Args:
        name: one of `_KERNELS`, whose docstrings say what the arrays and the number are.
        rows, first: of a causal softmax, the rows of a matrix, and how many elements count in its
            first row; all of them unless given. Of layer norm's gradient, the rows a sum is over.
            Of others, as their docstrings say.
        n: elements of a row, those of the first array's last axis unless given.
    """
    leading = arrays[0]
    n, size = n or leading.shape[-1], leading.size
    if name == "adam":
        n, first = min(n, PIECE), n
    function, pack = _function(name, leading.dtype)
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
