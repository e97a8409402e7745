"""HTTP/1.1 that does not wait for ever: a client that dawdles over its headers is hung up on.

uvicorn ends a connection that idles between requests, and `limits.BodyLimit` a body that is slow;
this closes the gap between the two.
"""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class PunctualProtocol(H11Protocol):
    """uvicorn's protocol with a limit on the time in which a request's headers arrive."""

    headers_s = 15.0
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what arrived; stop or go on waiting."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(error)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._patience is None:
            self._patience = self.loop.call_later(self.headers_s, self._hang_up)

    def _stop(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def protocol(headers_s: float) -> type[PunctualProtocol]:
    """Return the protocol with this limit."""
    return type("Protocol", (PunctualProtocol,), {"headers_s": headers_s})
