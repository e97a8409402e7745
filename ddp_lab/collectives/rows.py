"""An array as pieces, one a rank: views, never copies, and never NumPy's scalars."""

from typing import TypeAlias

import numpy as np

from ddp_lab.transport.base import NDArray

Rows: TypeAlias = NDArray | list[NDArray]  # a row a rank, of one array or apart


def rows_of(x: Rows) -> list[NDArray]:
    """Return `x[0], x[1], ...` as arrays, of no dimension where `x` has one."""
    return x if isinstance(x, list) else [x[i, ...] for i in range(len(x))]


def split_evenly(flat: NDArray, parts: int) -> list[NDArray]:
    """Return `parts` views that cover `flat`, their sizes differing by at most one."""
    n = flat.size
    return [flat[i * n // parts : (i + 1) * n // parts] for i in range(parts)]


def copy_into(x: NDArray, out: NDArray | None) -> NDArray:
    """Return `out`, or a new array, with the values of `x`."""
    if out is None:
        return x.copy()
    if out is not x:
        np.copyto(out, x)
    return out


def same_place(a: NDArray, b: NDArray) -> bool:
    """Return whether two arrays of one shape and dtype are the same memory."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return False
    return a.ctypes.data == b.ctypes.data
