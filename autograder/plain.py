"""Plain data: the only values that pass between the judge and the learner's code.

None, bool, int, float, complex, str, bytes, list, tuple, dict, and NumPy arrays and scalars of
number dtypes. Ranges, deques and views of dicts, which have an order, become lists, and so do
arrays of text; fractions become floats. `to_plain` copies a value into exactly these types, on the
learner's side; the judge never runs it on anything but its own values. NumPy is looked up, never
imported: where no one has imported it there are no arrays.
"""

import sys
from collections import deque
from collections.abc import Callable
from numbers import Rational
from typing import Any

from autograder.errors import NotAttempted, NotPlainData

MAX_DEPTH = 32  # deeper than any answer, shallower than the interpreter's stack
MAX_ITEMS = 1_000_000
MAX_INT_BITS = 8_191  # what the wire takes, and what the interpreter writes out
SCALARS = (bool, int, float, complex, str, bytes)
EMPTY: dict[str, object] = {}
LISTED = (range, deque, *map(type, (EMPTY.keys(), EMPTY.values(), EMPTY.items())))
KEYS = (type(None), bool, int, float, str, bytes)
ARRAY_KINDS = "biufc"  # bool, int, unsigned, float, complex


def to_plain(value: Any, where: str = "value") -> Any:
    """Return a copy of `value` in plain types.

    Subclasses become their plain bases, torch and minitorch tensors become NumPy arrays
    (`detach`, `cpu`, `numpy`, as far as they have them).

    Raises:
        NotAttempted: it is `...`, or holds it: the starter's placeholder.
        NotPlainData: it is of another type, too deep, or too large; `where` says at which place.
    """
    budget = [MAX_ITEMS]
    return _plain(value, where, 0, budget)


def _plain(value: Any, where: str, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        limit = f"{MAX_DEPTH} levels" if depth > MAX_DEPTH else f"{MAX_ITEMS} items"
        raise NotPlainData(f"{where}: more than {limit}. Return something smaller.")
    if isinstance(value, int) and int.bit_length(value) > MAX_INT_BITS:
        problem = f"{where} is an int of {int.bit_length(value)} bits"
        raise NotPlainData(f"{problem}, expected at most {MAX_INT_BITS}.")
    if value is None or type(value) in SCALARS:
        return value
    if value is ...:
        raise NotAttempted(f"{where} is still `...`.")
    if isinstance(value, list | tuple) or type(value) in LISTED:
        base = tuple if isinstance(value, tuple) else list
        items = iter(value) if type(value) in LISTED else base.__iter__(value)
        return base(_plain(v, f"{where}[{i}]", depth + 1, budget) for i, v in enumerate(items))
    if isinstance(value, dict):
        pairs = dict.items(value)
        return {_key(k, where): _plain(v, f"{where}[{k!r}]", depth + 1, budget) for k, v in pairs}
    if getattr(getattr(value, "dtype", None), "kind", "") == "U" and not isinstance(value, str):
        return _plain(value.tolist(), where, depth + 1, budget)
    return _leaf(value, where)


def _key(key: Any, where: str) -> Any:
    if type(key) in KEYS:
        return key
    for base in (str, int, float, bytes):
        if isinstance(key, base):
            return base(key)  # type: ignore[arg-type]
    if isinstance(key, tuple):
        return tuple(_key(part, where) for part in key)
    raise NotPlainData(f"{where} has a key of type {type(key).__name__}, expected str or int.")


def _leaf(value: Any, where: str) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is not None and not isinstance(value, str | bytes):
        array = value if isinstance(value, numpy.ndarray | numpy.generic) else _as_array(value)
        if array is not None:
            return _array(numpy, array, where)
    for base in SCALARS:
        if isinstance(value, base):
            return base(value)  # type: ignore[arg-type]
    if isinstance(value, Rational):
        return float(value)
    name = type(value).__name__
    raise NotPlainData(
        f"{where} is of type {name}, expected numbers, text, lists, dicts or arrays."
    )


def _as_array(value: Any) -> Any:
    """Return what `value.detach().cpu().numpy()` gives, each step where there is one, or None."""
    for step in ("detach", "cpu", "numpy"):
        method: Callable[[], Any] | None = getattr(value, step, None)
        if method is None and step == "numpy":
            return None
        value = method() if callable(method) else value
    numpy = sys.modules["numpy"]
    return value if isinstance(value, numpy.ndarray | numpy.generic) else None


def _array(numpy: Any, array: Any, where: str) -> Any:
    if array.dtype.kind not in ARRAY_KINDS:
        none = " It holds None." if array.dtype == object and None in array.reshape(-1) else ""
        raise NotPlainData(f"{where} is an array of dtype {array.dtype}, expected numbers.{none}")
    kind, n_bytes = array.dtype.kind, array.dtype.itemsize
    if n_bytes > (widest := {"f": 8, "c": 16}.get(kind, n_bytes)):  # long double does not travel
        array = array.astype(f"{kind}{widest}")
    if isinstance(array, numpy.generic):
        return array
    return numpy.array(array, dtype=array.dtype, copy=True, order="C", subok=False)
