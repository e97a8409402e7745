"""Which partial sum a message carried: found from its values and the ranks' inputs.

Pure functions over NumPy arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_RANKS = 8  # 2**8 subsets are searched for each message
MAX_ELEMENTS = 64
TOLERANCE = {2: 1e-2, 4: 1e-4, 8: 1e-9}  # by bytes of a number: sums differ by their order


@dataclass(frozen=True)
class PartialSum:
    """Elements `lo` to `hi` (exclusive) summed over `ranks`; no ranks: it is no partial sum."""

    lo: int
    hi: int
    ranks: frozenset[int]

    def words(self) -> str:
        """Return what it is, as the object of a sentence."""
        if not self.ranks:
            return "something that is no partial sum of the inputs"
        last = self.hi - 1
        what = f"element {self.lo}" if last == self.lo else f"elements {self.lo} to {last}"
        names = [str(rank) for rank in sorted(self.ranks)]
        if len(names) == 1:
            return f"{what} of rank {names[0]}"
        return f"{what} summed over ranks {', '.join(names[:-1])} and {names[-1]}"


NO_PARTIAL_SUM = PartialSum(0, 0, frozenset())


def subset_sums(inputs: Sequence[NDArray[Any]] | None) -> NDArray[Any] | None:
    """Return the sum over every subset of ranks, shape (2**n, elements); the row is a bit mask.

    None where there are no inputs, or more than can be searched.
    """
    if inputs is None or len(inputs) > MAX_RANKS:
        return None
    flat = np.stack([np.asarray(x, dtype=np.float64).reshape(-1) for x in inputs])
    if flat.shape[1] > MAX_ELEMENTS:
        return None
    masks = np.arange(2 ** len(flat))[:, None] >> np.arange(len(flat)) & 1
    return np.asarray(masks @ flat)


def explain(values: Any, sums: NDArray[Any] | None) -> PartialSum | None:
    """Return the partial sum that `values` are; None where there is nothing to tell it by.

    Where several fit, the nearest; then the one over the lowest ranks and of the lowest elements.
    """
    if values is None or sums is None:
        return None
    tolerance = TOLERANCE.get(np.asarray(values).itemsize, 0.0)
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if not 0 < flat.size <= sums.shape[1]:
        return NO_PARTIAL_SUM
    windows = np.lib.stride_tricks.sliding_window_view(sums, flat.size, axis=1)
    # Relative, without a floor: the smallest input may be 10**-7 of the largest.
    scale = np.maximum(np.abs(flat), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):  # beside a zero all else is infinitely far away
        error = (np.abs(windows - flat) / scale).max(axis=2)
    error[0] = np.inf  # the empty subset
    mask, lo = (int(i) for i in np.unravel_index(np.argmin(error), error.shape))
    if error[mask, lo] > tolerance:
        return NO_PARTIAL_SUM
    ranks = frozenset(rank for rank in range(mask.bit_length()) if mask >> rank & 1)
    return PartialSum(lo, lo + flat.size, ranks)
