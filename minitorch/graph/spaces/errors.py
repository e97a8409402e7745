"""What goes wrong by TensorFlow's names: all are the package's own errors.

GraphError
├── OutOfRangeError          an input has come to its end
├── CancelledError           a queue or a session was closed meanwhile
├── AbortedError             a queue was closed before
└── DeadlineExceededError    a queue kept a run waiting for longer than it may
"""

from __future__ import annotations

from typing import Any

from ...errors import GraphError, MinitorchError

OpError = InvalidArgumentError = MinitorchError
"""A value does not fit: a shape, a dtype, an assertion."""

FailedPreconditionError = NotFoundError = AlreadyExistsError = GraphError
"""A variable has no value, or a name is not there."""


UnimplementedError = InternalError = UnknownError = GraphError
"""TensorFlow's other names for what a run could not do."""

PermissionDeniedError, ResourceExhaustedError = PermissionError, MemoryError
"""Python's own: a file that may not be written, memory that is not there."""

UnavailableError = UnauthenticatedError = ConnectionError
"""Python's own; nothing of a graph raises it here."""


class OutOfRangeError(GraphError):
    """An input has come to its end: a queue is closed and empty, an iterator has no more."""


class CancelledError(GraphError):
    """What a run waited for will not come: its queue or its session was closed."""


class AbortedError(CancelledError):
    """A queue that was closed before takes no more elements."""


class DeadlineExceededError(GraphError):
    """A queue kept a run waiting for longer than it may."""


def __getattr__(name: str) -> Any:
    """Return the error of a file that is not what was written."""
    if name != "DataLossError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ...serialize import DamagedFile

    return DamagedFile
