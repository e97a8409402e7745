"""What occurs in a tensor, and how often.

May import: arrays, errors.
"""

from typing import Any

import numpy as np

from ..arrays.library import Array, DType, asarray, float32, float64, int64, to_numpy
from ..arrays.shapes import axis
from ..errors import ArgumentError


def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the distinct elements, or the distinct slices along `dim`, in order.

    Args:
        sorted: as in torch the result is in order in any case.
        return_inverse: also return, for each element, its position in the result.
        return_counts: also return how often each occurs.
        dim: the axis whose slices are compared; None compares single elements.
    """
    along = None if dim is None else axis(dim, input.ndim, "unique")
    distinct, inverse, counts = np.unique(
        to_numpy(input.array), False, True, True, axis=along, equal_nan=False
    )
    inverse = inverse.reshape(input.shape if along is None else input.shape[along])
    wanted = [distinct, *[inverse] * return_inverse, *[counts] * return_counts]
    dtypes = (input.dtype, int64, int64)
    results = tuple(
        input._new(asarray(array, dtype, input.device, copy=False))
        for array, dtype in zip(wanted, dtypes, strict=False)
    )
    return results if len(results) > 1 else results[0]


def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """Return how often each of 0, 1, ... occurs, or the sum of its `weights`.

    Raises:
        ArgumentError: not one axis of integers of 0 or more, or other weights than elements.
    """
    numbers = to_numpy(input.array)
    fits = weights is None or tuple(weights.shape) == input.shape
    if input.ndim != 1 or numbers.dtype.kind not in "iu" or (numbers < 0).any() or not fits:
        raise ArgumentError(
            f"bincount: got {input}, expected one axis of integers, none below 0, and as many "
            "weights, if any."
        )
    parts: Array | None = None
    dtype: DType = int64
    if weights is not None:
        parts = to_numpy(weights.detach().array)
        dtype = weights.dtype if weights.dtype == float32 else float64
    sums = np.bincount(numbers, parts, minlength)
    return input._new(asarray(sums, dtype, input.device))
