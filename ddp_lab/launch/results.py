"""What `launch` returns: the ranks' results, and with `record=True` what they sent."""

from dataclasses import dataclass, field
from typing import Any

from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.record import Log, Message, Span, Traffic, Wait, merge


@dataclass(frozen=True)
class Trace:
    """Everything that a run with `record=True` saw, on one clock that starts with the run.

    `clock` is `"wall"`, or `"virtual"` for a simulated run.
    """

    world_size: int
    messages: list[Message] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    clock: str = "wall"


def trace_of(logs: list[Log], clock: str = "wall") -> Trace:
    """Return the ranks' logs as one timeline, each list in order of time."""
    return Trace(
        len(logs),
        merge(logs),
        sorted((wait for log in logs for wait in log.waits), key=lambda w: w.began_at),
        sorted((span for log in logs for span in log.spans), key=lambda s: s.began_at),
        clock,
    )


class Results(list[Any]):
    """The list of results, rank by rank, with the record of the run if one was made."""

    def __init__(
        self, results: list[Any], logs: list[Log] | None = None, clock: str = "wall"
    ) -> None:
        super().__init__(results)
        self._logs = logs
        self._clock = clock
        self._trace: Trace | None = None

    def _recorded(self) -> list[Log]:
        if self._logs is None:
            raise InvalidArgument(
                "launch: nothing was recorded: got record=False, expected record=True. "
                "Launch again with record=True."
            )
        return self._logs

    @property
    def traffic(self) -> list[Traffic]:
        """What each rank sent: `bytes_sent` (array bytes, no headers) and `messages_sent`."""
        return [log.traffic() for log in self._recorded()]

    @property
    def trace(self) -> Trace:
        """All messages, waits and collectives on one clock."""
        if self._trace is None:
            self._trace = trace_of(self._recorded(), self._clock)
        return self._trace
