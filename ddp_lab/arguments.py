"""What callers pass besides arrays, checked where it comes in: numbers, limits, shapes, names.

May import: errors, NumPy.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ddp_lab.errors import InvalidArgument

LONGEST_S = 1e9  # thirty years; what is longer is cut to this, and fits every clock
WIDEST = 2**63 - 1  # whole numbers cross between ranks in 8 bytes


def whole_number(operation: str, name: str, value: Any) -> int:
    """Return `value` as an int that fits 8 bytes; True and False count as 1 and 0.

    Raises:
        InvalidArgument: it is no whole number, or too large.
    """
    try:
        number = int(value) if isinstance(value, np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None or abs(number) > WIDEST:
        raise InvalidArgument(
            f"{operation}: {name} is no whole number of 8 bytes: got {value!r}, expected an int. "
            "Number the groups, for example by comm.rank // 2."
        ) from None
    return number


def check_count(operation: str, name: str, value: int, least: int = 1) -> None:
    """Raise `InvalidArgument` unless `value` is a whole number of `least` or more."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidArgument(
            f"{operation}: no such number of {name}: got {value!r}, expected {least} or more. "
            "Pass a whole number."
        )


def check_counts(operation: str, least: int = 1, **counts: int) -> None:
    """Raise `InvalidArgument` unless all these are whole numbers of `least` or more."""
    for name, value in counts.items():
        check_count(operation, name, value, least)


def is_cost(*seconds: float) -> bool:
    """Return whether these can be what a message or a byte costs."""
    return all(isinstance(s, float | int | np.number) and 0 <= s < math.inf for s in seconds)


def check_sizes(operation: str, what: str, n_bytes: float, world_size: int, *costs: float) -> None:
    """Raise `InvalidArgument` unless sizes and costs of a link make sense."""
    if not (world_size >= 1 and n_bytes >= 0):  # nan is neither
        raise InvalidArgument(
            f"{operation}: no such {what}: got {n_bytes} bytes on {world_size} ranks, expected at "
            "least 0 bytes and 1 rank."
        )
    if not is_cost(*costs):
        raise InvalidArgument(
            f"{operation}: no such link: got alpha, beta, gamma = {', '.join(map(str, costs))}, "
            "expected seconds a message and seconds a byte, 0 or more."
        )


def check_name(operation: str, kind: str, value: Any, names: Iterable[str]) -> None:
    """Raise `InvalidArgument` unless `value` is one of the names of that kind of thing."""
    expected = list(names)
    if not isinstance(value, str) or value not in expected:
        raise InvalidArgument(
            f"{operation}: unknown {kind}: got {value!r}, expected one of {', '.join(expected)}. "
            "Choose one of these names."
        )


def time_limit(operation: str, timeout_s: Any) -> float:
    """Return a limit in seconds.

    Raises:
        InvalidArgument: it is no number above 0.
    """
    number = isinstance(timeout_s, int | float | np.number) and not isinstance(timeout_s, bool)
    if not number or not timeout_s > 0:  # nan is not, either
        raise InvalidArgument(
            f"{operation}: timeout_s is no time to wait: got {timeout_s!r}, expected seconds, more "
            "than 0. Pass a large number for what may take long."
        )
    return min(timeout_s, LONGEST_S)  # type: ignore[no-any-return]


def wait_limit(operation: str, timeout_s: Any) -> float | None:
    """Return how long one wait may take: None for as long as it needs, 0 for a look.

    Raises:
        InvalidArgument: it is negative, or no number.
    """
    if timeout_s is None or (isinstance(timeout_s, int | float) and timeout_s == 0):
        return timeout_s
    return time_limit(operation, timeout_s)


def shape_of(operation: str, shape: Any) -> tuple[int, ...]:
    """Return the shape that an int or a sequence of ints stands for.

    Raises:
        InvalidArgument: it stands for none.
    """
    sizes = shape if isinstance(shape, Sequence | np.ndarray) else [shape]
    try:
        lengths = tuple(operator.index(n) for n in sizes)
    except TypeError:
        lengths = (-1,)
    if min(lengths, default=0) < 0:
        raise InvalidArgument(
            f"{operation}: no such shape: got {shape!r}, expected an int or a tuple of them, none "
            "below 0. Write for example comm.empty((3, 4))."
        )
    return lengths
