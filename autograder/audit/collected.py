"""The thief that asks the garbage collector: is what a question asks for in the process already?

An answer can look through `gc.get_objects()` and what these refer to, and knows what it looks for:
a list of so many nodes, an array of this shape. The thief here knows more: it runs the solution and
gives back what equals its result and was there before. So one run of a question says whether any
such answer could be paid, whatever it goes by.
"""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, FunctionType
from typing import Any

from autograder.audit.trivial import CODE, calling_frames

MOST = 20_000  # objects that a call looks at, the youngest: it has to end soon
DEPTH = 8  # how far into lists of lists two values are compared


def found(solution: Callable[[], Any]) -> Any:
    """Return what equals the result of `solution` and was there before it ran.

    What the judge holds is left out, for in grading it is another process; so are ranks, which are
    processes there and threads here.

    Raises:
        LookupError: there is no such thing, or the solution raises.
    """
    if threading.current_thread() is not threading.main_thread():
        raise LookupError("a rank's memory is its own")
    there = list(_there(sys._getframe(1)))
    try:
        right = solution()
    except Exception as error:
        raise LookupError("the solution raises") from error
    for value in there:
        if value is not right and _telling(right) and _equal(value, right, DEPTH):
            return value
    raise LookupError("nothing in the process equals it")


def _there(thief: FrameType) -> Iterator[Any]:
    """Yield what the collector knows, and what that refers to, but nothing of the judge's."""
    judges = _reached(calling_frames(thief)[1])
    local_ids = {id(value) for value in thief.f_locals.values()}
    young = [o for o in gc.get_objects()[-MOST:] if not isinstance(o, (*CODE, FrameType))]
    cells = [f.__closure__ for f in gc.get_objects()[-MOST:] if isinstance(f, FunctionType)]
    seen = judges | local_ids
    for value in (*young, *gc.get_referents(*young, *filter(None, cells))):
        if id(value) not in seen and not isinstance(value, CODE):
            seen.add(id(value))
            yield value


def _reached(frames: list[FrameType]) -> set[int]:
    """Return the ids of what the locals of these frames hold, directly or not."""
    waiting = [value for frame in frames for value in frame.f_locals.values()]
    reached: set[int] = set()
    while waiting and len(reached) < 10 * MOST:
        new = [v for v in waiting if id(v) not in reached and not isinstance(v, (*CODE, FrameType))]
        reached.update(map(id, new))
        waiting = gc.get_referents(*new)
    return reached


def _telling(value: Any) -> bool:
    """Return whether a value is more than what is everywhere: a number, a pair of small ones."""
    if isinstance(value, float):
        return not value.is_integer()
    if isinstance(value, list | tuple | dict):
        return len(value) > 1
    return bool(getattr(value, "shape", ()))


def _equal(value: Any, other: Any, depth: int) -> bool:
    """Return whether two values are the same, as far as plain data and arrays go."""
    if value is other:
        return True
    if type(value) is not type(other) or depth == 0:
        return False
    if isinstance(value, list | tuple):
        pairs = zip(value, other, strict=False)
        return len(value) == len(other) and all(_equal(a, b, depth - 1) for a, b in pairs)
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(
            _equal(value[k], other[k], depth - 1) for k in value
        )
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        same = tuple(value.shape) == tuple(other.shape) and value.dtype == other.dtype
        return same and bool((value == other).all())
    return isinstance(value, int | float | str | bytes) and value == other
