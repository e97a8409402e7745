"""A recorded run as Chrome trace JSON, which Perfetto and chrome://tracing open.

A process is a run and a thread a rank: collectives and waits are slices, and an arrow leads from
where a message was sent to where it was received.

Source: Trace Event Format, Google.
"""

import math
from collections.abc import Iterator
from typing import Any

from ddp_lab.transport.record import Message, Span, Wait

MICRO = 1e6
SLIVER_S = 1e-7  # an arrow needs slices at both its ends; a message is given one this long

Event = dict[str, Any]


def events(
    world_size: int, messages: list[Message], waits: list[Wait], spans: list[Span]
) -> Iterator[Event]:
    """Yield the events of a run."""
    yield {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "ddp_lab"}}
    for rank in range(world_size):
        named = {"ph": "M", "name": "thread_name", "pid": 0, "tid": rank}
        yield {**named, "args": {"name": f"rank {rank}"}}
    for span in spans:
        yield _slice(span.op, span.rank, span.began_at, span.ended_at, bytes=span.n_bytes)
    for wait in waits:
        name = f"wait for rank {wait.src}"
        yield _slice(name, wait.rank, wait.began_at, wait.ended_at, op=wait.op)
    for number, message in enumerate(messages):
        yield from _arrow(number, message)


def _slice(name: str, rank: int, began_at: float, ended_at: float, **facts: Any) -> Event:
    return {
        "ph": "X",
        "name": name,
        "pid": 0,
        "tid": rank,
        "ts": began_at * MICRO,
        "dur": max(ended_at - began_at, SLIVER_S) * MICRO,
        "args": facts,
    }


def _arrow(number: int, message: Message) -> Iterator[Event]:
    facts = {"bytes": message.n_bytes, "op": message.op, "step": message.step}
    sent_at = message.sent_at
    name = f"send to rank {message.dst}"
    yield _slice(name, message.src, sent_at, sent_at + SLIVER_S, **facts)
    if math.isnan(message.received_at):
        return
    arrow = {"cat": "message", "name": "message", "id": number, "pid": 0}
    yield {**arrow, "ph": "s", "tid": message.src, "ts": sent_at * MICRO}
    end = {"ph": "f", "bp": "e", "tid": message.dst, "ts": message.received_at * MICRO}
    yield {**arrow, **end}
