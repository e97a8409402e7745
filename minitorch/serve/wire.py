"""What crosses between the front and a container: plain arrays and text, never a pickle.

A batch is a dtype, a shape and bytes. Its results are an array with a row for each query, or a
list of what JSON can hold, or a list of bytes; and for queries that failed, what was raised.

May import: minitorch.errors; NumPy.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from minitorch.errors import DTypeError, ShapeError

KINDS = "biufcU"  # numbers, truth values, text
TEXT_STEP = 16  # texts are padded to a multiple, so that nearly equal lengths share a batch

Errors = dict[int, tuple[str, str]]  # place in the batch: name of the exception, its words


class Kind:
    """The first frame of a message; a batch goes out as its two frames alone."""

    HELLO, READY, BROKEN, RESULTS = b"hello", b"ready", b"broken", b"results"


def as_input(x: Any) -> np.ndarray:
    """Return a query's input as a plain array.

    Raises:
        ShapeError: nested lists of different lengths.
        DTypeError: something that is neither numbers nor text, or both at once.
    """
    if type(x) is np.ndarray and x.dtype.kind in "biuf":
        return x
    try:
        array = np.asarray(x)
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(f"predict: x is no array: {error}.") from error
    if array.dtype.kind not in KINDS or isinstance(x, bytes):
        raise DTypeError(
            f"predict: x cannot be sent: got {type(x).__name__} of dtype {array.dtype}, expected "
            "numbers or text, one dtype for all of it."
        )
    if array.dtype.kind != "U":
        return array
    if not isinstance(x, np.ndarray | str) and not _all_text(x):
        raise DTypeError("predict: x mixes text with other things: expected one or the other.")
    longest = max(array.dtype.itemsize // 4, 1)
    return array.astype(f"<U{-(-longest // TEXT_STEP) * TEXT_STEP}")


def _all_text(x: Any) -> bool:
    return all(isinstance(part, str) for part in np.asarray(x, object).ravel())


def pack_array(dtype: str, shape: Sequence[int], data: bytes) -> list[bytes]:
    """Return the two frames of an array."""
    return [json.dumps({"kind": "array", "dtype": dtype, "shape": list(shape)}).encode(), data]


def unpack_array(header: dict[str, Any], data: bytes) -> np.ndarray:
    """Return the array of two frames, read-only.

    Raises:
        ValueError: the frames do not fit together.
    """
    dtype = np.dtype(header["dtype"])
    if dtype.kind not in KINDS:
        raise ValueError(f"dtype {dtype} is not for the wire")
    return np.frombuffer(data, dtype).reshape(header["shape"])


def pack_results(results: Any, errors: Errors, took_ms: float) -> list[bytes]:
    """Return the two frames of what a batch has given.

    Args:
        results: an array or a list, of the queries that did not fail, in their order.

    Raises:
        DTypeError: there is a result that cannot be sent.
    """
    if isinstance(results, np.ndarray) and results.dtype.kind in KINDS:
        results = np.asarray(results, order="C")
        header: dict[str, Any] = {"kind": "array", "dtype": results.dtype.str}
        header["shape"], data = results.shape, results.tobytes()
    elif results and all(isinstance(result, bytes) for result in results):
        header, data = {"kind": "bytes", "sizes": [*map(len, results)]}, b"".join(results)
    else:
        try:
            data = json.dumps(list(results), default=_plain).encode()
        except (TypeError, ValueError) as error:
            raise DTypeError(f"the results cannot be sent: {error}") from error
        header = {"kind": "json"}
    header["errors"] = {str(at): list(words) for at, words in errors.items()}
    header["took_ms"] = took_ms
    return [json.dumps(header).encode(), data]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in KINDS:
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}, expected arrays, numbers, text or bytes")


def unpack_results(header_frame: bytes, data: bytes) -> tuple[list[Any], Errors, float]:
    """Return the results in order, each with memory of its own, the errors, and the time.

    Raises:
        ValueError, KeyError, TypeError: the frames do not fit together.
    """
    header = json.loads(header_frame)
    errors = {int(at): (words[0], words[1]) for at, words in header["errors"].items()}
    if header["kind"] == "json":
        results = list(json.loads(data))
    elif header["kind"] == "bytes":
        ends = np.cumsum([0, *header["sizes"]]).tolist()
        results = [data[a:b] for a, b in pairwise(ends)]
    else:
        array = unpack_array(header, data)
        results = array.tolist() if array.ndim == 1 else [row.copy() for row in array]
    return results, errors, float(header["took_ms"])
