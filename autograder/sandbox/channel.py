"""Outside the wall: the judge's end of a worker's socket and of its output pipe.

Nothing here ever blocks on a worker: `pump` reads and writes what is ready, for one channel or for
many, and what comes is bounded before it is decoded.
"""

import contextlib
import os
import select
import socket
from collections.abc import Iterable
from typing import Any

from autograder.errors import NotAttempted, StudentError
from autograder.sandbox import wire
from autograder.sandbox.wire import WireError

READ_BYTES = 1 << 20
FLOOD = 64  # times what is kept of the output: more than any print loop that was meant well
MAX_TEXT = 20_000  # characters of a message or a traceback
NOTHING = object()


class Channel:
    """Frames to and from one worker, and what it printed.

    `closed` is set once the worker has hung up. `flooded` is set once it has printed `FLOOD` times
    `output_bytes`, of which the first `output_bytes` are kept in `output`.
    """

    def __init__(self, connection: socket.socket, output_fd: int, output_bytes: int) -> None:
        connection.setblocking(False)
        os.set_blocking(output_fd, False)
        self.connection = connection
        self.output = bytearray()
        self.closed = False
        self._output_fd: int | None = output_fd
        self._output_bytes = output_bytes
        self._printed = 0
        self._inbound = bytearray()
        self._outbound = bytearray()

    @property
    def flooded(self) -> bool:
        """Whether the worker printed past all reason."""
        return self._printed > FLOOD * self._output_bytes

    def queue(self, value: Any) -> None:
        """Put a frame on its way; `pump` sends it."""
        self._outbound += wire.frame(value)

    def take(self) -> Any:
        """Return the value of the next frame that has arrived whole, or `NOTHING`.

        Raises:
            WireError: what arrived is no frame of plain data.
        """
        if len(self._inbound) < wire.HEADER_BYTES:
            return NOTHING
        length = wire.frame_length(bytes(self._inbound[: wire.HEADER_BYTES]))
        end = wire.HEADER_BYTES + length
        if len(self._inbound) < end:
            return NOTHING
        body = bytes(self._inbound[wire.HEADER_BYTES : end])
        del self._inbound[:end]
        return wire.decode(body)

    def interest(self) -> dict[int, int]:
        """Return the descriptors to poll and for what."""
        events = {}
        if not self.closed:
            events[self.connection.fileno()] = select.POLLIN | (
                select.POLLOUT if self._outbound else 0
            )
        if self._output_fd is not None:
            events[self._output_fd] = select.POLLIN
        return events

    def ready(self, descriptor: int, events: int) -> None:
        """Read and write what `poll` said is ready."""
        if descriptor == self._output_fd:
            return self._read_output()
        try:
            if events & select.POLLOUT:
                del self._outbound[: self.connection.send(self._outbound)]
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                piece = self.connection.recv(READ_BYTES)
                self._inbound += piece
                self.closed = not piece
        except BlockingIOError:
            pass
        except OSError:  # reset: the worker is gone
            self.closed = True
        return None

    def _read_output(self) -> None:
        assert self._output_fd is not None
        with contextlib.suppress(BlockingIOError):
            piece = os.read(self._output_fd, READ_BYTES)
            self._printed += len(piece)
            self.output += piece[: max(0, self._output_bytes - len(self.output))]
            if not piece:
                os.close(self._output_fd)
                self._output_fd = None

    def drain_output(self) -> None:
        """Take in what a worker that has ended left in its output pipe."""
        before = -1
        while self._output_fd is not None and before != self._printed:
            before = self._printed
            self._read_output()

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self.connection.close()
        if self._output_fd is not None:
            os.close(self._output_fd)
            self._output_fd = None


def pump(channels: Iterable[Channel], timeout_s: float) -> None:
    """Wait until some channel is ready, at most `timeout_s`, and do what is ready on all."""
    poll = select.poll()
    owners = {}
    for channel in channels:
        for descriptor, events in channel.interest().items():
            poll.register(descriptor, events)
            owners[descriptor] = channel
    for descriptor, events in poll.poll(max(0.0, timeout_s) * 1000):
        owners[descriptor].ready(descriptor, events)


def unpack(answer: Any, request: int) -> Any:
    """Return the value in a worker's answer to `request`.

    Raises:
        StudentError, NotAttempted: it says so.
        WireError: it is no answer to this request. Types are looked at before values are: an
            array compares with anything, to another array.
    """
    if type(answer) is not tuple or len(answer) < 3 or type(answer[0]) is not int:
        raise WireError("answer: not of the form (id, status, ...).")
    number, status, *parts = answer
    if number == request and type(status) is str:
        if status == "ok" and len(parts) == 1:
            return parts[0]
        if status == "absent" and [type(p) for p in parts] == [str]:
            raise NotAttempted(parts[0][:MAX_TEXT])
        if status == "raised" and [type(p) for p in parts] == [str] * 4:
            raise StudentError(*(part[:MAX_TEXT] for part in parts))
    raise WireError("answer: not to this request, or of no known status.")
