"""Positions in order of size, of NumPy arrays.

NumPy sorts whole numbers by vector instructions, but not pairs of a number and its place. So a key
of 64 bits is sorted: the upper half is a number's rank, the lower half its place, by which equal
numbers keep their order.
"""

import math

import numpy as np

from ...arrays.library import Array

FEW = 4096  # elements: NumPy's own stable sort is as fast
RANKED = {"float16", "float32", "bool", "int8", "int16", "int32", "uint8"}
FEW_OF = 8  # times as many elements in a row as are asked for: most need not be sorted
NAN = 0x7FC00000  # the bits of one that is larger than infinity


def order(x: Array, dim: int, descending: bool, count: int | None = None) -> Array:
    """Return the positions along an axis in order of size, all or the first `count`.

    Equal elements keep their order; NaN is larger than any number.
    """
    rows = x.swapaxes(dim, -1)
    size = rows.shape[-1]
    if x.size <= FEW:
        places = _stable(rows, descending)[..., :count]
    elif count and FEW_OF * count <= size:
        matrix = np.ascontiguousarray(rows).reshape(-1, size)
        places = _first(matrix, descending, count).reshape(*rows.shape[:-1], count)
    elif x.dtype.name in RANKED:
        places = _by_keys(_ranks(rows, descending), size if count is None else count)
    else:
        places = _stable(rows, descending)[..., :count]
    return places.swapaxes(dim, -1)


def _stable(rows: Array, descending: bool) -> Array:
    if not descending:
        return rows.argsort(axis=-1, kind="stable")
    backwards = rows[..., ::-1].argsort(axis=-1, kind="stable")
    places: Array = rows.shape[-1] - 1 - backwards[..., ::-1]
    return places


def _ranks(rows: Array, descending: bool) -> Array:
    """Return an int32 for each number of one of the RANKED: the smaller, the sooner it comes."""
    if rows.dtype.kind == "f":
        numbers = np.add(rows, np.float32(0), order="C")  # -0 is 0
        ranks: Array = numbers.view(np.int32)
        is_nan = numbers != numbers
        if is_nan.any():
            ranks[is_nan] = NAN
        ranks ^= (ranks >> 31) & np.int32(0x7FFFFFFF)  # of negative numbers the larger is smaller
    else:
        ranks = np.array(rows, np.int32, order="C")
    if descending:
        np.invert(ranks, out=ranks)
    return ranks


def _by_keys(ranks: Array, count: int) -> Array:
    size = ranks.shape[-1]
    keys = ranks.astype(np.int64)
    keys <<= 32
    keys |= np.arange(size)
    if count < size:
        keys = np.partition(keys, count, axis=-1)[..., :count]
    keys.sort(axis=-1)
    places: Array = keys & 0xFFFFFFFF
    return places


def _first(rows: Array, descending: bool, count: int) -> Array:
    """Return the places of the first `count` of each row of a matrix.

    A row is cut into pieces. `count` of these have an element that is no later than the best one
    of the piece that is number `count` by its best one: what is later is not looked at.
    """
    height, size = rows.shape
    pieces = max(2 * count, math.isqrt(size * count))
    cut = rows[:, : size // pieces * pieces].reshape(height, -1, pieces)
    best, number = (cut.max(1), pieces - count) if descending else (cut.min(1), count - 1)
    edge = np.partition(best, number, axis=-1)[:, number, None]
    is_later = rows < edge if descending else rows > edge  # of NaN both are False
    row, place = np.divmod(np.flatnonzero(~is_later), size)
    by_size = _stable(rows[row, place], descending)
    by_row = by_size[np.argsort(row[by_size], kind="stable")]
    starts = np.searchsorted(row, np.arange(height))
    places: Array = place[by_row[starts[:, None] + np.arange(count)]]
    return places
