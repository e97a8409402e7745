"""What the service raises on purpose.

AutograderError
└── ServiceError
    ├── Refused                what came over HTTP is answered with `status` and the message
    ├── ServerError            the client's side: the server said no, or nothing at all
    ├── GraderDied             the process that grades died or overran, perhaps of the notebook
    │   ├── GraderKilled       it was killed from outside: not the notebook's fault
    │   └── GraderUnable       it cannot grade this lab at all, whatever the notebook
    └── StartError             a port, a directory or a program is not there
"""

from autograder.errors import AutograderError


class ServiceError(AutograderError):
    """The root of the service's errors."""


class Refused(ServiceError):
    """A request that is answered with `status` and this message, which is fit for the caller."""

    def __init__(self, status: int, message: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class ServerError(ServiceError):
    """The server said no (`status` is HTTP's), or could not be reached (`status` is 0)."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class GraderDied(ServiceError):
    """The process that grades died, or did not answer within its time; the queue tries again."""


class GraderKilled(GraderDied):
    """Somebody else ended the process that grades; it says nothing about the notebook."""


class GraderUnable(GraderDied):
    """Nothing of a lab can be graded now; the message says why."""


class StartError(ServiceError):
    """The service cannot start: a port, a directory or a program is not there."""


class DataInUse(StartError):
    """Another course server works in this data directory."""
