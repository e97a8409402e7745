"""What a function reaches without being given it: modules, through closures, globals and methods.

A trace is of those modules as they were: their modes, parts, parameters and hooks; and of what the
function found as globals, in lists, dicts and sets, and as attributes of modules and of other
objects. So each place that was looked at is remembered, and a look at all of them, a fraction of a
microsecond each, tells whether a trace is still of the function; NumPy arrays are compared with
what they held. Of an object's attributes those count that the code names, which is reached from
the function by calls: a list of losses beside a step is nothing to the step.
"""

import functools
import os
import random
import sys
import weakref
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from io import IOBase
from types import BuiltinMethodType, CodeType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

from minitorch.arrays.library import get_default_dtype
from minitorch.nn import Module
from minitorch.optim.lr_scheduler import LRScheduler
from minitorch.optim.optimizer import Optimizer
from minitorch.tensor.tensor import Tensor
from minitorch.tracing.code_names import ANY_NAME, find_imports, names_of, read_by
from minitorch.tracing.places import (
    EQUAL,
    as_bytes,
    cell_content,
    describe_key,
    environment,
    group_sizes,
    is_filled_alike,
    is_number,
    item_at,
    of_class,
    put,
    refill_if_traced,
    remove_traced,
    same,
    without_traced,
)
from minitorch.tracing.symbol import Symbol

MOST_ITEMS = 100  # of a list or dict; a longer one is compared as a whole
ARRAY = "an array"
PYTHON = sys.stdlib_module_names
ASKING = ANY_NAME | {"hasattr"}
NUMBERS = (np.ndarray, bytearray, memoryview, array)  # what may change in place
CONTAINERS = (
    list, tuple, dict, deque, UserList, UserDict, ChainMap, MappingProxyType
)  # fmt: skip
STREAMS = (np.random.Generator, np.random.RandomState, random.Random)
INNER = ("fget", "__func__", "func")  # of a property, a class method, a cached property
RATES = {"param_groups", "get_last_lr"}
UNCALLED = {
    "__init__", "__new__", "__post_init__", "__init_subclass__", "__repr__", "__str__", "__del__",
    "__reduce__", "__getstate__", "__setstate__", "__copy__", "__deepcopy__", "__setattr__",
    "__delattr__", "__replace__", "__firstlineno__", "__hash__", "__annotate__",
    "__annotate_func__",
}  # fmt: skip
"""Methods that no sign calls, or that make, show, copy or change an object."""
OWN = frozenset(vars(Module()))  # attributes that every module has
Look = Callable[[Any], object]


class Reach:
    """The modules that a function is, is a method of, closes over, is given or finds as a global.

    Attributes:
        roots: those modules, each once.
        parts: they and every module below.
        streams: generators of random numbers.
        counts: what the function itself sets to other numbers while it is traced.
    """

    def __init__(self, function: object, arguments: Iterable[object] = ()) -> None:
        self.counts: list[str] = []
        self._names, count = {"forward", "__call__"}, 0
        self._read = set[str]()
        while count < len(self._names):  # what is found by a name may name more
            count = len(self._names)
            self._places: list[tuple[Look, Any, object]] = []  # how to look, and what was there
            self._contents: list[tuple[Any, bytes]] = []
            self._spaces: list[tuple[dict[str, object], set[str]]] = []  # of objects, as they were
            self._seen: dict[int, object] = {}
            for value in (function, *arguments):
                self._search(value)
            self._search_modules()
        self.streams = [
            v
            for v in self._seen.values()
            if isinstance(v, STREAMS) and not isinstance(v, random.SystemRandom)
        ]

    def find_unfollowed(self) -> str:
        """Return what the function reads that may be another each time, unseen; "" if nothing."""
        named = [(key, value) for _, key, value in self._places if isinstance(key, str)]
        iterators = [k for k, v in named if isinstance(v, Iterator) and not isinstance(v, IOBase)]
        for name in ("is_grad_enabled", "get_num_threads", "globals"):
            if name in self._names:
                return f"{name}()"
        return f"{iterators[0]!r}, an iterator" if iterators else ""

    def reads_rates(self) -> bool:
        """Tell whether code reads what a scheduler sets."""
        return not RATES.isdisjoint(self._names)

    def modes(self) -> tuple[object, ...]:
        """Return which of the modules are training, and the dtype of floats."""
        return get_default_dtype(), *[part.training for part in self.parts]

    def holds(self) -> bool:
        """Tell whether everything is where it was found."""
        for look, key, value in self._places:
            now = look(key)
            if now is not value and not same(now, value):
                return False
        return all(as_bytes(numbers) == content for numbers, content in self._contents)

    def settle(self, ignored: Collection[str]) -> None:
        """Forget what the function itself changed while it was traced: an effect of tracing.

        But a number that it keeps outside may be another at each call, so the function is to be
        traced again for it, unless it is among `ignored`.
        """
        changed = [place for place in self._places if not same(place[0](place[1]), place[2])]
        logs = self._logs()
        numbers = [p for p in changed if is_number(p[2]) and not isinstance(p[1], dict)]
        numbers = [p for p in numbers if id(p[1]) not in logs and describe_key(p[1]) not in ignored]
        self.counts = [describe_key(key) for _, key, _ in numbers]
        effects = {id(place) for place in changed} - {id(place) for place in numbers}
        self._places = [place for place in self._places if id(place) not in effects]
        arrays = [numbers for numbers, content in self._contents if as_bytes(numbers) != content]
        if arrays and ARRAY in ignored:
            self._contents = [(a, c) for a, c in self._contents if as_bytes(a) == c]
        elif arrays:
            self.counts.append(ARRAY)

    def put_back(self) -> list[str]:
        """Undo that values of the trace are kept where the function reads; return where."""
        names = []
        for look, key, value in self._places:
            if isinstance(look, functools.partial) and look.func is is_filled_alike:
                if id(look.args[0]) not in self._logs():
                    names += refill_if_traced(*look.args)
            elif isinstance(key, dict):
                names += remove_traced(key, value)
            elif isinstance(key, list | deque) and id(key) not in self._logs():
                names += without_traced(key)
            elif isinstance(now := look(key), Symbol) and now is not value:
                names.append(describe_key(key))
                put(look, key, value)
        for space, before in self._spaces:
            for name in self._names & (space.keys() - before):
                if isinstance(space[name], Symbol):
                    names.append(repr(name))
                    del space[name]
        return names

    def _logs(self) -> set[int]:
        """Return the ids of lists that code adds to and does not read: no result needs them."""
        named = [(k, v) for _, k, v in self._places if isinstance(v, list | deque)]
        return {id(value) for key, value in named if isinstance(key, str) and key not in self._read}

    def _search_modules(self) -> None:
        """Remember what the modules have; what is found there may lead to further ones."""
        self.roots: tuple[Module, ...] = ()
        self.parts: tuple[Module, ...] = ()
        while len(roots := [v for v in self._seen.values() if isinstance(v, Module)]) > len(
            self.roots
        ):
            before, self.roots = self.parts, tuple(roots)
            self.parts = tuple(dict.fromkeys(part for root in roots for part in root.modules()))
            for part in self.parts:
                if part not in before:
                    self._look_into_module(part)

    def _look_into_module(self, part: Module) -> None:
        hooks: Any = (part.__dict__["_forward_hooks"], part.__dict__["_forward_pre_hooks"])
        own = part.__dict__
        self._places.append((own.get, "forward", own.get("forward")))
        self._search(own.get("forward"))
        stores = (part._modules, part._parameters, part._buffers, *hooks)
        self._places += [(len, store, len(store)) for store in (part._modules, *hooks)]
        for store in stores:
            self._places += [(store.get, name, value) for name, value in store.items()]
        for value in (*part._parameters.values(), *part._buffers.values()):
            self._search(value)
        self._search_attributes(part, OWN)

    def _search(self, value: object) -> None:
        if value is None or id(value) in self._seen or isinstance(value, EQUAL):
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._look_at_tensor(value)
        elif isinstance(value, NUMBERS):
            self._contents.append((value, as_bytes(value)))
        elif isinstance(value, ModuleType):
            self._search_file(value)
        elif isinstance(value, Optimizer | LRScheduler):
            optimizer: Any = getattr(value, "optimizer", value)
            look = functools.partial(group_sizes, optimizer)
            self._places.append((look, "param_groups", look("")))
            if self.reads_rates():
                for group in optimizer.param_groups:
                    rates = [(k, v) for k, v in group.items() if k != "params"]
                    self._places += [(group.get, k, v) for k, v in rates]
        elif isinstance(value, functools.partial):
            for part in (value.func, *value.args, *value.keywords.values()):
                self._search(part)
        elif value is os.environ:
            self._places.append((environment, "os.environ", environment()))
        elif isinstance(value, CONTAINERS):
            self._look_into(value)
        elif isinstance(value, set):
            self._places.append((frozenset, value, frozenset(value)))
        elif isinstance(value, ContextVar):
            self._look_at(value.get, value.name)
        elif isinstance(value, weakref.ref):
            self._search(value())
        elif isinstance(value, BuiltinMethodType):  # of a list, a dict, a generator of numbers
            self._search(value.__self__)
        elif hasattr(value, "__self__") and hasattr(value, "__func__"):
            self._search(value.__func__)
            self._search(value.__self__)
        elif isinstance(code := getattr(value, "__code__", None), CodeType):
            for part in self._list_reached(value, code):
                self._search(part)
        elif hasattr(value, "__wrapped__"):  # such as another `jit`
            self._search(value.__wrapped__)
        elif isinstance(value, type):
            self._search_class_attributes(value, self._names & self._search_methods(value))
        elif _is_plain(value):
            self._search_attributes(value)
        elif hasattr(kind := type(value), "__slots__") and not (
            _is_of_the_library(kind) or _is_of_python(kind)
        ):
            self._search_class_attributes(value, self._names & self._search_methods(type(value)))

    def _search_file(self, module: ModuleType) -> None:
        """Remember what code names of a module that is a file of the user's, and search it."""
        top, file = module.__name__.partition(".")[0], getattr(module, "__file__", None)
        space = vars(module)
        if module is os and not self._names.isdisjoint({"environ", "getenv"}):
            self._search(os.environ)
        if "-packages" in (file or "") or top in PYTHON or top == "minitorch":
            return
        for name in self._names & space.keys():
            self._look_at(space.get, name)

    def _look_at(self, look: Look, key: str) -> None:
        """Remember what is at a place, and search it."""
        value = look(key)
        if not isinstance(value, ModuleType):
            self._places.append((look, key, value))
        self._search(value)

    def _look_at_tensor(self, value: Tensor) -> None:
        """Search what is called with its gradient, and remember whether it wants one."""
        if value.hooks is not None:
            for hook in (*value.hooks.before.values(), *value.hooks.after.values()):
                self._search(hook)
        if "requires_grad" in self._names:
            self._look_at(functools.partial(getattr, value), "requires_grad")

    def _look_into(self, value: Any) -> None:
        """Remember what a list, tuple or dict has, and search it."""
        pairs = list(value.items() if hasattr(value, "items") else enumerate(value))
        if len(pairs) > MOST_ITEMS:
            before: Any = dict(pairs) if hasattr(value, "items") else [part for _, part in pairs]
            look: Look = functools.partial(is_filled_alike, value, before)
            self._places.append((look, "a dict" if hasattr(value, "items") else value, True))
        else:
            if not isinstance(value, tuple):
                self._places.append((len, value, len(value)))
            look = value.get if hasattr(value, "get") else functools.partial(item_at, value)
            self._places += [(look, key, part) for key, part in pairs]
        for _, part in pairs:
            self._search(part)

    def _search_attributes(self, value: object, others: frozenset[str] = frozenset()) -> None:
        """Remember the attributes that code names, and search them; of the library's all."""
        own, kind = vars(value), type(value)
        self._spaces.append((own, set(own)))
        if not ASKING.isdisjoint(self._names):
            self._places.append((lambda _: len(own), "attributes", len(own)))
        from_class = self._search_methods(kind)
        every = not ANY_NAME.isdisjoint(self._names) or any(
            base is not Module and _is_of_the_library(base) for base in kind.__mro__
        )
        named = {name for name in own if name[0] != "_"} if every else set[str]()
        named |= self._names & (own.keys() | from_class | self._own_methods(kind))
        for name in named - others:
            self._look_at(own.get, name)
        self._search_class_attributes(kind, named & from_class - own.keys())

    def _search_class_attributes(self, kind: Any, names: set[str]) -> None:
        """Remember what a class of the user's has for all its objects, and search it.

        So too of an object with slots, which are attributes of its class.
        """
        for name in () if _is_of_the_library(kind) else names:
            self._look_at(functools.partial(of_class, kind), name)

    def _search_methods(self, kind: type) -> set[str]:
        """Search the methods of a class that code names; return the names of what is no method."""
        others = set()
        for base in kind.__mro__:
            for name, member in () if _is_of_python(base) else list(vars(base).items()):
                method = next((getattr(member, n) for n in INNER if hasattr(member, n)), member)
                if not hasattr(method, "__code__"):
                    others.add(name)
                    if name in self._names:  # whatever it gives for an object
                        self._search(member)
                elif name in self._names or (name[:2] == "__" and name not in UNCALLED):
                    self._search(method)
                    if not _is_of_the_library(base):
                        self._places.append((vars(base).get, name, member))
        return others

    def _own_methods(self, kind: type) -> set[str]:
        """Return the names of methods of the user's: an object may get others of its own."""
        bases = [b for b in kind.__mro__ if not (_is_of_python(b) or _is_of_the_library(b))]
        return {name for base in bases for name in vars(base)}

    def _list_reached(self, function: Any, code: CodeType) -> Iterator[object]:
        """Yield what a Python function closes over, its defaults, and the globals it names."""
        if function is os.getenv:
            yield os.environ
        if _is_of_the_library(function) or _is_of_python(function):
            return
        names = names_of(code)
        self._names |= names
        yield from filter(None, map(sys.modules.get, find_imports(code)))
        self._read |= read_by(code)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            look, value = functools.partial(cell_content, cell), cell_content(cell, name)
            self._places.append((look, name, value))
            yield value
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        if hasattr(function, "__wrapped__"):
            yield function.__wrapped__
        for space, read in ((function.__globals__, names), (vars(function), self._names)):
            for name in read & space.keys():
                if not isinstance(value := space[name], ModuleType):
                    self._places.append((space.get, name, value))
                yield value


def _is_plain(value: object) -> bool:
    """Tell whether `value` is an object of a class of the user's, with attributes of its own."""
    has_attributes = type(getattr(value, "__dict__", None)) is dict
    return (
        has_attributes
        and not isinstance(value, ModuleType | Module)
        and not _is_of_the_library(type(value))
    )


def _is_of_the_library(value: object) -> bool:
    """Tell whether `value` is a function or class of the library's, which needs no search."""
    return str(getattr(value, "__module__", None)).startswith("minitorch")


def _is_of_python(value: object) -> bool:
    """Tell whether `value` is a function or class of Python's own library."""
    return str(getattr(value, "__module__", None)).partition(".")[0] in PYTHON
