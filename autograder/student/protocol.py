"""Student: the learner's namespace as a check sees it.

Checks are written once against `Student`. In the notebook it is a `LocalStudent`, which calls the
learner's functions directly; in grading it is `autograder.sandbox.host.Sandbox`, which
drives a sandboxed worker by messages. Only plain data (`autograder.plain`) passes through either,
and both raise the same errors, so a check cannot tell them apart.
"""

import inspect
import re
import textwrap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from autograder.errors import CheckBroken, LimitReached, NotAttempted, StudentError
from autograder.records import Failure, RanksRun, Statement

COMMUNICATOR = "ddp_lab.communicator:Communicator"


class Student(Protocol):
    """What a check sees of the learner.

    Every method raises `StudentError` where the learner's code raised, `NotAttempted` where it
    raised NotImplementedError or the value is still `...`, and `LimitReached` where it ran into
    a limit.
    """

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Return what the learner's function `name` returns for these arguments.

        Plain data goes in, by copy; plain data comes out. A dotted name reaches into a class or
        an object: `call("Stack.push", ...)`.
        """
        ...

    def value(self, name: str, /) -> Any:
        """Return the learner's variable `name` as plain data."""
        ...

    def probe(self, function: Callable[..., Any], /, **inputs: Any) -> Any:
        """Run `function` beside the learner's code and return what it returns.

        Its source text is sent, and its globals are the learner's names, so it may use any of
        them, but nothing of the check's own file; it imports what else it needs inside.
        """
        ...

    def ranks(
        self,
        function: str | Callable[..., Any],
        world_size: int,
        inputs: Sequence[Any],
        communicator: str = COMMUNICATOR,
        *,
        steps: bool = False,
    ) -> RanksRun:
        """Run `function(comm, *inputs[rank])` on each rank, the judge being the network.

        `function` is the name of a learner's function, or a function whose source is sent as
        `probe` does. An item of `inputs` that is a tuple gives the arguments; any other item is
        the one argument. `communicator` is "module:Class", made from a transport on each rank.
        With `steps` a message stays in the network until it is waited for, and the run says in
        which order each rank began and ended what it did.
        """
        ...

    def source(self, name: str, /) -> str | None:
        """Return the text of the statement that last defined `name`, or None."""
        ...

    def apart(self) -> "AbstractContextManager[Student]":
        """Return a student with nothing of the learner's, for what must run undisturbed."""
        ...

    def pinned(self, core: int) -> AbstractContextManager[None]:
        """Keep the learner's code on one core of this machine, as far as the system allows it."""
        ...

    def stopped(self) -> AbstractContextManager[None]:
        """Let nothing that the learner's code has started run; ask nothing of it meanwhile."""
        ...


class WorkerStudent(Student, Protocol):
    """A student that statements are loaded into: what grading drives.

    After `LimitReached` the student is usable again: where its process had to be ended, the next
    call finds a new one, with the same statements loaded but those that failed.
    """

    @property
    def kind(self) -> str:
        """What the learner's code runs in: "bubblewrap", ..., or "unsandboxed"."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What the report should say of how the code was run; usually nothing."""
        ...

    def load(self, statements: Sequence[Statement]) -> Sequence[Failure]:
        """Run each statement on its own, in order, and return those that failed.

        A statement that reads a name (`needs`) whose binding failed is not run: its failure is
        that of the statement which is to blame.
        A name that an earlier statement bound keeps that binding, as it would in the notebook;
        asking for any other name of a failed statement raises `missing`.
        """
        ...

    def allow(self, wall_s: float) -> None:
        """Give all calls from now on `wall_s` seconds together; a call past it is LimitReached."""
        ...


def ship(function: Callable[..., Any]) -> tuple[str, str]:
    """Return (name, text) of a function that `probe` or `ranks` sends to the learner's side.

    Raises:
        CheckBroken: it is a lambda, has decorators, closes over local names, or has no source.
    """
    name = getattr(function, "__name__", "<lambda>")
    code = getattr(function, "__code__", None)
    if code is None or not name.isidentifier():
        raise CheckBroken(name, "probe needs a plain function written with def. Name it.")
    if code.co_freevars:
        names = ", ".join(code.co_freevars)
        raise CheckBroken(name, f"probe cannot carry local names: {names}. Pass them as inputs.")
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise CheckBroken(name, "probe needs the function's source text: found none.") from error
    if not text.startswith(("def ", "async def ")):
        raise CheckBroken(name, "probe cannot send a decorated function. Take the decorator off.")
    return name, text


def rank_arguments(inputs: Sequence[Any], world_size: int) -> list[tuple[Any, ...]]:
    """Return the positional arguments of each rank, given the `inputs` of `Student.ranks`."""
    if len(inputs) != world_size:
        problem = f"ranks: got {len(inputs)} inputs, expected {world_size}, one a rank."
        raise CheckBroken("ranks", problem)
    return [item if isinstance(item, tuple) else (item,) for item in inputs]


def missing(name: str, failures: Mapping[str, Failure]) -> Exception:
    """Return the error for a name that is not there: why its statement failed, or not attempted."""
    failure = failures.get(name)
    if failure is None:
        return NotAttempted(f"{name} is not defined.")
    if failure.type_name == "NotImplementedError":
        return NotAttempted(f"{name} needs something that is not implemented: {failure.message}.")
    at = failure.statement
    if failure.type_name == LimitReached.__name__:
        where = f"cell {at.cell}, line {at.line}, which `{name}` needs"
        return LimitReached("time", f"{where}: {failure.message}")
    message = f"{failure.message} (cell {at.cell}, line {at.line}; `{name}` needs it)"
    return StudentError(failure.type_name, message, failure.traceback)


def load_each(
    statements: Sequence[Statement],
    execute: Callable[[Statement], Failure | None],
    texts: dict[str, str],
    failures: dict[str, Failure],
) -> list[Failure]:
    """Execute the statements and return the failures, as `WorkerStudent.load` says.

    By name, `texts` has what is bound and `failures` why something is not; both are brought up to
    date. What missed a name that a later statement has bound is run again after all: its cells may
    have been run in another order than that in which they stand.
    """
    failed: dict[int, Failure] = {}
    waiting: dict[str, list[tuple[int, Statement]]] = {}  # by the name that they miss
    todo = deque(enumerate(statements))
    while todo:
        index, statement = todo.popleft()
        left = [n for n in statement.binds if n in failures or n in statement.needs]
        if index in failed and statement.binds and not left:
            continue  # another has bound them
        needed = next((name for name in statement.needs if name in failures), "")
        failure = failures[needed] if needed else execute(statement)
        if failure is None:
            failed.pop(index, None)
        else:
            failed[index] = failure
            missed = needed or _find_missed_name(failure.type_name, failure.message)
            waiting.setdefault(missed, []).append((index, statement))
        for name in statement.binds:
            if failure is None:
                texts[name] = statement.text
                failures.pop(name, None)
                todo += waiting.pop(name, ())
            elif name not in texts:
                failures[name] = failure
    return [failed[index] for index in sorted(failed)]


def cause_of(error: StudentError, failures: Mapping[str, Failure]) -> Exception:
    """Return `error`, or why the name that it misses is not there: its statement had failed."""
    name = _find_missed_name(error.type_name, error.message)
    return missing(name, failures) if name in failures else error


def _find_missed_name(type_name: str, message: str) -> str:
    match = _NO_NAME.match(message) if type_name == NameError.__name__ else None
    return match[1] if match else ""


_NO_NAME = re.compile(r"name '(\w+)' is not defined")
