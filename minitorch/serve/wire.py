"""What crosses between the front and a container: plain arrays and text, never a pickle.

A batch is a dtype, a shape and bytes. Its results are an array with a row for each query, or a
list of what JSON can hold; and for queries that failed, what was raised.

May import: NumPy, errors.
"""

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from minitorch.errors import DTypeError, ShapeError

KINDS = "biufcU"  # numbers, truth values, text
TEXT_STEP = 16  # texts are padded to a multiple, so that nearly equal lengths share a batch

# the first frame of a container's message; a batch goes out as its two frames alone
HELLO, READY, BROKEN, RESULTS = b"hello", b"ready", b"broken", b"results"

Errors = dict[int, tuple[bool, str]]  # place in the batch: is it the input's fault, what was raised


def as_input(x: object) -> np.ndarray:
    """Return a query's input as a plain array, or refuse what is none."""
    if type(x) is np.ndarray and x.dtype.kind in "biuf":
        return x
    try:
        array = np.asarray(x)
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(f"predict: x is no array: {error}.") from error
    is_text = array.dtype.kind == "U"
    is_mixed = is_text and not all(isinstance(part, str) for part in np.asarray(x, object).flat)
    if array.dtype.kind not in KINDS or is_mixed:
        raise DTypeError(
            f"predict: x cannot be sent: got {type(x).__name__} of dtype {array.dtype}, expected "
            "numbers or text, one dtype for all of it."
        )
    longest = max(array.dtype.itemsize // 4, 1)
    return array.astype(f"<U{-(-longest // TEXT_STEP) * TEXT_STEP}") if is_text else array


def digest_input(x: object) -> tuple[bytes, tuple[str, tuple[int, ...]], bytes]:
    """Return an input's bytes, its dtype and shape, and what stands for it in keys."""
    array = as_input(x)
    data = array.tobytes()
    return data, (array.dtype.str, array.shape), blake2b(data, digest_size=16).digest()


def pack_array(dtype: str, shape: Sequence[int], data: bytes) -> list[bytes]:
    """Return the two frames of an array."""
    return [json.dumps({"dtype": dtype, "shape": list(shape)}).encode(), data]


def unpack_array(header: dict[str, Any], data: bytes) -> np.ndarray:
    """Return the array of two frames, read-only."""
    return np.frombuffer(data, header["dtype"]).reshape(header["shape"])


def pack_results(results: Any, errors: Errors, took_ms: float) -> list[bytes]:
    """Return the two frames of what a batch has given; results are those of no error, in order."""
    header: dict[str, Any] = {"errors": errors, "took_ms": took_ms}
    if not isinstance(results, np.ndarray):
        results = _stack(results)
    if isinstance(results, np.ndarray) and results.dtype.kind in KINDS:
        header |= {"dtype": results.dtype.str, "shape": results.shape}
        data = results.tobytes()
    else:
        data = json.dumps(list(results), default=_plain).encode()
    return [json.dumps(header).encode(), data]


def _stack(results: Sequence[Any]) -> Any:
    """Return one array where all results are arrays or numbers of NumPy alike, else as given."""
    array_types = np.ndarray | np.generic
    alike = {(r.dtype, r.shape) if isinstance(r, array_types) else None for r in results}
    return np.stack(results) if len(alike) == 1 and None not in alike else results


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in KINDS:
        return value.tolist()
    raise TypeError(f"cannot send {type(value).__name__}, expected arrays, numbers or text")


def unpack_results(header_frame: bytes, data: bytes) -> tuple[list[object], Errors, float]:
    """Return the results in order, each with memory of its own, the errors, and the time.

    Arrays are read-only: an answer is shared by all who asked for it, and kept in the cache.
    """
    header = json.loads(header_frame)
    errors = {int(at): (bool(blamed), words) for at, (blamed, words) in header["errors"].items()}
    if "dtype" in header:
        array = unpack_array(header, data)
        results = array.tolist() if array.ndim == 1 else [callers_own(row) for row in array]
    else:
        results = list(json.loads(data))
    return results, errors, float(header["took_ms"])


def callers_own(value: Any) -> Any:
    """Return a value whose change no other caller sees: arrays read-only, lists and dicts anew."""
    if isinstance(value, np.ndarray):
        if not value.flags.writeable and value.base is None:
            return value
        value = value.copy()
        value.flags.writeable = False
        return value
    if isinstance(value, list | tuple):
        parts = [callers_own(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, dict):
        return {key: callers_own(part) for key, part in value.items()}
    return value
