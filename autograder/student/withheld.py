"""Names of a library without their code: what a lab has its learners write.

A lab lists them once, as `LabSettings(withheld=("ddp_lab.cost:all_reduce_time",))`. Where answers
are graded they are withheld from the beginning, in the process that all workers are copies of; in
the notebook they are while a check runs. A function keeps its identity and loses its code, so no
other name of it, and no class derived from one, gets around that. A package that nobody has loaded
is not loaded for this: its names are withheld when an answer imports it, so that a lab may name
what torch or scikit-learn have at no cost.
"""

import contextlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any

MARK = ":"  # between module and name; what has none is a module

Taken = list[tuple[FunctionType, CodeType]]


def withhold(names: Sequence[str]) -> Taken:
    """Take their code from these functions, and from all methods of these classes; return it.

    A name's module is imported if its package is; names of other packages follow when an answer
    imports them, and must be those of the module that defines what they name.
    """
    taken: Taken = []
    loaded = [name for name in names if _module_of(name).partition(".")[0] in sys.modules]
    if late := [name for name in names if name not in loaded]:
        sys.meta_path.insert(0, _Late(late, taken))
    _take(loaded, taken)
    return taken


@contextlib.contextmanager
def withheld(names: Sequence[str]) -> Iterator[None]:
    """Withhold these names for as long as this lasts."""
    before = list(sys.meta_path)
    taken = withhold(names)
    try:
        yield
    finally:
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _Late) or f in before]
        for function, code in reversed(taken):
            function.__code__ = code


class _Late(MetaPathFinder):
    """Takes the code of names when the modules are loaded that define them."""

    def __init__(self, names: Sequence[str], taken: Taken) -> None:
        self.names, self.taken = list(names), taken

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Return the module's spec, with a loader that takes its names' code in the end."""
        own = [name for name in self.names if _module_of(name) == fullname]
        if not own:
            return None
        self.names = [name for name in self.names if name not in own]
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_take(module: ModuleType) -> None:
                load(module)
                _take(own, self.taken)

            vars(spec.loader)["exec_module"] = load_and_take
        return spec


def _module_of(name: str) -> str:
    return name.partition(MARK)[0]


def _take(names: Sequence[str], taken: Taken) -> None:
    """Take the code of these names, and note it; what is not installed is nobody's to use."""
    for name in names:
        with contextlib.suppress(ImportError):
            value: Any = importlib.import_module(_module_of(name))
            for part in name.partition(MARK)[2].split("."):
                value = getattr(value, part)
            for function in _functions(value):
                taken.append((function, function.__code__))
                function.__code__ = _refusal(name.replace(MARK, "."), function)


def _functions(value: Any) -> list[FunctionType]:
    """Return a function with what it wraps, or the functions of a class or a table."""
    if isinstance(value, type | dict):
        held = list((value if isinstance(value, dict) else vars(value)).values())
        return [f for each in held if not isinstance(each, type) for f in _functions(each)]
    inner = _functions(value.__wrapped__) if hasattr(value, "__wrapped__") else []
    return [value, *inner] if isinstance(value, FunctionType) else inner


def _refusal(name: str, function: FunctionType) -> CodeType:
    """Return code that raises, and fits where this function's was: of its kind and free names."""
    message = f"{name}: got a call, but what it does is what this lab has you write. Write it out."
    flags, space = function.__code__.co_flags, dict[str, Any]()
    is_async = flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    yields = flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    body = f"    raise RuntimeError({message!r})\n" + "    yield" * bool(yields)
    exec(f"{'async ' * bool(is_async)}def refuse(*args, **kwargs):\n{body}", space)
    code: CodeType = space["refuse"].__code__
    return code.replace(co_freevars=function.__code__.co_freevars, co_name=function.__name__)
