"""`assert_close`: for tests of programs, with torch's tolerances."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from minitorch.arrays.library import to_numpy
from minitorch.tensor.tensor import Tensor, tensor

TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
}
"""Torch's (relative, absolute) tolerance of a dtype; others are compared exactly."""


def assert_close(
    actual: object,
    expected: object,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless `actual` is `expected` to within atol + rtol |expected|.

    Args:
        actual, expected: tensors, arrays or numbers, or lists, tuples and dicts of them.
        rtol, atol: both or neither; by the dtype unless given.
        equal_nan: NaN is close to NaN.
        check_device, check_dtype: whether these must be the same.
        msg: what to say instead, or a function of what would be said.
    Raises:
        AssertionError: says where they differ most.
        ValueError: only one tolerance is given.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: got one of rtol and atol, expected both or neither.")
    same = ["shape", *["device"] * check_device, *["dtype"] * check_dtype]
    try:
        _compare(actual, expected, "", same, (rtol, atol), equal_nan)
    except AssertionError as error:
        text = f"assert_close: {error}"
        raise AssertionError(msg(text) if callable(msg) else msg or text) from None


def _compare(actual: Any, expected: Any, where: str, same: list[str], *options: Any) -> None:
    """Raise unless the two have the same keys or facts, and are close."""
    for kind, keys in ((Mapping, set), (list | tuple, lambda items: set(range(len(items))))):
        if isinstance(actual, kind) and isinstance(expected, kind):
            if keys(actual) != keys(expected):
                raise AssertionError(f"{where}: got keys {keys(actual)}, not {keys(expected)}.")
            for key in keys(expected):
                _compare(actual[key], expected[key], f"{where}[{key!r}]", same, *options)
            return
    if isinstance(actual, Tensor) != isinstance(expected, Tensor):
        raise AssertionError(f"{where}: got {actual!r} for {expected!r}: only one is a tensor.")
    a, b = (v if isinstance(v, Tensor) else tensor(v) for v in (actual, expected))
    for fact in same:
        if getattr(a, fact) != getattr(b, fact):
            raise AssertionError(f"{where}: got {fact} {getattr(a, fact)}, not {getattr(b, fact)}.")
    _compare_numbers(a, b, where, *options)


def _compare_numbers(
    a: Tensor, b: Tensor, where: str, tolerance: tuple[float, float], equal_nan: bool
) -> None:
    x, y = (to_numpy(v.detach().array) for v in (a, b))
    if None in tolerance:
        tolerance = max(TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (a, b))
    if any(tolerance) or "f" in (a.dtype.kind, b.dtype.kind):
        rtol, atol = tolerance
        np.testing.assert_allclose(
            np.asarray(x, np.float64), np.asarray(y, np.float64), rtol, atol, equal_nan, where
        )
    else:  # whole numbers are not turned into floats
        np.testing.assert_array_equal(x, y, where)


__all__ = ["assert_close"]
