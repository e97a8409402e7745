"""One merged timeline of a recorded run."""

from dataclasses import dataclass, field

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


def trace_of(logs: list[Log], clock: str = "wall") -> Trace:
    """Return the ranks' logs as one timeline, each list in order of time."""
    return Trace(
        len(logs),
        merge(logs),
        sorted((wait for log in logs for wait in log.waits), key=lambda w: w.began_at),
        sorted((span for log in logs for span in log.spans), key=lambda s: s.began_at),
        clock,
    )
