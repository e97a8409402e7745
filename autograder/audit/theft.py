"""The thief: is what a question asks for in the process already?

An answer can look through the frames of the probe that calls it, what these hold, the globals that
it shares with the probe, and all that the garbage collector knows; and it knows what it looks for:
a list of so many nodes, an array of this shape. The thief here knows more: it runs the solution and
gives back what equals its result, as it is or reversed, and was there before. So one run of a
question says whether any such answer could be paid, whatever it goes by.
"""

import builtins
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

CODE = (ModuleType, FunctionType, BuiltinFunctionType, type)  # no answer to a question
# What is reversed into its own type, or not at all.
ALIKE = {kind for kind in vars(builtins).values() if isinstance(kind, type)}
ALIKE |= {type(None), CellType, CodeType, FrameType, *CODE}
MOST = 20_000  # objects that a call looks at, the youngest: it has to end soon
DEPTH = 8  # how far into lists of lists two values are compared


def find_copy(solution: Callable[[], Any]) -> Any:
    """Return what equals the result of `solution`, perhaps reversed, and was there before it ran.

    What the judge holds is left out, for in grading it is another process; so are ranks, which are
    processes there and threads here.

    Raises:
        LookupError: there is no such thing, or the solution raises.
    """
    if threading.current_thread() is not threading.main_thread():
        raise LookupError("a rank's memory is its own")
    there, judges = list_reachable(sys._getframe(1))
    try:
        right = solution()
    except Exception as error:
        raise LookupError("the solution raises") from error
    for value in _like(right, there, judges) if _is_specific(right) else ():
        for candidate in (value, _reverse(value)):
            if candidate is not right and _equal(candidate, right, DEPTH):
                return candidate
    raise LookupError("nothing in the process equals it")


def list_reachable(thief: FrameType) -> tuple[list[Any], set[int]]:
    """Return what the probe holds, what the collector knows, and what these refer to.

    And the ids of what is no find: what the judge's frames hold, directly or not, and the thief's.
    """
    probes, judges = _calling_frames(thief)
    newest = gc.get_objects()[-MOST:]
    young = [o for o in newest if not isinstance(o, (*CODE, FrameType))]
    cells = [o.__closure__ for o in newest if type(o) is FunctionType]
    held = [value for frame in probes for value in frame.f_locals.values()]
    parts = gc.get_referents(*[value for value in held if not isinstance(value, CODE)])
    referents = gc.get_referents(*young, *filter(None, cells))
    there = [*held, *parts, *gc.get_referents(*parts), *young, *referents]
    return there, _find_reachable(judges) | {id(value) for value in thief.f_locals.values()}


def _like(right: Any, there: list[Any], ours: set[int]) -> Iterator[Any]:
    """Yield each of `there` that may equal `right`, as it is or reversed, and is not of `ours`."""
    seen, kind = set(ours), type(right)
    for value in there:
        may_equal = type(value) is kind or type(value) not in ALIKE
        if may_equal and id(value) not in seen and not isinstance(value, CODE):
            seen.add(id(value))
            yield value


def _calling_frames(thief: FrameType) -> tuple[list[FrameType], list[FrameType]]:
    """Return the frames that called `thief`, nearest first: up to the probe's, and the judge's.

    The probe is the outermost that has the answer's own globals.
    """
    frames, last, frame = [], 0, thief.f_back
    while frame is not None:
        frames.append(frame)
        last = len(frames) if frame.f_globals is thief.f_globals else last
        frame = frame.f_back
    return frames[:last], frames[last:]


def _find_reachable(frames: list[FrameType]) -> set[int]:
    """Return the ids of what the locals of these frames hold, directly or not."""
    waiting = [value for frame in frames for value in frame.f_locals.values()]
    reached: set[int] = set()
    while waiting and len(reached) < 10 * MOST:
        new = [v for v in waiting if id(v) not in reached and not isinstance(v, (*CODE, FrameType))]
        reached.update(map(id, new))
        waiting = gc.get_referents(*new)
    return reached


def _reverse(value: Any) -> Any:
    try:
        return value[::-1]
    except Exception:  # an object of any class may refuse as it likes
        return None


def _is_specific(value: Any) -> bool:
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
