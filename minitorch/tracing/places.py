"""Places where a traced function finds what it was not given: what is there, and is it the same?

A place is a way to look, `look(key)`, and what was there: the `get` of a dict or a context, an item
of a list, the content of a closure's cell, an attribute of a class.

May import: symbol.
"""

import functools
import operator
import os
from collections import deque
from contextvars import ContextVar
from types import CellType
from typing import Any

from minitorch.tracing.symbol import Symbol

EQUAL = (bool, int, float, str, frozenset, slice, range)  # what may be another object, if equal


def of_class(kind: type, name: str) -> object:
    """Return what a class has for all its objects, or None."""
    try:
        return getattr(kind, name, None)
    except Exception:  # of a descriptor that wants an object
        return None


def cell_content(cell: CellType, name: str) -> object:
    """Return what a closure's cell holds; None where `name` has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def item_at(space: Any, key: int) -> object:
    """Return what is at a place of a list; None if there is no such place any more."""
    return space[key] if key < len(space) else None


def is_filled_alike(container: Any, before: Any, _: object = None) -> bool:
    """Tell whether a list or dict has the very objects that its copy has."""
    now = container.values() if isinstance(before, dict) else container
    then = before.values() if isinstance(before, dict) else before
    return len(now) == len(then) and all(map(operator.is_, now, then))


def refill_if_traced(container: Any, before: Any) -> list[str]:
    """Give a list or dict what it had if it has values of a trace; return what to call it."""
    if is_filled_alike(container, before) or not _has_traced(container):
        return []
    container.clear()
    container.update(before) if isinstance(container, dict) else container.extend(before)
    return [describe_key("a dict" if isinstance(container, dict) else container)]


def group_sizes(optimizer: Any, _: object) -> str:
    """Return how many parameters each group of an optimizer has."""
    return str([len(group["params"]) for group in optimizer.param_groups])


def environment(_: object = None) -> frozenset[tuple[str, str]]:
    """Return the environment's variables."""
    return frozenset(os.environ.items())


def as_bytes(numbers: Any) -> bytes:
    """Return what an array, a bytearray or the like holds."""
    return bytes(numbers) if isinstance(numbers, bytearray) else numbers.tobytes()


def describe_key(key: object) -> str:
    """Return what to call a place."""
    return repr(key) if isinstance(key, str) else "a list"


def put(look: Any, key: Any, value: object) -> None:
    """Put `value` where `look(key)` finds it."""
    space = look.args[0] if isinstance(look, functools.partial) else look.__self__
    if isinstance(space, CellType):
        space.cell_contents = value
    elif isinstance(space, ContextVar):
        space.set(value)
    elif isinstance(space, type):
        setattr(space, key, value)
    else:
        space[key] = value


def remove_traced(items: dict[Any, object], count: Any) -> list[str]:
    """Take values of a trace out of what came to a dict of `count`; return under which keys."""
    traced = [key for key in list(items)[count:] if isinstance(items[key], Symbol)]
    for key in traced:
        del items[key]
    return [repr(key) for key in traced]


def without_traced(items: list[object] | deque[object]) -> list[str]:
    """Take values of a trace out of a list; return what to call it if there were any."""
    others = [item for item in items if not _has_traced(item)]
    if len(others) == len(items):
        return []
    items.clear()
    items.extend(others)
    return [describe_key(items)]


def _has_traced(item: object) -> bool:
    parts = item.values() if isinstance(item, dict) else item
    if isinstance(parts, list | tuple | type({}.values())):
        return any(map(_has_traced, parts))
    return isinstance(item, Symbol)


def is_number(value: object) -> bool:
    """Tell whether a value is one that a function may count up."""
    return isinstance(value, bool | int | float | str)


def same(a: object, b: object) -> bool:
    """Tell whether what is at a place now is what was there."""
    if type(a) is float and type(b) is float:  # 0.0 is not -0.0, but NaN is NaN
        return a.hex() == b.hex()
    return a is b or (type(a) is type(b) and isinstance(a, EQUAL) and a == b)
