"""What `launch` returns: the ranks' results, and with `record=True` what they sent."""

from dataclasses import dataclass
from typing import Any

from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.record import Log, Message, Span, Traffic, merge


@dataclass(frozen=True)
class Trace:
    """What a run with `record=True` saw, on one clock that starts with the run."""

    world_size: int
    messages: list[Message]
    spans: list[Span]


class Results(list[Any]):
    """The list of results, rank by rank, with the record of the run if one was made."""

    def __init__(self, results: list[Any], logs: list[Log] | None = None) -> None:
        super().__init__(results)
        self._logs = logs
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
        """All messages and collectives in order of time."""
        if self._trace is None:
            logs = self._recorded()
            spans = sorted((span for log in logs for span in log.spans), key=lambda s: s.began_at)
            self._trace = Trace(len(logs), merge(logs), spans)
        return self._trace
