"""Arguments and results as lists of tensors, and the way back: nested lists, tuples and dicts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.nn import Module
from minitorch.tensor import Tensor, as_tensor

Rebuild = Callable[[Iterator[Any]], Any]


def flatten(value: Any, tensors: list[Tensor], operation: str) -> tuple[Hashable, Rebuild]:
    """Add the tensors in `value` to `tensors`; return what else it holds, and how to rebuild it.

    Raises:
        ArgumentError: it holds something that neither is a tensor nor can be compared.
    """
    if isinstance(value, np.ndarray | np.generic):
        value = as_tensor(value)
    if isinstance(value, Tensor):
        tensors.append(value)
        return Tensor, next
    if isinstance(value, dict):
        parts = [flatten(item, tensors, operation) for item in value.values()]
        names = tuple(value)
        key = (dict, names, tuple(part[0] for part in parts))
        return key, lambda take: {n: p[1](take) for n, p in zip(names, parts, strict=True)}
    if isinstance(value, list | tuple):
        parts = [flatten(item, tensors, operation) for item in value]
        kind = type(value)
        make = kind._make if hasattr(kind, "_make") else kind
        return (kind, tuple(p[0] for p in parts)), lambda take: make([p[1](take) for p in parts])
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"{operation}: got an argument of type {type(value).__name__}, expected tensors, "
            "hashable values, or lists, tuples and dicts of them."
        ) from None
    return (type(value), value), lambda take: value


def modules_of(function: Any) -> list[Module]:
    """Return the modules that a function is, is a method of, closes over or finds as a global."""
    found: dict[Module, None] = {}
    _search(function, found, set())
    return list(found)


def _search(value: Any, found: dict[Module, None], seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Module):
        found[value] = None
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            _search(part, found, seen)
    elif isinstance(value, list | tuple):
        for part in value:
            _search(part, found, seen)
    elif hasattr(value, "__self__") and hasattr(value, "__func__"):
        owner = value.__self__
        for part in (owner, value.__func__, *getattr(owner, "__dict__", {}).values()):
            _search(part, found, seen)
    elif isinstance(code := getattr(value, "__code__", None), CodeType):
        for part in _reached(value, code):
            _search(part, found, seen)


def _reached(function: Any, code: CodeType) -> Iterator[Any]:
    """Yield what a Python function closes over, its defaults, and the globals that it names."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
    yield from function.__defaults__ or ()
    if hasattr(function, "__wrapped__"):
        yield function.__wrapped__
    for name in _names(code):
        found = function.__globals__.get(name)
        if isinstance(found, Module) or _is_plain_function(found):
            yield found


def _is_plain_function(value: Any) -> bool:
    """Tell whether `value` is a function of the user's: the library's need no search."""
    module = getattr(value, "__module__", None)
    return hasattr(value, "__code__") and not str(module).startswith("minitorch")


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
