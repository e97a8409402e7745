"""One merged timeline of a recorded run."""

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from ddp_lab.launch.chrome import events
from ddp_lab.transport.record import Log, Message, Span, Wait, merge


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

    def save(self, path: str | PathLike[str]) -> None:
        """Write Chrome trace JSON; drop the file on https://ui.perfetto.dev to see it."""
        trace_events = events(self.world_size, self.messages, self.waits, self.spans)
        document = {"traceEvents": list(trace_events), "otherData": {"clock": self.clock}}
        Path(path).write_text(json.dumps(document))


def trace_of(logs: list[Log], clock: str = "wall") -> Trace:
    """Return the ranks' logs as one timeline, each list in order of time."""
    return Trace(
        len(logs),
        merge(logs),
        sorted((wait for log in logs for wait in log.waits), key=lambda w: w.began_at),
        sorted((span for log in logs for span in log.spans), key=lambda s: s.began_at),
        clock,
    )
