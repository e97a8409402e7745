"""Comparison of an answer with what was expected; the tolerance follows from the dtype.

`|got - expected| <= rtol * |expected| + floor * max |expected|`: relative, with a floor for
elements that cancel beside large ones. So a sign flip fails at any magnitude, and a factor of
1.0005 fails in float32 and float64.
"""

from typing import Any

from autograder.errors import Feedback

RTOL = {2: 1e-2, 4: 1e-4, 8: 1e-7}  # by bytes of the less precise of the two floats
FLOOR = 1e-2  # of rtol, for elements that are small beside the largest


def to_number(got: Any) -> float:
    """Return a learner's number as a float; a check can not go on with a text that reads like one.

    Raises:
        TypeError: it is a text, or no number at all.
    """
    if isinstance(got, str | bytes):
        raise TypeError(f"to_number: {got!r} is a text, no number.")
    return float(got)


def close(
    got: Any,
    expected: Any,
    *,
    called: str,
    hint: str = "",
    rtol: float | None = None,
    atol: float | None = None,
    same_dtype: bool = False,
) -> None:
    """Raise `Feedback` unless `got` equals `expected` up to rounding.

    Lists, tuples and dicts are compared item by item, text and None exactly. Integers and bools
    are exact. `rtol` and `atol` replace the tolerance and the floor that the dtype gives.

    Args:
        got: what came from the learner.
        expected: numbers, text, an array, or lists, tuples and dicts of these.
        called: what was called, in the learner's words: "scale(x, 2.0)".
        hint: a direction, shown with the failure.
    """
    if isinstance(expected, dict):
        _same_keys(got, expected, called, hint)
        pairs = [(f"{called}[{key!r}]", got[key], expected[key]) for key in expected]
    elif isinstance(expected, list | tuple):
        _same_length(got, expected, called, hint)
        pairs = [
            (f"{called}[{i}]", g, e) for i, (g, e) in enumerate(zip(got, expected, strict=True))
        ]
    elif expected is None or isinstance(expected, str | bytes):
        if type(got) is not type(expected) or got != expected:
            raise Feedback(f"{called}: got {_show(got)}, expected {_show(expected)}.", hint=hint)
        return
    else:
        _close_arrays(got, expected, called, hint, rtol, atol, same_dtype)
        return
    for where, g, e in pairs:
        close(g, e, called=where, hint=hint, rtol=rtol, atol=atol, same_dtype=same_dtype)


def _same_keys(got: Any, expected: dict[Any, Any], called: str, hint: str) -> None:
    if not isinstance(got, dict) or got.keys() != expected.keys():
        got_keys = sorted(map(repr, got)) if isinstance(got, dict) else _show(got)
        keys = sorted(map(repr, expected))
        raise Feedback(f"{called}: got the keys {got_keys}, expected {keys}.", hint=hint)


def _same_length(got: Any, expected: list[Any] | tuple[Any, ...], called: str, hint: str) -> None:
    arrays = hasattr(got, "shape") and got.shape[:1] == (len(expected),)
    if arrays or (isinstance(got, list | tuple) and len(got) == len(expected)):
        return
    is_list = bool(got) and isinstance(got, list | tuple)
    came = f"{len(got)}: {_show(got)}" if is_list else _show(got)
    problem = f"{called}: got {came}, expected {len(expected)} items."
    raise Feedback(problem, hint=hint)


def _close_arrays(
    got: Any,
    expected: Any,
    called: str,
    hint: str,
    rtol: float | None,
    atol: float | None,
    same_dtype: bool,
) -> None:
    import numpy as np

    right = np.asarray(expected)
    left = _numbers(np, got, right, called, hint)
    if left.shape != right.shape:
        message = f"{called} has shape {left.shape}, expected {right.shape}."
        raise Feedback(message, hint=hint)
    if same_dtype and left.dtype != right.dtype:
        raise Feedback(f"{called} has dtype {left.dtype}, expected {right.dtype}.", hint=hint)
    wrong = ~_is_close(np, left, right, rtol, atol)
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f"{called} at {list(place)}" if place else called
        message = f"{where}: got {_show(left[place])}, expected {_show(right[place])}"
        count = f" ({int(wrong.sum())} of {wrong.size} differ)." if wrong.size > 1 else "."
        raise Feedback(message + count, hint=hint)


def _numbers(np: Any, got: Any, expected: Any, called: str, hint: str) -> Any:
    kind = "numbers" if expected.shape else "a number"
    if isinstance(got, str | bytes | dict) or got is None:
        raise Feedback(f"{called}: got {_show(got)}, expected {kind}.", hint=hint)
    try:
        array = np.asarray(got)
    except ValueError:
        raise Feedback(f"{called}: got rows of unequal length.", hint=hint) from None
    if array.dtype.kind not in "biufc":
        raise Feedback(f"{called}: got {_show(got)}, expected {kind}.", hint=hint)
    return array


def _is_close(np: Any, got: Any, expected: Any, rtol: float | None, atol: float | None) -> Any:
    """Return where the two are close; arrays of one shape and of numbers."""
    exact = got.dtype.kind in "biu" and expected.dtype.kind in "biu"
    if exact and rtol is None and atol is None:
        return np.asarray(got == expected)
    wide = np.result_type(got.dtype, expected.dtype, np.float64)
    left, right = got.astype(wide), expected.astype(wide)
    size = np.abs(right)
    rtol = _rtol(got, expected) if rtol is None else rtol
    if atol is None:
        finite = size[np.isfinite(size)]
        atol = FLOOR * rtol * float(finite.max(initial=0.0))
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(left - right) <= rtol * size + atol
    both_nan = np.isnan(left) & np.isnan(right)
    return (near & np.isfinite(left) & np.isfinite(right)) | both_nan | (left == right)


def _rtol(got: Any, expected: Any) -> float:
    """Return the tolerance of the less precise float; an answer may be as rough as float32."""
    sizes = [8]
    for array, least in ((got, 4), (expected, 2)):
        if array.dtype.kind in "fc":
            item = array.dtype.itemsize // (2 if array.dtype.kind == "c" else 1)
            sizes.append(min(8, max(least, item)))
    return RTOL[min(sizes)]


def _show(value: Any) -> str:
    if hasattr(value, "shape") and value.shape == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return f"{value:.7g}"
    if hasattr(value, "shape"):
        return f"an array of shape {value.shape}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
