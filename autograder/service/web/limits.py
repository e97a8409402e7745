"""What a client may ask of the server: how many connections, how much, how slowly, how often."""

import asyncio
import math
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, ClassVar

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from autograder.service.errors import Refused
from autograder.service.settings import Settings
from autograder.service.web.below import path_in_course

# How much of an unwanted body is read before the answer. A client that still sends when the
# connection closes sees a reset and never the answer; beyond this it is on its own.
_DRAIN_BYTES = 64 << 20
_DRAIN_S = 10.0


def limit_bodies(
    app: ASGIApp, *, limit_bytes: int, limit_s: float, larger: Mapping[str, int]
) -> ASGIApp:
    """Return ASGI middleware: a body over `limit_bytes` is 413, one slower than `limit_s` is 408.

    `larger` are the paths that take more, and how much: a body is held in memory whole, and
    anybody may send one to the login page.
    What of the body nobody has read when the answer begins is read and dropped first.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope):
            await app(scope, receive, send)
            return
        body = _Body(receive, larger.get(path_in_course(scope), limit_bytes), limit_s)

        async def send_after_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                await body.drain()
            await send(message)

        await app(scope, body.receive, send_after_body)

    return answer


def _has_body(scope: Scope) -> bool:
    sizes = {name: value for name, value in scope["headers"] if name in _FRAMING}
    return bool(sizes) and sizes.get(b"content-length") != b"0"


_FRAMING = (b"content-length", b"transfer-encoding")


class _Body:
    """One request's body as it arrives, counted and timed."""

    def __init__(self, receive: Receive, limit_bytes: int, limit_s: float) -> None:
        self._receive = receive
        self._limit_bytes = limit_bytes
        self._limit_s = limit_s
        self._deadline: float | None = None
        self._seen = 0
        self._ended = False

    async def receive(self) -> Any:
        """Return the next message of the body.

        Raises:
            Refused: 413 or 408; it becomes the answer.
        """
        if self._ended:
            return await self._receive()
        now = time.monotonic()
        self._deadline = self._deadline or now + self._limit_s
        try:
            message = await asyncio.wait_for(self._receive(), self._deadline - now)
        except TimeoutError as error:
            self._ended = True  # there is no waiting for the rest either
            problem = f"the upload took longer than {self._limit_s:.0f} s"
            raise Refused(408, f"submit: {problem}. Try again on a better line.") from error
        self._ended = not message.get("more_body", False)
        self._seen += len(message.get("body", b""))
        if self._seen > self._limit_bytes:
            raise Refused(413, too_large(self._limit_bytes))
        return message

    async def drain(self) -> None:
        """Read the rest and drop it, within reason."""
        deadline = time.monotonic() + _DRAIN_S
        dropped = 0
        while not self._ended and dropped < _DRAIN_BYTES:
            try:
                message = await asyncio.wait_for(self._receive(), deadline - time.monotonic())
            except TimeoutError:
                return
            self._ended = not message.get("more_body", False)
            dropped += len(message.get("body", b""))


def too_large(limit_bytes: int) -> str:
    """Return what a client is told whose upload is over the limit."""
    if limit_bytes < 1 << 20:
        return f"the request is too large: expected at most {limit_bytes >> 10} KiB."
    return (
        f"submit: the notebook is too large: expected at most {limit_bytes >> 20} MiB. "
        "Clear the outputs (Kernel, Restart Kernel and Clear Outputs), save, and submit again."
    )


class RateLimit:
    """A token bucket a caller: `burst` at once, then `per_minute` steadily."""

    def __init__(
        self,
        burst: int,
        per_minute: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        what: str = "submit: too many submissions",
    ) -> None:
        self._burst = float(burst)
        self._per_s = per_minute / 60
        self._clock = clock
        self._what = what
        self._lock = threading.Lock()
        self._buckets: dict[Hashable, tuple[float, float]] = {}

    def spend(self, caller: Hashable) -> None:
        """Count one request of `caller`.

        Raises:
            Refused: 429, with `Retry-After` in seconds.
        """
        now = self._clock()
        with self._lock:
            if len(self._buckets) >= _MAX_BUCKETS:
                self._forget(now)
            left = self._remaining(caller, now)
            self._buckets[caller] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            wait_s = int((1 - left) / self._per_s) + 1
            message = f"{self._what}. Try again in {wait_s} s."
            raise Refused(429, message, headers={"Retry-After": str(wait_s)})

    def _remaining(self, caller: Hashable, now: float) -> float:
        left, since = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_s)

    def _forget(self, now: float) -> None:
        """Drop the buckets that are full again; all of them if somebody has too many addresses."""
        in_use = {c: b for c, b in self._buckets.items() if self._remaining(c, now) < self._burst}
        self._buckets = in_use if len(in_use) < _MAX_BUCKETS else {}


_MAX_BUCKETS = 10_000


class Limits:
    """What this server lets one caller do."""

    def __init__(self, settings: Settings) -> None:
        self.submissions = RateLimit(settings.burst, settings.per_minute)
        self.wrong_logins = RateLimit(
            settings.wrong_logins,
            settings.wrong_per_minute,
            what="log in: too many wrong tokens from your address",
        )
        # To hand in, one at a time: who sends sixty uploads at once has one of them in memory.
        self.turns = defaultdict[int, asyncio.Lock](asyncio.Lock)
        self.reading = asyncio.Lock()  # a notebook that came


_REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\n"
_REFUSAL += b"Connection: close\r\n\r\n"


class FairProtocol(H11Protocol):
    """HTTP/1.1 with limits: on the time of a request's headers, and on connections by address.

    uvicorn ends a connection that idles between requests, `limit_bodies` a body that is slow; this
    closes the gap between the two. Behind a reverse proxy all connections come from one address:
    there it is the proxy that counts (see docs/running_a_course.md).
    """

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
