"""`assert_close`: for tests of programs, with torch's tolerances."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .arrays import to_numpy
from .tensor import Tensor, tensor

TOLERANCES = {"float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}
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
    tolerance = None if rtol is None else (rtol, atol)
    wrong = _difference(actual, expected, "", tolerance, equal_nan, check_device, check_dtype)
    if wrong:
        text = f"assert_close: {wrong}"
        raise AssertionError(msg(text) if callable(msg) else msg or text)


def _difference(actual: Any, expected: Any, where: str, *options: Any) -> str:
    """Return how the two differ; nothing if they do not."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if set(actual) != set(expected):
            return f"the keys{where} differ: got {list(actual)}, expected {list(expected)}."
        pairs = [(key, actual[key], expected[key]) for key in expected]
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        if len(actual) != len(expected):
            return f"the lengths{where} differ: got {len(actual)}, expected {len(expected)}."
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(actual, expected, strict=True))]
    else:
        return _tensors(actual, expected, where, *options)
    found = (_difference(a, b, f"{where or ' at '}[{key!r}]", *options) for key, a, b in pairs)
    return next(filter(None, found), "")


def _tensors(
    actual: object,
    expected: object,
    where: str,
    tolerance: tuple[float, float] | None,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
) -> str:
    a, b = (v if isinstance(v, Tensor) else tensor(v) for v in (actual, expected))
    wanted = [("shape", True), ("dtype", check_dtype), ("device", check_device)]
    if isinstance(actual, Tensor) != isinstance(expected, Tensor):
        return f"the types{where} differ: got {type(actual).__name__}, not a tensor as the other."
    for name, wants in wanted:
        if wants and getattr(a, name) != getattr(b, name):
            return f"the {name}{where} differs: got {getattr(a, name)}, not {getattr(b, name)}."
    found = [TOLERANCES.get(v.dtype.name, (0.0, 0.0)) for v in (a, b)]
    rtol, atol = tolerance or (max(found)[0], max(found)[1])
    x, y = (np.asarray(to_numpy(v.detach().array), np.float64) for v in (a, b))
    close = np.isclose(x, y, rtol, atol, equal_nan) if rtol or atol else _same(a, b, equal_nan)
    if close.all():
        return ""
    with np.errstate(invalid="ignore"):
        apart = np.where(close, -1.0, np.nan_to_num(abs(x - y), nan=np.inf))
    at = tuple(int(i) for i in np.unravel_index(apart.argmax(), apart.shape))
    return (
        f"{(~close).sum()} of {close.size} elements{where} differ, most at {at}: got {x[at]:.17g}, "
        f"expected {y[at]:.17g} to within {atol:g} + {rtol:g} of it."
    )


def _same(a: Tensor, b: Tensor, equal_nan: bool) -> Any:
    """Tell where elements are equal exactly; integers are not turned into floats for it."""
    x, y = to_numpy(a.detach().array), to_numpy(b.detach().array)
    return (x == y) | ((x != x) & (y != y) if equal_nan else False)


__all__ = ["assert_close"]
