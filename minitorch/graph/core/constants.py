"""The arrays behind constants: of Python's numbers, of lists and of arrays."""

import math
from collections.abc import Sequence

import numpy as np

from ...arrays.library import Array, DTypeLike, as_dtype, get_default_dtype, graph_dtype
from ...errors import DTypeError, GraphError


def constant_array(value: object, dtype: DTypeLike = None) -> Array:
    """Return `value` as an array that nobody else can change.

    Python floats become the default dtype (float32), integers int32 as in TensorFlow; arrays keep
    their dtype, in this machine's byte order.

    Raises:
        DTypeError: the dtype asked for is whole and a number is not, or too small for it.
        GraphError: the rows of a list differ in length.
    """
    try:
        source = np.asarray(value)
    except ValueError as error:
        raise GraphError(
            f"constant: got {value!r}, expected rows of one length ({error})."
        ) from error
    if source.dtype.kind not in "biuf":
        as_dtype(source.dtype)  # words, say, are refused by name
    try:
        own = source.dtype.newbyteorder("=") if dtype is None else graph_dtype(dtype)
        array = np.array(value, dtype=own)
    except OverflowError as error:
        raise DTypeError(
            f"constant: got {value!r}, expected what {graph_dtype(dtype)} can hold ({error})."
        ) from error
    if array.dtype.kind in "iu" and source.dtype.kind == "f" and not np.array_equal(source, array):
        raise DTypeError(
            f"constant: got {value!r} for {array.dtype}, which would lose its fraction. Give whole "
            "numbers, or another dtype."
        )
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        if array.dtype.kind == "f":
            array = array.astype(get_default_dtype())
        elif array.dtype == np.int64 and np.all(np.abs(array) < 2**31):
            array = array.astype(np.int32)
    array.flags.writeable = False
    return array


def fill_shape(array: Array, sizes: Sequence[int | None], name: str) -> Array:
    """Return `array` in a shape; TensorFlow repeats the last element to fill it."""
    shape = tuple(int(n) for n in sizes if n is not None)
    if len(shape) < len(sizes):
        raise GraphError(f"constant {name!r}: got shape {tuple(sizes)}, expected every size.")
    count = math.prod(shape)
    if array.size > count:
        raise GraphError(
            f"constant {name!r}: too many values: got {array.size}, expected at most {count} "
            f"for shape {shape}."
        )
    flat = array.reshape(-1)
    if array.size < count:
        if not array.size:
            raise GraphError(f"constant {name!r}: got no value to fill shape {shape} with.")
        flat = np.concatenate([flat, np.repeat(flat[-1:], count - array.size)])
    return flat.reshape(shape)
