"""What a parameter server's ranks count. Imports the standard library."""

from dataclasses import dataclass


@dataclass
class Report:
    """What happened so far: on a worker its own gradients, on a server those of all workers.

    `applied` and `dropped` are as the servers' last answer said; after `final()` they are whole.
    `max_staleness` is the most steps of the slowest worker that a pull missed. `waited_s` is the
    time that a worker spent in pulls, and a server without a request.
    """

    pushed: int = 0
    applied: int = 0
    dropped: int = 0
    max_staleness: int = 0
    bytes_sent: int = 0
    waited_s: float = 0.0

    def hear(self, applied: int, dropped: int, max_staleness: int) -> None:
        """Take a server's counts of this worker, unless another server has said more."""
        self.applied = max(self.applied, applied)
        self.dropped = max(self.dropped, dropped)
        self.max_staleness = max(self.max_staleness, max_staleness)
