"""What happened on a transport: counts, and every message with its times.

All times are seconds on one clock that starts with the run: the machine's monotonic clock, which
its processes share, or the virtual clock of the `sim` transport.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

import numpy.typing as npt

from ddp_lab.transport.base import NDArray, Shape, Transport, Work


@dataclass(frozen=True)
class Message:
    """One array that travelled from `src` to `dst`.

    `op` names the collective that it belongs to (`"all_reduce:ring#0"`, the number counting this
    communicator's collectives) or is `"send"`; `step` is 0 for a rank's first message of that
    collective, 1 for its second, and so on. `received_at` is NaN for one never received.
    """

    src: int
    dst: int
    n_bytes: int
    channel: int
    sent_at: float
    received_at: float
    op: str
    step: int


@dataclass(frozen=True)
class Span:
    """A whole collective on one rank."""

    rank: int
    op: str
    n_bytes: int
    began_at: float
    ended_at: float


@dataclass(frozen=True)
class Traffic:
    """What one rank sent: array bytes without headers, and messages."""

    bytes_sent: int
    messages_sent: int


@dataclass
class Log:
    """One rank's half of the story; plain data, sent home at the end."""

    rank: int
    sends: list[tuple[int, int, int, float, str, int]] = field(default_factory=list)
    receives: dict[tuple[int, int], list[float]] = field(default_factory=dict)
    shared: list[Message] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    def traffic(self) -> Traffic:
        """Return the totals of what this rank sent."""
        n_bytes = sum(send[2] for send in self.sends) + sum(m.n_bytes for m in self.shared)
        return Traffic(n_bytes, len(self.sends) + len(self.shared))


class Recorder(Transport):
    """A transport that does what the one beneath it does, and keeps a `Log`."""

    def __init__(
        self, transport: Transport, clock: Callable[[], float] = perf_counter, zero: float = 0.0
    ) -> None:
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self.log = Log(self.rank)
        self.op = "send"
        self._clock = clock
        self._zero = zero
        self._step = 0

    def now(self) -> float:
        """Return the seconds since the run began."""
        return self._clock() - self._zero

    def begin(self, op: str) -> float:
        """Enter the collective `op`; the messages from here on are its own."""
        self.op, self._step = op, 0
        return self.now()

    def end(self, n_bytes: int, began_at: float, outer: str) -> None:
        """Leave the collective, back into `outer`."""
        self.log.spans.append(Span(self.rank, self.op, n_bytes, began_at, self.now()))
        self.op = outer

    def share(self, dst: int, n_bytes: int, channel: int) -> None:
        """Record bytes that `dst` takes from here without a message, through shared memory."""
        now = self.now()
        self.log.shared.append(
            Message(self.rank, dst, n_bytes, channel, now, now, self.op, self._step)
        )
        self._step += 1

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        self.log.sends.append((dst, channel, array.nbytes, self.now(), self.op, self._step))
        self._step += 1
        return self.transport.isend(array, dst, channel=channel, header=header)

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Work:
        """Receive; the arrival is recorded when the work is waited for."""
        times = self.log.receives.setdefault((src, channel), [])
        times.append(float("nan"))
        work = self.transport.irecv(src, channel=channel, buffer=buffer)
        return _Received(self, work, times, len(times) - 1)

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        return self.transport.empty(shape, dtype)

    def close(self) -> None:
        self.transport.close()


class _Received:
    """A receive that notes when it completed."""

    def __init__(self, recorder: Recorder, work: Work, times: list[float], index: int) -> None:
        self._recorder = recorder
        self._work = work
        self._times = times
        self._index = index

    @property
    def header(self) -> bytes:
        return self._work.header

    @header.setter
    def header(self, value: bytes) -> None:
        self._work.header = value

    def wait(self, timeout_s: float | None = None) -> NDArray | None:
        array = self._work.wait(timeout_s)
        if math.isnan(self._times[self._index]):
            self._times[self._index] = self._recorder.now()
        return array

    def test(self) -> bool:
        done = self._work.test()
        if done:
            self.wait()
        return done


def merge(logs: list[Log]) -> list[Message]:
    """Return the messages of all ranks in order of sending, each paired with its arrival."""
    arrivals = {
        (src, log.rank, channel): iter(times)
        for log in logs
        for (src, channel), times in log.receives.items()
    }
    messages = [message for log in logs for message in log.shared]
    for log in logs:
        for dst, channel, n_bytes, sent_at, op, step in log.sends:
            received_at = next(arrivals.get((log.rank, dst, channel), iter(())), float("nan"))
            messages.append(
                Message(log.rank, dst, n_bytes, channel, sent_at, received_at, op, step)
            )
    return sorted(messages, key=lambda message: message.sent_at)
