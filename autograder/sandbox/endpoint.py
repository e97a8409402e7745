"""Inside the wall: one rank's end of a network that is the judge (docs/architecture.md, Transport).

Every message goes to the judge, who writes it down and passes it on. Frames out are
`(0, "send", dst, channel, header, array)` and, from a rank that has waited for a while,
`(0, "wait", sources, n_received, alone)`; frames in are `(src, channel, header, array)`. With
`n_received` the judge can tell a rank that waits from one whose message is still on its way.
Where the judge wants the steps, there is `(0, "step", kind, peer, channel, number)` too, and a
message comes once its receive, the `number`-th on this channel from `peer`, has said "ask".
"""

import contextlib
import importlib
import math
import os
import select
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autograder.sandbox import wire

QUIET_S = 0.05  # a rank that has waited so long says so; most never do
PATIENCE_S = 5.0  # a wait that ends sooner may be meant to end, and is no deadlock
MAX_HEADER_BYTES = 512  # three times what collectives write; others are counted (headers.py)


class Sent:
    """A send: it is over when it has begun, for the array has been copied."""

    header = b""

    def __init__(self, endpoint: "Endpoint", dst: int) -> None:
        self._endpoint = endpoint
        self._dst: int | None = dst

    def wait(self, timeout_s: float | None = None) -> None:
        """Return at once."""
        dst, self._dst = self._dst, None
        if dst is not None:
            self._endpoint.say_step("over", dst)

    def test(self) -> bool:
        """Return True."""
        return True


class Received:
    """A receive under way; `header` is what the sender wrote, once it has arrived."""

    def __init__(self, endpoint: "Endpoint", key: tuple[int, int], number: int, buffer: Any):
        self.header = b""
        self.src = key[0]
        self._asks: tuple[int, int, int] | None = (*key, number)
        self.done = False
        self._endpoint = endpoint
        self._buffer = buffer
        self._array: Any = None

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array that arrived, the buffer where one was given.

        Raises:
            TimeoutError: nothing came within `timeout_s`.
            ValueError: what came does not fit the buffer.
        """
        self._ask()
        self._endpoint.progress(lambda: self.done, timeout_s, self)
        if self._buffer is not None and self._array is not self._buffer:
            came, fits = (f"{a.dtype} {a.shape}" for a in (self._array, self._buffer))
            raise ValueError(f"recv: the message does not fit the buffer: got {came}, not {fits}.")
        return self._array

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        self._ask()
        self._endpoint.progress(lambda: True, 0.0, self)
        return self.done

    def _ask(self) -> None:
        asks, self._asks = self._asks, None
        if asks is not None:
            self._endpoint.say_step("ask", *asks)

    def complete(self, header: bytes, array: Any) -> None:
        """Take what arrived; one that does not fit the buffer is told at `wait`."""
        self.header = header
        buffer = self._buffer
        if buffer is not None and (buffer.dtype, buffer.shape) == (array.dtype, array.shape):
            buffer[...] = array
            array = buffer
        self._array = array
        self.done = True


class Endpoint:
    """One rank's transport. Safe to use from several threads at once."""

    def __init__(
        self, connection: socket.socket, rank: int, size: int, *, says_steps: bool = False
    ) -> None:
        self.rank = rank
        self.size = size
        self._says_steps = says_steps
        self._process = os.getpid()
        self._n_posted: dict[tuple[int, int], int] = defaultdict(int)
        self._connection = connection
        self._sending = threading.Lock()
        self._state = threading.Condition()
        self._reading = False
        self._n_received = 0
        self._waiting: list[tuple[Received, float]] = []
        self._arrived: dict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self._posted: dict[tuple[int, int], deque[Received]] = defaultdict(deque)

    def isend(self, array: Any, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy of `array` to `dst`."""
        numpy = importlib.import_module("numpy")
        self._peer(dst)
        header = bytes(header)
        if len(header) > MAX_HEADER_BYTES:
            raise ValueError(
                f"isend: header too long: got {len(header)} bytes, expected {MAX_HEADER_BYTES}."
            )
        self._send((0, "send", int(dst), int(channel), header, numpy.array(array, order="C")))
        return Sent(self, int(dst))

    def irecv(self, src: int, *, channel: int = 0, buffer: Any = None) -> Received:
        """Receive the next array from `src`, into `buffer` where one is given."""
        self._peer(src)
        key = (int(src), int(channel))
        with self._state:
            self._n_posted[key] += 1
            work = Received(self, key, self._n_posted[key], buffer)
            self.say_step("post", *key)
            if self._arrived[key]:
                work.complete(*self._arrived[key].popleft())
            else:
                self._posted[key].append(work)
        return work

    def empty(self, shape: Sequence[int], dtype: Any) -> Any:
        """Return a new array."""
        return importlib.import_module("numpy").empty(shape, dtype)

    def close(self) -> None:
        """Do nothing: the judge ends the connection."""

    def progress(self, done: Callable[[], bool], timeout_s: float | None, work: Received) -> None:
        """Take in what has arrived, and wait until `done`; one thread at a time reads."""
        deadline = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        with self._state, self._list(work, deadline):
            is_told = False
            self._take_in(0.0)
            while not done():
                left = deadline - time.monotonic()
                if left <= 0:
                    who = f"rank {self.rank} waits for a message from rank {work.src}"
                    raise TimeoutError(f"recv: {who}: none came within {timeout_s} s.")
                if self._take_in(min(left, QUIET_S)):
                    is_told = False  # what the judge knows of this rank is out of date
                elif not is_told:
                    is_told = self._say_waiting()

    @contextlib.contextmanager
    def _list(self, work: Received, deadline: float) -> Iterator[None]:
        entry = (work, deadline)
        self._waiting.append(entry)
        try:
            yield
        finally:
            self._waiting.remove(entry)

    def _take_in(self, patience_s: float) -> bool:
        """Read one message, or wait for another thread that reads; return whether there was one."""
        if self._reading:
            return self._state.wait(patience_s)
        self._reading = True
        self._state.release()
        message = None
        try:
            if select.select([self._connection], [], [], patience_s)[0]:
                message = wire.receive(self._connection)
        finally:
            self._state.acquire()
            self._reading = False
            if message is not None:
                self._deliver(*message)
            self._state.notify_all()
        return message is not None

    def _deliver(self, src: int, channel: int, header: bytes, array: Any) -> None:
        self._n_received += 1
        posted = self._posted[src, channel]
        if posted:
            posted.popleft().complete(header, array)
        else:
            self._arrived[src, channel].append((header, array))

    def _say_waiting(self) -> bool:
        """Tell the judge for whom this rank waits, and whether nothing else can happen in it."""
        sources = sorted({work.src for work, _ in self._waiting})
        patient = time.monotonic() + PATIENCE_S
        alone = all(deadline > patient for _, deadline in self._waiting)
        alone = alone and threading.active_count() <= len(self._waiting)
        self._send((0, "wait", sources, self._n_received, alone))
        return True

    def say_step(self, kind: str, peer: int, channel: int = 0, number: int = 0) -> None:
        """Tell the judge what this rank does, where it wants to know."""
        if self._says_steps:
            self._send((0, "step", kind, peer, channel, number))

    def _send(self, message: tuple[Any, ...]) -> None:
        data = wire.frame(message)
        with self._sending:
            self._connection.sendall(data)

    def _peer(self, rank: int) -> None:
        if os.getpid() != self._process:  # both would read the one socket: each loses messages
            raise RuntimeError(
                "comm: used in a copy of its rank that os.fork made: got another process, expected "
                "the one that the rank began in. Send and receive there."
            )
        if not 0 <= rank < self.size:
            raise ValueError(f"peer: no such rank: got {rank}, expected 0 to {self.size - 1}.")
