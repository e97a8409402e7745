"""Everything that this package raises on purpose; imports nothing.

    AutograderError
    ├── LabError (ValueError)        a lab's source, checks or wrong answers are malformed
    │   ├── SourceError              at this line of this file
    │   ├── UnknownLab               there is no lab of that name here
    │   └── ReleaseRefused           the lab contradicts itself: see `.reasons`
    ├── SubmissionError (ValueError) what arrived cannot be read as a notebook
    ├── Feedback                     a check says that the answer is wrong, and how
    ├── StudentError                 the learner's code raised; carries text, never an object
    ├── NotAttempted                 the learner has not written this yet
    ├── LimitReached                 the learner's code ran into a limit, or its process died
    ├── NotPlainData (TypeError)     a value that cannot pass between judge and learner
    ├── ReportError                  a report cannot be written where it should be
    ├── CheckBroken                  a check itself failed: ours, and costs the learner nothing
    └── SandboxError (RuntimeError)  the sandbox could not be started or kept
        └── SandboxMissing           this machine has no sandbox; `doctor` says what to do

`Feedback`, `StudentError`, `NotAttempted` and `LimitReached` are siblings, so that a check which
expects an exception of the learner's (`except StudentError`) swallows nothing else.
"""

from collections.abc import Sequence


class AutograderError(Exception):
    """The root: whoever catches this catches all that the package raises on purpose."""


class LabError(AutograderError, ValueError):
    """A lab's source, its checks or its wrong answers are malformed."""


class SourceError(LabError):
    """A line of a lab's source cannot be read; `path` and `line` say which."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}:{line}: {problem}")
        self.path = path
        self.line = line


class UnknownLab(LabError):
    """There is no lab of that name, or the directory holds none."""


class ReleaseRefused(LabError):
    """A lab contradicts itself: a starter that scores, a solution that fails, a mistake missed."""

    def __init__(self, lab: str, reasons: Sequence[str]) -> None:
        listed = "".join(f"\n  - {reason}" for reason in reasons)
        super().__init__(f"release {lab}: refused, nothing was written:{listed}")
        self.lab = lab
        self.reasons = tuple(reasons)


class SubmissionError(AutograderError, ValueError):
    """What arrived cannot be read as a notebook; the message is fit for the learner."""


class Feedback(AutograderError):
    """Raised by a check: the answer is wrong, and this is what the learner is told.

    `hint` is a direction and never the answer; it is shown even where the rest is hidden.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.hint = hint


class StudentError(AutograderError):
    """The learner's code raised. Only text crosses: the type's name, message and traceback.

    `where` says in words which line of theirs raised, and what was called with which input.
    """

    def __init__(self, type_name: str, message: str, traceback: str = "", where: str = "") -> None:
        super().__init__(f"{type_name}: {message}" if message else type_name)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback
        self.where = where


class NotAttempted(AutograderError):
    """The learner has not written this yet: the starter is still there, or nothing is."""


class LimitReached(AutograderError):
    """The learner's code ran into a limit.

    `kind` is one of "time", "cpu", "memory", "output", "processes", "died".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class NotPlainData(AutograderError, TypeError):
    """A value that cannot pass between judge and learner; names its type and where it sits."""


class ReportError(AutograderError):
    """A report cannot be written where it should be."""


class CheckBroken(AutograderError):
    """A check raised something of its own. Seen by staff; costs the learner nothing."""

    def __init__(self, check: str, problem: str) -> None:
        super().__init__(f"check {check}: broken: {problem}")
        self.check = check


class SandboxError(AutograderError, RuntimeError):
    """The sandbox could not be started or kept."""


class SandboxMissing(SandboxError):
    """This machine has no sandbox; `autograder doctor` says what to do."""
