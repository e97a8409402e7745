"""What a function reaches without being given it: modules, through closures, globals and methods.

A trace is of those modules as they were: their modes, parts, parameters and hooks; and of the
tensors, arrays and Python numbers that the function found as globals, in lists and dicts, and as
attributes of modules and of other objects. So each place that was looked at is remembered, and a
look at all of them, a fraction of a microsecond each, tells whether a trace is still of the
function; NumPy arrays are compared with what they held.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from minitorch.nn import Module
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.tensor import Tensor

STEPPING = (Optimizer, LRScheduler)
NUMBERS = (bool, int, float, str)
TRACKED = (Tensor, np.ndarray, *NUMBERS)
MOST_ITEMS = 100  # of a list or dict; a longer one is data, and searched for modules only
Look = Callable[[Any], object]


class Reach:
    """The modules that a function is, is a method of, closes over or finds as a global.

    Attributes:
        roots: those modules, each once.
        parts: they and every module below.
    """

    def __init__(self, function: object) -> None:
        self._places: list[tuple[Look, Any, object]] = []  # how to look there, and what was there
        self._contents: list[tuple[np.ndarray[Any, Any], bytes]] = []
        self._seen: list[object] = []
        self._search(function)
        self.roots = tuple(value for value in self._seen if isinstance(value, Module))
        self.parts = tuple(dict.fromkeys(part for root in self.roots for part in root.modules()))
        for part in self.parts:
            hooks: Any = (part.__dict__["_forward_hooks"], part.__dict__["_forward_pre_hooks"])
            self._places += [(len, store, len(store)) for store in hooks]
            for store in (part._modules, part._parameters, part._buffers, *hooks):
                self._places += [(store.get, name, value) for name, value in store.items()]
            self._attributes(part)

    def modes(self) -> tuple[bool, ...]:
        """Return which of the modules are training."""
        return tuple([part.training for part in self.parts])

    def holds(self) -> bool:
        """Tell whether everything is where it was found."""
        for look, key, value in self._places:
            now = look(key)
            if now is not value and not _same(now, value):
                return False
        return all(array.tobytes() == content for array, content in self._contents)

    def settle(self) -> None:
        """Forget what the function itself changed while it was traced: an effect of tracing."""
        self._places = [place for place in self._places if _same(place[0](place[1]), place[2])]
        self._contents = [(a, content) for a, content in self._contents if a.tobytes() == content]

    def _search(self, value: object) -> None:
        if any(value is seen for seen in self._seen):
            return
        self._seen.append(value)
        if isinstance(value, np.ndarray):
            self._contents.append((value, value.tobytes()))
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._search(part)
        elif isinstance(value, list | tuple | dict):
            self._look_into(value)
        elif hasattr(value, "__self__") and hasattr(value, "__func__"):
            own = getattr(value.__self__, "__dict__", {})
            modules = [
                (n, part) for n, part in own.items() if isinstance(part, (*STEPPING, Module))
            ]
            self._places += [(own.get, name, part) for name, part in modules]
            for part in (value.__self__, value.__func__, *own.values()):
                self._search(part)
        elif isinstance(code := getattr(value, "__code__", None), CodeType):
            for part in self._used(value, code):
                self._search(part)
        elif _is_plain(value):
            self._attributes(value)
            for part in vars(value).values():
                if isinstance(part, Module | list | tuple | dict):
                    self._search(part)

    def _look_into(self, value: Any) -> None:
        """Remember what a list, tuple or dict has, and search it."""
        pairs = list(value.items() if isinstance(value, dict) else enumerate(value))
        if len(pairs) > MOST_ITEMS:
            pairs = [(key, part) for key, part in pairs if isinstance(part, Module)]
        look = value.get if isinstance(value, dict) else functools.partial(_item, value)
        self._places += [(look, key, part) for key, part in pairs if isinstance(part, TRACKED)]
        for _, part in pairs:
            self._search(part)

    def _attributes(self, value: object) -> None:
        """Remember the tensors, arrays and numbers that an object has as attributes."""
        own = vars(value)
        for name, part in own.items():
            if isinstance(part, np.ndarray):
                self._search(part)
            if isinstance(part, TRACKED) and name != "training" and name[0] != "_":
                self._places.append((own.get, name, part))

    def _used(self, function: Any, code: CodeType) -> Iterator[object]:
        """Yield what a Python function closes over, its defaults, and the globals it names."""
        for cell in function.__closure__ or ():
            self._places.append((_content, cell, _content(cell)))
            yield _content(cell)
        yield from function.__defaults__ or ()
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        space = function.__globals__
        for name in _names(code):
            value = space.get(name)
            known = isinstance(value, (*STEPPING, Module, list, dict, *TRACKED)) or _is_plain(value)
            if known or _is_of_the_user(value):
                self._places.append((space.get, name, value))
                yield value


def _content(cell: Any) -> object:
    """Return what a closure's cell holds; None for a name that has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _item(space: Any, key: int) -> object:
    """Return what is at a place of a list; None if there is no such place any more."""
    return space[key] if key < len(space) else None


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, NUMBERS) and a == b)


def _is_plain(value: object) -> bool:
    """Tell whether `value` is an object of a class of the user's, with attributes of its own."""
    module = type(value).__module__
    return (
        type(getattr(value, "__dict__", None)) is dict
        and not isinstance(value, type | ModuleType | Tensor | Module)
        and not hasattr(value, "__code__")
        and not module.startswith("minitorch")
    )


def _is_of_the_user(value: object) -> bool:
    """Tell whether `value` is a function, and not the library's, which needs no search."""
    module = getattr(value, "__module__", None)
    return hasattr(value, "__code__") and not str(module).startswith("minitorch")


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
