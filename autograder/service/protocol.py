"""HTTP/1.1 for a server that faces many clients: no address takes all connections, none for ever.

uvicorn ends a connection that idles between requests, and `limits.BodyLimit` a body that is slow;
this closes the gap between the two, and counts connections by address. Behind a reverse proxy all
come from one: there it is the proxy that counts (see docs/running_a_course.md).
"""

import asyncio
import math
from collections import Counter
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
_REFUSAL += b"Connection: close\r\n\r\n"


class FairProtocol(H11Protocol):
    """uvicorn's protocol with limits: on the time of a request's headers, and by address."""

    headers_s = 15.0
    most_of_one_address = 200
    open_by_address: ClassVar[Counter[str]] = Counter()
    _address: str | None = None
    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for headers, or refuse one connection too many."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        most = self.most_of_one_address or math.inf
        if self.open_by_address[address] >= most:
            transport.write(_REFUSAL)
            transport.close()
            self.transport = transport
            return
        self._address = address
        self.open_by_address[address] += 1
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what arrived; stop or go on waiting."""
        if self._address is None:
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, error: Exception | None) -> None:
        """Stop waiting, and make room for another."""
        if self._address is None:
            return
        self.open_by_address[self._address] -= 1
        if not self.open_by_address[self._address]:
            del self.open_by_address[self._address]
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


def protocol(headers_s: float, most_of_one_address: int) -> type[FairProtocol]:
    """Return the protocol with these limits and a count of its own."""
    own = {
        "headers_s": headers_s,
        "most_of_one_address": most_of_one_address,
        "open_by_address": Counter[str](),
    }
    return type("Protocol", (FairProtocol,), own)
