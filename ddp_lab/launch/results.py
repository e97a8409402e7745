"""What `launch` returns: the ranks' results, and with `record=True` what they sent."""

from typing import Any

from ddp_lab.errors import InvalidArgument
from ddp_lab.launch.trace import Trace, trace_of
from ddp_lab.transport.record import Log, Traffic


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
