"""LocalStudent: the learner's namespace in this very process, for the notebook and for audits.

It raises what the sandboxed student raises, so that a check behaves the same in both.
"""

import __future__

import ast
import builtins
import contextlib
import inspect
import linecache
import math
import os
import re
import reprlib
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from types import CodeType, FrameType, FunctionType
from typing import Any

from autograder.errors import AutograderError, NotAttempted, NotPlainData, StudentError
from autograder.plain import to_plain
from autograder.records import Failure, RanksRun, Statement
from autograder.student.local_ranks import run_ranks
from autograder.student.protocol import (
    COMMUNICATOR,
    cause_of,
    load_each,
    missing,
    rank_arguments,
    ship,
)
from autograder.student.withheld import withheld

_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # notebooks may await at the top level
SHOWN_ELEMENTS = 6  # of an array in a message: more of them say less than the shape
SHOWN_CHARACTERS = 80  # of one argument
_PROBE = "<probe "  # begins the file names of probes
_FUTURE = __future__.annotations.compiler_flag  # the only one that still changes anything


class LocalStudent:
    """A student over a dict of names, such as IPython's `user_ns`.

    `sources` gives the text of definitions that were not loaded through `load`, if known.
    `withheld` names what the learner's code has to do without while a check runs it.
    """

    kind = "unsandboxed"
    notes: Sequence[str] = ()

    def __init__(
        self,
        namespace: MutableMapping[str, Any] | None = None,
        *,
        sources: Callable[[str], str | None] = lambda name: None,
        withheld: Sequence[str] = (),
    ) -> None:
        self._withheld = withheld
        self.namespace = notebook_names() if namespace is None else namespace
        self._sources = sources
        self._texts: dict[str, str] = {}
        self._failures: dict[str, Failure] = {}
        self._future = 0  # flags of `from __future__ import ...`, which hold from there on

    def load(self, statements: Sequence[Statement]) -> list[Failure]:
        """Run each statement in the namespace; return those that failed. See `WorkerStudent`."""
        return load_each(statements, self.execute, self._texts, self._failures)

    def compile(self, statement: Statement) -> CodeType:
        """Return the code of a statement that follows those compiled before it."""
        flags = _AWAIT | self._future
        code: CodeType = compile(statement.text, _file(statement), "exec", flags, dont_inherit=True)
        self._future |= code.co_flags & _FUTURE
        return code

    def execute(self, statement: Statement, code: CodeType | None = None) -> Failure | None:
        """Run a statement, or its `code` where that is at hand; return how it failed, or None."""
        lines = statement.text.splitlines(keepends=True)
        linecache.cache[_file(statement)] = (len(statement.text), None, lines, _file(statement))
        try:
            code = code or self.compile(statement)
            if code.co_flags & inspect.CO_COROUTINE:
                import_module("asyncio").run(FunctionType(code, self._globals())())
            else:
                exec(code, self._globals())
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return Failure(statement, type(error).__name__, _message(error), _trace(error))
        return None

    def allow(self, wall_s: float) -> None:
        """Do nothing: in the learner's own notebook there is no clock but the learner's."""

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the learner's function returns. See `Student.call`."""
        function = self._find(name)
        args, kwargs = to_plain(args, "arguments"), to_plain(kwargs, "arguments")
        with self._learners_code():
            return to_plain(_await_result(function(*args, **kwargs)), f"{name}(...)")

    def value(self, name: str, /) -> Any:
        """Return the learner's variable as plain data. See `Student.value`."""
        value = self._find(name)
        with self._learners_code():
            return to_plain(value, name)

    def probe(self, function: Callable[..., Any], /, **inputs: Any) -> Any:
        """Run `function` with the learner's names as its globals. See `Student.probe`."""
        there = self._ship(function)
        inputs = to_plain(inputs, "inputs")
        with self._learners_code():
            return to_plain(_await_result(there(**inputs)), "the answer")

    def ranks(
        self,
        function: str | Callable[..., Any],
        world_size: int,
        inputs: Sequence[Any],
        communicator: str = COMMUNICATOR,
        *,
        steps: bool = False,
    ) -> RanksRun:
        """Run one thread a rank over queues. See `Student.ranks`."""
        there = self._find(function) if isinstance(function, str) else self._ship(function)
        arguments = to_plain(rank_arguments(inputs, world_size), "inputs")
        with self._learners_code():
            run = run_ranks(there, arguments, communicator)
        return run if steps else replace(run, steps=())

    def source(self, name: str, /) -> str | None:
        """Return the text of the statement that last defined `name`, or None."""
        return self._texts.get(name) or self._sources(name)

    def apart(self) -> AbstractContextManager["LocalStudent"]:
        """Return a student without the learner's names, in this same process."""
        return contextlib.nullcontext(LocalStudent())

    @contextlib.contextmanager
    def pinned(self, core: int) -> Iterator[None]:
        """Keep this thread on one core. See `Student.pinned`."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {core})
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def stopped(self) -> AbstractContextManager[None]:
        """Do nothing: the learner's code is in this process."""
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _learners_code(self) -> Iterator[None]:
        """Turn what the learner's code raises into what a check is told.

        A name that is not there since its statement failed is that failure.
        """
        try:
            with withheld(self._withheld):
                yield
        except NotPlainData as error:
            raise StudentError("TypeError", str(error)) from error
        except (AutograderError, KeyboardInterrupt):
            raise
        except BaseException as error:
            if isinstance(error, NotImplementedError) and _is_raised_by(self.namespace, error):
                raise NotAttempted(text_of(error) or "not implemented") from error
            where = _where(error, self.namespace)
            raised = StudentError(type(error).__name__, text_of(error), _trace(error), where)
            raise cause_of(raised, self._failures) from error

    def _find(self, name: str) -> Any:
        first, *rest = name.split(".")
        if first in self._failures or first not in self.namespace:
            raise missing(first, self._failures)
        value = self.namespace[first]
        with self._learners_code():
            for part in rest:
                value = getattr(value, part)
        if value is ...:
            raise NotAttempted(f"{name} is still `...`.")
        return value

    def _globals(self) -> dict[str, Any]:
        space = self.namespace
        return space if isinstance(space, dict) else dict(space)

    def _ship(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return probe_function(*ship(function), self._globals())


def probe_function(name: str, text: str, space: dict[str, Any]) -> FunctionType:
    """Return the function that `text` defines, with the learner's names as its globals."""
    names: dict[str, Any] = {}
    file = f"{_PROBE}{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # Its annotations name what the check's file imports, and are not needed here.
    exec(compile(text, file, "exec", _FUTURE, dont_inherit=True), names)
    local = names[name]
    space.setdefault("__builtins__", builtins)  # nothing has run in an empty one yet
    there = FunctionType(local.__code__, space, name, local.__defaults__)
    there.__kwdefaults__ = local.__kwdefaults__
    return there


class Inert:
    """Stands for what IPython gives to notebooks: takes everything and does nothing."""

    def __call__(self, *args: Any, **kwargs: Any) -> "Inert":
        """Return itself."""
        return self

    def __getattr__(self, name: str) -> "Inert":
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def notebook_names() -> dict[str, Any]:
    """Return a new namespace with what every notebook has in it."""
    return {"__name__": "__main__", "display": Inert(), "get_ipython": Inert()}


def _file(statement: Statement) -> str:
    return f"<cell {statement.cell}, line {statement.line}>"


def _await_result(result: Any) -> Any:
    """Return what an async function returns, in a thread: a notebook's own loop is running."""
    if not inspect.iscoroutine(result):
        return result
    import asyncio  # few answers are async, and every worker would pay for it
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, result).result()


def text_of(error: BaseException) -> str:
    """Return what an exception says; its name where its author's `__str__` raises."""
    try:
        return str(error)
    except (Exception, SystemExit):
        return type(error).__name__


def _message(error: BaseException) -> str:
    """Return what an exception says; of code that is no Python the line, as its author wrote it."""
    if isinstance(error, SyntaxError) and error.text and error.lineno:
        return f"{error.msg}, in line {error.lineno}: {error.text.strip()[:SHOWN_CHARACTERS]}"
    return text_of(error)


def _is_raised_by(namespace: MutableMapping[str, Any], error: BaseException) -> bool:
    """Return whether a line of these names' own raised this, and no library that it calls."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1].f_globals is namespace


def _where(error: BaseException, namespace: MutableMapping[str, Any]) -> str:
    """Return the learner's line that raised, and their function that was called with its input.

    Where none of their functions raised, the line of the probe that could not go on with what one
    of them returned. A frame is theirs if it has their names, unless it is a probe's.
    """
    theirs = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals is namespace and not frame.f_code.co_filename.startswith(_PROBE)
    ]
    if not theirs:
        return _where_in_check(error, namespace)
    frame, line = theirs[-1]
    text = linecache.getline(frame.f_code.co_filename, line).strip()
    raised = f"In {frame.f_code.co_qualname}, line {line}" + (f": {text}" if text else ".")
    return f"{raised}\nCalled: {_call(theirs[0][0])}"


def _where_in_check(error: BaseException, namespace: Mapping[str, Any]) -> str:
    """Return the innermost line of a probe that calls the learner's code, else the last one's.

    Nothing for what is no error of Python's own: a library's says by itself what is wrong.
    """
    lines = [
        linecache.getline(frame.f_code.co_filename, line).strip()
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename.startswith(_PROBE)
    ]
    if not any(lines) or type(error).__module__ != builtins.__name__:
        return ""
    theirs = [line for line in lines if _calls(line, namespace)]
    reason = "No line of yours raised it, but one of the check, which goes on with what yours gave:"
    reason += f"\n    {(theirs or lines)[-1]}"
    if isinstance(error, TypeError | AttributeError) and "NoneType" in text_of(error):
        reason += "\nSomething is None there: does your function end in a return?"
    return reason


def _calls(line: str, namespace: Mapping[str, Any]) -> bool:
    """Return whether a line of code calls something of the learner's by its name."""
    names = re.findall(r"\b([^\W\d]\w*)\(", line)
    return any(getattr(namespace.get(name), "__module__", "") == "__main__" for name in names)


def _call(frame: FrameType) -> str:
    """Return a call as it could be written, its arguments as they are now."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    arguments = [f"{n}={show_briefly(frame.f_locals[n])}" for n in names if n in frame.f_locals]
    arguments = arguments[1:] if names[:1] == ("self",) else arguments
    return f"{code.co_qualname}({', '.join(arguments)})"


def show_briefly(value: Any) -> str:
    """Return a value in a few words: what its author's `__repr__` does is not relied on."""
    try:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and math.prod(shape) > SHOWN_ELEMENTS:
            return f"<{type(value).__name__} of shape {tuple(shape)}>"
        plain = value.tolist() if shape is not None else value
        text = " ".join(reprlib.repr(_round(plain)).split())
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def _round(value: Any) -> Any:
    """Return a number, or lists of numbers, with as many digits as a message has room for."""
    if type(value) is list:
        return [_round(item) for item in value]
    return float(f"{value:.6g}") if type(value) is float else value


def _trace(error: BaseException) -> str:
    """Return the traceback without the frames of this package."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [
        frame
        for frame in frames
        if frame.filename not in (__file__, run_ranks.__code__.co_filename)
    ]
    lines = traceback.format_list(shown)
    return "".join(lines + traceback.format_exception_only(error))
