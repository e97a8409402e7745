"""Who is let in by the front: so many queries at a time, and so many bytes of them together.

A query keeps its place until its answer has left: one whose client does not read is under way.

May import: fastapi, starlette.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

RETRY = {"Retry-After": "1"}
SMALL_BYTES = 2**16  # of an answer: sent off without a wait for its reader


@dataclass(eq=False)
class Gate:
    """Counts the queries under way and their bytes, and refuses more than there is room for."""

    most_queries: int = 4_000
    most_bytes: int = 2**28
    queries: int = 0
    n_bytes: int = 0

    @contextmanager
    def place(self) -> "Iterator[Place]":
        """Give a place that is left in the end, if it was entered."""
        place = Place(self)
        try:
            yield place
        finally:
            self.queries -= place.is_entered
            self.n_bytes -= place.n_bytes


@dataclass(eq=False)
class Place:
    """What one request takes of the room behind a gate."""

    gate: Gate
    is_entered: bool = False
    n_bytes: int = 0

    def enter(self) -> None:
        """Take a place, or be refused."""
        if self.gate.queries >= self.gate.most_queries:
            _refuse(f"{self.gate.most_queries} queries are under way")
        self.gate.queries += 1
        self.is_entered = True

    def hold(self, n_bytes: int) -> None:
        """Hold so many bytes from now on, or be refused."""
        more = n_bytes - self.n_bytes
        if more > 0 and self.gate.n_bytes + more > self.gate.most_bytes:
            _refuse(f"the queries under way hold {self.gate.n_bytes >> 20} MiB")
        self.gate.n_bytes += more
        self.n_bytes = n_bytes


def _refuse(words: str) -> None:
    raise HTTPException(503, f"overload: {words}. Try again soon", RETRY)


class Admission:
    """ASGI middleware: each request has a place, in its scope, until its answer has left."""

    def __init__(self, app: "ASGIApp", gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one request."""

        async def send_and_wait(message: "Message") -> None:
            """Send; what ends an answer goes after the rest of it has nearly left."""
            if len(message.get("body", b"")) > SMALL_BYTES and not message.get("more_body"):
                await send({**message, "more_body": True})
                message = {"type": message["type"]}
            await send(message)

        with self._gate.place() as place:
            scope["place"] = place
            await self._app(scope, receive, send_and_wait)
