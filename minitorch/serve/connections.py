"""Connections of the HTTP front: so many at a time, and none for long that asks nothing.

Without a descriptor free, asyncio tries to accept 2,048 times a second and writes each failure to
the log, and no container can be started again.

May import: uvicorn.
"""

import asyncio
import resource

from uvicorn.protocols.http.auto import AutoHTTPProtocol

SILENT_S = 15.0  # until a connection's first request
AT_ONCE = 256  # accepted in one turn of the loop, before any can be refused
OWN_FILES = 128  # of the front: its containers, what it reads
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Length: 46\r\n\r\noverload: too many connections. Try again soon"
)


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type, misc]
    """One connection, by the parser that is installed."""

    most: int

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Let it ask, or refuse one too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(REFUSAL)
            transport.close()
        else:
            self.loop.call_later(SILENT_S, self._close_silent)

    def _close_silent(self) -> None:
        if self.cycle is None:  # no request has come
            self.transport.close()


def connection() -> type[Connection]:
    """Return the protocol of connections, as many as this process can have files."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = max(1, files - AT_ONCE - OWN_FILES) if files >= 0 else 2**20  # -1: no limit
    return type("Connection", (Connection,), {"most": most})
