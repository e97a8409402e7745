"""What a lab's `checks.py` imports, `check`, `close` and their kin; and how checks are run.

A check is a function of a `Student` and a random generator. It returns when the answer is right
and raises `Feedback` when it is wrong; anything else that it raises itself is a broken check.
"""

import ast
import builtins
import re
import traceback
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from autograder.authoring.check_names import learner_names
from autograder.authoring.requirements import verify_requirements
from autograder.errors import (
    CheckBroken,
    Feedback,
    LabError,
    LimitReached,
    NotAttempted,
    StudentError,
)
from autograder.grading.deadline import deadline
from autograder.printable import printable
from autograder.records import MIB, CheckResult, Limits, Outcome
from autograder.student.comparing import close, to_number
from autograder.student.protocol import Student
from autograder.student.remembering import Remembering
from autograder.student.timing import Ratio, not_slower

__all__ = [
    "RANK_SETTINGS",
    "Check",
    "Checks",
    "Feedback",
    "LabSettings",
    "check",
    "close",
    "load_checks",
    "not_slower",
    "run_check",
    "to_number",
]

LOAD_S = 120.0  # for a checks.py to be run: it may import torch, on a machine that is busy

STOPPED = {  # by kind, for a hidden check: the message itself may hold an exit code of its choice
    "time": "it ran out of time",
    "cpu": "it ran out of processor time",
    "memory": "it used too much memory",
    "output": "it printed or sent too much",
    "processes": "it started too many processes",
}

NONE = re.compile(r"NoneType|\b(?:got|gave|returned) None\b")  # in a message

CheckFunction = Callable[[Student, Any], object]


@dataclass(frozen=True)
class LabSettings:
    """Settings of the judge for a whole lab: `LAB = LabSettings(wall_s=120)` in its `checks.py`.

    `preload` names modules that the learner's process should have loaded before its clock starts;
    `withheld` functions and classes that answers must not call, as "module:name", and packages
    that they must not import, as "package:": what they do is what the lab has its learners write.
    """

    wall_s: float = Limits.wall_s
    call_s: float = Limits.call_s
    memory_mib: int = Limits.memory_bytes // MIB
    processes: int = Limits.processes
    preload: tuple[str, ...] = ("numpy",)
    withheld: tuple[str, ...] = ()

    @property
    def loaded(self) -> tuple[str, ...]:
        """What a process that answers run in has loaded, then withheld, before its clock starts."""
        return (*self.preload, *self.withheld)

    def limits(self) -> Limits:
        """Return these settings as the limits of a sandbox."""
        return Limits(
            wall_s=self.wall_s,
            cpu_s=self.wall_s,
            call_s=self.call_s,
            memory_bytes=self.memory_mib * MIB,
            processes=self.processes,
        )


Lab = LabSettings  # the name that checks were written with before
RANK_SETTINGS = LabSettings(wall_s=180.0, call_s=20.0, memory_mib=2048)


@dataclass(frozen=True)
class Check:
    """One check of one question. `title` is its docstring: the property in words.

    `requires` names the checks of the same question without which this one earns nothing.
    """

    function: CheckFunction
    question: str
    weight: float
    hidden: bool
    timeout_s: float | None
    requires: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.function.__name__

    @property
    def title(self) -> str:
        """The property that it checks, in words."""
        return " ".join((self.function.__doc__ or self.name.replace("_", " ")).split())

    def __call__(self, student: Student, rng: Any) -> object:
        """Run its function."""
        return self.function(student, rng)

    def no_points(self, max_score: float, outcome: Outcome, output: str = "") -> CheckResult:
        """Return a result that earns none of `max_score`."""
        score, about = (0.0, max_score, output), (self.hidden, False, self.title)
        return CheckResult(self.name, self.question, outcome, *score, *about)


@dataclass(frozen=True)
class Checks:
    """What a `checks.py` holds: its checks in order, the lab's settings, its names of answers.

    `words` are texts that may be such names where a check has them in a variable.
    """

    checks: tuple[Check, ...]
    settings: LabSettings = LabSettings()
    names: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    def find_names(self, bound: Collection[str]) -> frozenset[str]:
        """Return the names that are asked of the learner, in a lab that has `bound` these itself.

        A word counts only if the lab binds it too: a learner's own variable that happens to be
        called so would bring its cell in, a measurement on four ranks perhaps.
        """
        return self.names | self.words.intersection(bound)

    def of(self, question: str) -> tuple[Check, ...]:
        """Return the checks of one question."""
        return tuple(c for c in self.checks if c.question == question)


def check(
    question: str,
    *,
    weight: float = 1.0,
    hidden: bool = False,
    timeout_s: float | None = None,
    requires: str | Sequence[str] = (),
) -> Callable[[CheckFunction], Check]:
    """Return a decorator that makes a function of (student, rng) a check of `question`.

    `weight` is its share of the question's points among the question's checks. A hidden check
    runs in grading only, and is not in what learners are given. `timeout_s` is the wall time of
    all that it asks of the learner's code together. `requires` names another check of the same
    question, or several: while one of them is not correct, this one earns nothing.
    """
    if weight < 0:
        raise LabError(f"check of {question}: weight: got {weight}, expected 0 or more.")
    names = (requires,) if isinstance(requires, str) else requires
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        expected = f"the name of a check as text, {getattr(requires, 'name', 'name')!r}, or several"
        raise LabError(f"check of {question}: requires: got {requires!r}, expected {expected}.")
    named = tuple(filter(None, names))
    return lambda function: Check(function, question, float(weight), hidden, timeout_s, named)


def load_checks(path: Path) -> Checks:
    """Return the checks in the file `path`, which is run for that.

    Raises:
        LabError: there is no such file, it raises, two checks have one name, or one requires a
            check that is not of its question or that requires it in turn.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"checks: cannot read {path}: {error}. Write one beside lab.py.") from error
    space: dict[str, Any] = {"__name__": f"checks_of_{path.parent.name}", "__file__": str(path)}
    try:
        tree = ast.parse(text, str(path))
        code = compile(tree, str(path), "exec", dont_inherit=True)
        with deadline(LOAD_S):
            exec(code, space)
    except (Exception, SystemExit) as error:
        problem = f"{type(error).__name__}: {printable(str(error)) or 'no message'}"
        raise LabError(f"checks: {_place(error, path)} does not run: {problem}.") from error
    settings = [value for value in space.values() if isinstance(value, LabSettings)]
    checks = tuple(value for value in space.values() if isinstance(value, Check))
    names = [check.name for check in checks]  # of two, one may have taken the other's place
    written = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if twice := sorted({n for n in names if names.count(n) > 1 or written.count(n) > 1}):
        raise LabError(f"checks: {path}: two checks are called {', '.join(twice)}. Rename one.")
    verify_requirements(checks)
    return Checks(checks, settings[-1] if settings else LabSettings(), *learner_names(tree))


def _place(error: BaseException, path: Path) -> str:
    """Return the file and, as far as it is known, the line of it at which `error` came up."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    own = error.lineno if isinstance(error, SyntaxError) and error.filename == str(path) else None
    line = own or (lines[-1] if lines else None)
    return f"{path}:{line}" if line else str(path)


def generator(seed: int, name: str) -> Any:
    """Return a NumPy generator for the check `name`, the same whatever runs before it."""
    import numpy as np

    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def run_check(
    check: Check, student: Student, seed: int, max_score: float = 1.0, *,
    within_s: float | None = None,
) -> CheckResult:  # fmt: skip
    """Return what `check` finds; it raises nothing but KeyboardInterrupt.

    `within_s` is for the check's own code; one that does not end in that time is broken.
    What `not_slower` measured is in the result if the check returns it.
    A check that breaks is marked `broken` and has its full score: whether the check is at fault
    or an answer provoked it, `autograder.grading.grade` finds out by asking the solution.
    """
    result = check.no_points(max_score, Outcome.INCORRECT)
    # Made before the clock runs: an import of NumPy that is cut off cannot be done again.
    rng = generator(seed, check.name)
    remembering = Remembering(student)
    try:
        with deadline(within_s):
            measured = check.function(cast(Student, remembering), rng)
    except Feedback as error:
        text = f"{error}{_missing_return(str(error), remembering.without_result)}"
        return _explain(result, text, f"The hidden check failed. {error.hint}")
    except NotAttempted as error:
        explained = _explain(result, str(error), "Not attempted: something is not implemented.")
        return replace(explained, outcome=Outcome.NOT_ATTEMPTED)
    except StudentError as error:
        short = f"Your code raised {_name_if_built_in(error.type_name)}."
        what = _deadlock(error) or f"Your code raised {error}"
        message = "\n".join(filter(None, [what, error.where]))
        return _explain(result, message, short, error.traceback)
    except LimitReached as error:
        stopped = f"Your code was stopped: {error}."
        why = STOPPED.get(error.kind, "it ended by itself")
        return _explain(result, stopped, f"Your code was stopped: {why}.")
    except CheckBroken as error:
        return _mark_broken(result, str(error))
    except (Exception, SystemExit) as error:
        broken = _mark_broken(result, traceback.format_exc())
        return replace(broken, unusable=_unusable(result.hidden, remembering.last, error))
    ratio = measured.median if isinstance(measured, Ratio) else None
    return replace(result, outcome=Outcome.CORRECT, score=max_score, ratio=ratio)


def _deadlock(error: StudentError) -> str:
    """Return what to say of ranks that wait for ever, with what to look for; "" for others."""
    if error.type_name != "Deadlock":
        return ""
    if "has returned" in error.message:
        hint = "Who has returned without sending what another waits for?"
    else:
        hint = "Each waits before it sends. What could a rank send before it receives?"
    return f"Deadlock: {error.message}. {hint}"


def _missing_return(message: str, name: str) -> str:
    """Return what to add to the message on a function that gave None, which few checks ask for."""
    if "return?" in message or "return still" in message:
        return ""
    if name:
        return f" {name} returned None: does it end in a return?"
    return " Does your function end in a return?" if NONE.search(message) else ""


def _unusable(hidden: bool, last: str, error: BaseException) -> str:
    """Return which answer a check could not go on with, or "" where it is the check's mistake."""
    if not last or not isinstance(error, TypeError | ValueError | LookupError | AttributeError):
        return ""
    if hidden:
        return "What your code returned is not of the kind that the docstring asks for."
    if last.endswith(("returned None", "gave None")):
        return printable(f"{last}. Does it end in a return?")
    return printable(f"{last}. Is that of the form that the docstring asks for?")


def _name_if_built_in(type_name: str) -> str:
    """Return the name of a built-in exception; of any other only that it is one.

    A learner's own exception may be called what a hidden check has given to it.
    """
    is_built_in = isinstance(getattr(builtins, type_name, None), type)
    return type_name if is_built_in else "an exception"


def _explain(
    result: CheckResult, open_text: str, hidden_text: str, detail: str = ""
) -> CheckResult:
    output = hidden_text.strip() if result.hidden else open_text
    detail = f"{open_text}\n{detail}".strip()
    return replace(result, output=printable(output), detail=printable(detail))


def _mark_broken(result: CheckResult, detail: str) -> CheckResult:
    output = "This check itself is broken. That is our mistake and costs you nothing."
    return replace(
        result,
        outcome=Outcome.CORRECT,
        score=result.max_score,
        broken=True,
        output=output,
        detail=printable(detail),
    )
