"""Names of a library without their code: what a lab has its learners write.

A lab lists them once, as `LabSettings(withheld=("ddp_lab.cost:all_reduce_time", "sklearn:"))`.
Where answers are graded they are withheld from the beginning, in the process that all workers are
copies of; in the notebook they are while a check runs. A function keeps its identity and loses its
code, so no other name of it, and no class derived from one, gets around that; one in C loses the
name that the lab lists. A module that is loaded again is withheld again. A package that nobody has
loaded is not loaded for this: its names are withheld when an answer imports it, so that a lab may
name what torch or scikit-learn have at no cost. What ends in the mark, as "sklearn:", is a whole
package, with what it has in C: where nobody has loaded it, nobody can.
Where answers are graded the files of withheld code cannot be read either, and no program be started
that could (`refuse_reading`): a file that is run once more under another name has all of its code.
"""

import contextlib
import gc
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

MARK = ":"  # between module and name; what has none is a module

Note = Callable[[Callable[[], object]], object]
_PROGRAMS = frozenset({"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"})


def withhold(names: Sequence[str], note: Note = lambda undo: None, *, copies: bool = False) -> None:
    """Take their code from these functions, and from all methods of these classes.

    `note` gets what undoes each, and in grading lets it go: nobody there can take the code back.

    A name's module is imported if its package is; names of other packages follow when an answer
    imports them, and must be those of the module that defines what they name.
    """
    if names:
        sys.meta_path.insert(0, _Withholds(names, note))
    _take([n for n in names if _module_of(n).partition(".")[0] in sys.modules], note, copies)


def refuse_reading() -> Note:
    """From now on refuse to read the files of code that is withheld; return what notes this.

    It lasts as long as the process. Traces of errors leave out the lines of such a file.
    """
    files, names = set[str](), set[str]()
    realpath = os.path.realpath

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _PROGRAMS:
            raise PermissionError(f"{event}: got a program to start. Answers here do without one.")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path, mode = os.fsdecode(arguments[0]), arguments[1]
            # `os.open`, which says no mode, may have an open folder that its path begins at.
            beside = mode is None and path[:1] != "/" and path.rpartition("/")[2] in names
            if beside or realpath(path) in files:
                problem = "it holds what this lab has you write"
                raise PermissionError(f"{path}: got a read, but {problem}. Write it out.")

    def note(undo: Callable[[], object]) -> None:
        for code in getattr(undo, "args", ()):
            if isinstance(code, CodeType) and Path(code.co_filename).is_file():
                cached = importlib.util.cache_from_source(code.co_filename)
                files.update(map(realpath, (code.co_filename, cached)))
                names.update(path.rpartition("/")[2] for path in (code.co_filename, cached))

    sys.addaudithook(audit)
    return note


@contextlib.contextmanager
def withheld(names: Sequence[str], *, copies: bool = False) -> Iterator[None]:
    """Withhold these names for as long as this lasts.

    With `copies` also from functions that were made of their code before, which takes a walk over
    all objects: where a check withholds what a lab does not.
    """
    before, taken = list(sys.meta_path), list[Callable[[], object]]()
    withhold(names, taken.append, copies=copies)
    try:
        yield
    finally:
        sys.meta_path[:] = [f for f in sys.meta_path if f in before or type(f) is not _Withholds]
        for undo in reversed(taken):
            undo()


class _Withholds(MetaPathFinder):
    """Takes the code of names whenever the modules are loaded that define them."""

    def __init__(self, names: Sequence[str], note: Note) -> None:
        self.names, self.note = names, note

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return the module's spec, with a loader that takes its names' code in the end."""
        package = fullname.partition(".")[0]
        if package + MARK in self.names and package not in sys.modules:
            what = "what it has ready is what this lab has you write"
            raise ImportError(f"{package}: got an import, but {what}. Do without it.")
        own = [name for name in self.names if _module_of(name) == fullname]
        if not own:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in later)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load = loader.exec_module

            def load_and_take(module: ModuleType) -> None:
                load(module)
                _take(own, self.note)

            if isinstance(loader, type):  # which all modules within the interpreter share
                loads = {"exec_module": staticmethod(load_and_take)}
                loader = type(loader.__name__, (loader,), loads)
                spec.loader = loader
            else:
                vars(loader)["exec_module"] = load_and_take
        return spec


def _module_of(name: str) -> str:
    return name.partition(MARK)[0]


def _take(names: Sequence[str], note: Note, copies: bool = False) -> None:
    """Take the code of these names, and note it; what is not installed is nobody's to use."""
    for name in (name for name in names if not name.endswith(MARK)):
        with contextlib.suppress(ImportError):
            value: Any = importlib.import_module(_module_of(name))
            for part in name.partition(MARK)[2].split("."):
                holder, value = value, getattr(value, part)
            functions = _functions(value)
            if copies:
                sharing = gc.get_referrers(*(function.__code__ for function in functions))
                functions = [*functions, *(f for f in sharing if isinstance(f, FunctionType))]
            for function in dict.fromkeys(functions):
                note(partial(setattr, function, "__code__", function.__code__))
                function.__code__ = _refusal(name.replace(MARK, "."), function)
            if isinstance(value, BuiltinFunctionType):
                note(partial(setattr, holder, part, value))
                setattr(holder, part, _refuse(name.replace(MARK, ".")))


def _functions(value: Any) -> list[FunctionType]:
    """Return a function with what it wraps, or the functions of a class or a table."""
    if isinstance(value, type | dict):
        held = list((value if isinstance(value, dict) else vars(value)).values())
        return [f for each in held if not isinstance(each, type) for f in _functions(each)]
    value = value.fget if isinstance(value, property) else value
    inner = _functions(value.__wrapped__) if hasattr(value, "__wrapped__") else []
    return [value, *inner] if isinstance(value, FunctionType) else inner


def _refusal(name: str, function: FunctionType) -> CodeType:
    """Return code that raises, and fits where this function's was: of its kind and free names."""
    flags = function.__code__.co_flags
    is_async = flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    yields = flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
    code = _refuse(name, "async " * bool(is_async), "    yield" * bool(yields)).__code__
    return code.replace(co_freevars=function.__code__.co_freevars, co_name=function.__name__)


def _refuse(name: str, before: str = "", after: str = "") -> FunctionType:
    """Return a function that raises, with `before` its def and `after` what it would go on with."""
    message = f"{name}: got a call, but what it does is what this lab has you write. Write it out."
    space = dict[str, Any]()
    text = f"{before}def refuse(*args, **kwargs):\n    raise RuntimeError({message!r})\n{after}"
    exec(text, space)
    refuse: FunctionType = space["refuse"]
    return refuse
