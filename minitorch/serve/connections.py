"""Connections of the HTTP front: so many at a time, and none for long that asks or reads nothing.

Without a descriptor free, asyncio tries to accept 2,048 times a second and writes each failure to
the log, and no container can be started again.

May import: uvicorn.
"""

import asyncio
import resource

from uvicorn.protocols.http.auto import AutoHTTPProtocol

LOOK_S = 15.0  # a connection that has not moved between two looks is ended
LEAST_BYTES = 4_096  # that a client reads from one look to the next, of an answer that waits for it
AT_ONCE = 256  # accepted in one turn of the loop, before any can be refused
OWN_FILES = 128  # of the front: its containers, what it reads
MOST = 10_000  # connections, however many files there may be: each can hold 64 KiB each way
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 46\r\n\r\noverload: too many connections. Try again soon"
)


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    """One connection, by the parser that is installed."""

    most: int
    look_s: float
    pauses = 0  # how often its client had too much to read

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Let it ask, or refuse one too many."""
        super().connection_made(transport)
        self._waiting: tuple[object, int] = None, 0
        self._look_at = self.loop.call_later(self.look_s, self._look)
        if len(self.connections) > self.most:
            transport.write(REFUSAL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look at it no more."""
        super().connection_lost(exc)
        self._look_at.cancel()

    def pause_writing(self) -> None:
        """Note that the client has too much to read."""
        super().pause_writing()
        self.pauses += 1

    def _look(self) -> None:
        """End the connection if it waits for its client, and for the same as at the last look.

        It waits for a request, or to have an answer read, before it goes on or after it has closed.
        """
        self._look_at = self.loop.call_later(self.look_s, self._look)
        size = self.transport.get_write_buffer_size()
        is_idle = self.cycle is None or self.cycle.response_complete
        last, last_size = self._waiting
        if self.transport.is_closing() or self.flow.write_paused:
            self._waiting = (self.transport.is_closing(), self.pauses), size
            if self._waiting[0] == last and size > last_size - LEAST_BYTES:
                self.transport.abort()
        elif is_idle:
            self._waiting = self.cycle, size
            if self.cycle is last:
                self.transport.close()
        else:
            self._waiting = "answering", 0


def connection(look_s: float = LOOK_S) -> type[Connection]:
    """Return the protocol of connections, as many as this process can have files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(MOST, max(1, files - AT_ONCE - OWN_FILES)) if files >= 0 else MOST  # -1: no limit
    return type("Connection", (Connection,), {"most": most, "look_s": look_s})
