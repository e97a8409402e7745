"""The socket to one peer: frames out of arrays where they lie, and into the buffers that wait.

    frame: bytes of header, of description and of array; channel; then these three

May import: NumPy, base, description, local_board, tcp.
"""

import contextlib
import select
import socket
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp_lab.transport.base import NDArray, Receive
from ddp_lab.transport.description import parse
from ddp_lab.transport.tcp.local_board import hear

if TYPE_CHECKING:
    from ddp_lab.transport.tcp.tcp import TcpWorld

FRAME = struct.Struct("<4q")
INBOX_BYTES = 64 * 1024
LARGEST_TEXT = INBOX_BYTES // 2  # of a header or description: more is not one of ours
TIMEOUT = struct.Struct("@ll")  # seconds and microseconds, as the system wants them
PART_BYTES = 128 * 1024  # of an array: the system wakes who reads it no oftener
READ_S = 0.1  # how long a read waits before whoever reads looks at the board
GOODBYE = -1  # the channel of a rank's last frame
WAITS = -3  # the channel of frames about waits, which are a header alone; -2 measures links
GOODBYE_S = 1.0  # for a peer that takes nothing any more


class Connection:
    """The socket to one peer. Who reads holds `reading`, who writes `writing`."""

    def __init__(self, world: "TcpWorld", rank: int, peer: int, link: socket.socket) -> None:
        self.peer = peer
        self.link = link
        self.reading = threading.Lock()
        self.writing = threading.Lock()
        self.read_at = 0.0  # when somebody who waited has read last
        self.ended = False
        self.closed = False  # by this rank: then what the peer does says nothing
        self._world = world
        self._rank = rank
        self._inbox = bytearray(INBOX_BYTES)
        self._view = memoryview(self._inbox)
        self._low = self._high = 0  # what of the inbox is still to be read
        self._rest = memoryview(b"")  # of the array under way
        self._wakes_at = 1  # so many bytes
        self._poll = select.poll()
        self._poll.register(link, select.POLLIN)
        self._message: tuple[Receive | None, int, NDArray, bytes] | None = None  # under way
        link.setblocking(True)
        seconds, part = divmod(READ_S, 1)
        timeout = TIMEOUT.pack(int(seconds), int(part * 1e6))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)

    def write(self, head: bytes, array: NDArray | None = None) -> None:
        """Send a frame, from where the array lies; returns once the system has taken it all.

        While it takes nothing, this thread reads what comes from all peers: they may be as busy
        sending, and take nothing before that.

        Raises:
            OSError: the connection is gone.
        """
        parts: list[Any] = [head] if array is None else [head, array]
        n_bytes, sent = len(head) + (0 if array is None else array.nbytes), 0
        with self.writing:
            while sent < n_bytes:
                if sent:
                    parts = _remaining(head, array, sent)
                try:
                    sent += self.link.sendmsg(parts, (), socket.MSG_DONTWAIT)
                except BlockingIOError:
                    self._read_meanwhile()

    def tell_of_wait(self, words: bytes) -> bool:
        """Send words about waits, unless the system takes no short frame now."""
        if self.closed or not self._takes_more():
            return False
        with contextlib.suppress(OSError):  # the wait will notice that the peer is gone
            self.write(FRAME.pack(len(words), 0, 0, WAITS) + words)
        return True

    def _takes_more(self) -> bool:
        poll = select.poll()
        poll.register(self.link, select.POLLOUT)
        return bool(poll.poll(0))

    def _read_meanwhile(self) -> None:
        """Read what comes until this connection takes more, or it is time to try again."""
        watched = {self.link.fileno(): self}
        poll = select.poll()
        for other in self._world.connections.values():
            if not (other.ended or other.reading.locked()):
                watched[other.link.fileno()] = other
                poll.register(other.link, select.POLLIN)
        both = select.POLLOUT | (select.POLLIN if not self.reading.locked() else 0)
        poll.register(self.link, both)
        for number, event in poll.poll(READ_S * 1000):
            if event & ~select.POLLOUT:
                watched[number].read_if_free()

    def read_if_free(self) -> None:
        """Read what is there, unless somebody reads already."""
        if self.reading.acquire(blocking=False):
            try:
                while not self.ended and self.read(wait=False):
                    pass
            finally:
                self.reading.release()

    def read(self, wait: bool) -> bool:
        """Read once, and hand on what is complete; return whether anything came.

        The end of the connection is noted, not raised.
        """
        try:
            return self._read(wait)
        except BlockingIOError:
            return False
        except (OSError, ValueError) as error:
            self._end(f"connection closed: {error}")
            return True

    def _read(self, wait: bool) -> bool:
        if self._message is not None:
            if wait:  # the system counts what is there, not what a read has taken already
                self._poll.poll(READ_S * 1000)
            count = self.link.recv_into(self._rest, 0, socket.MSG_DONTWAIT)
            self._rest = self._rest[count:]
            self._wake_at(min(len(self._rest), PART_BYTES) or 1)
            if not self._rest:
                message, self._message = self._message, None
                self._hand_on(*message)
        else:
            self._make_room()
            flags = 0 if wait else socket.MSG_DONTWAIT
            count = self.link.recv_into(self._view[self._high :], 0, flags)
            self._high += count
            while self._take_frame():
                pass
        if not count:
            raise ConnectionError("closed by the peer")
        return True

    def _wake_at(self, n_bytes: int) -> None:
        """Have the system wake who waits once so much is there, and not at each packet."""
        if n_bytes != self._wakes_at and sys.platform == "linux":
            self._wakes_at = n_bytes
            self.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, n_bytes)

    def _make_room(self) -> None:
        if self._low == self._high:
            self._low = self._high = 0
        elif self._high > LARGEST_TEXT:
            left = self._high - self._low
            self._inbox[:left] = self._inbox[self._low : self._high]
            self._low, self._high = 0, left

    def _take_frame(self) -> bool:
        """Take a frame, or what has come of it; return whether there may be another."""
        if self._high - self._low < FRAME.size:
            return False
        n_header, n_description, n_bytes, channel = FRAME.unpack_from(self._inbox, self._low)
        if min(n_header, n_description) < 0 or n_header + n_description > LARGEST_TEXT - FRAME.size:
            raise ConnectionError("a frame that makes no sense")
        start = self._low + FRAME.size
        middle, end = start + n_header, start + n_header + n_description
        if end > self._high:
            return False
        header = bytes(self._view[start:middle])
        if channel == GOODBYE:
            self._end(header.decode(errors="replace"))
            return False
        if channel == WAITS:
            self._world.waits.hear(self, header)
            self._low = end
            return True
        dtype, shape = parse(bytes(self._view[middle:end]))
        receive = self._world.claim(self.peer, self._rank, channel)
        array = _destination(receive, dtype, shape)
        if array.nbytes != n_bytes:
            raise ConnectionError("a frame that makes no sense")
        self._low = min(end + n_bytes, self._high)
        here = self._low - end
        whole = array.reshape(-1).view(np.uint8).data
        whole[:here] = self._view[end : self._low]
        if here == n_bytes:
            self._hand_on(receive, channel, array, header)
            return True
        self._rest, self._message = whole[here:], (receive, channel, array, header)
        self._wake_at(min(n_bytes - here, PART_BYTES))
        return False

    def _hand_on(
        self, receive: Receive | None, channel: int, array: NDArray, header: bytes
    ) -> None:
        """Give a message to the receive that has claimed it, or to the first that asks for it."""
        if receive is None:
            self._world.post(self.peer, self._rank, channel, array, header)
        else:
            receive.accept(array, header)
            self._world.wake(self._rank)

    def _end(self, words: str) -> None:
        """Note that the peer is gone; once this rank is gone itself, that says nothing."""
        self.ended = True
        self._world.drained.add(self.peer)
        if not self.closed:
            hear(self._world.board, self._rank, self.peer, words)

    def close(self, words: bytes) -> None:
        """Say goodbye; what was sent still arrives."""
        self.closed = True
        with contextlib.suppress(OSError):  # the peer may have gone first
            if self.writing.acquire(timeout=GOODBYE_S):  # a send that hangs may hold it
                try:
                    self.link.settimeout(GOODBYE_S)
                    self.link.sendall(FRAME.pack(len(words), 0, 0, GOODBYE) + words)
                finally:
                    self.writing.release()
            self.link.shutdown(socket.SHUT_WR)
            self.read_if_free()  # what is unread at the end would undo what was sent last
        self.link.close()


def _destination(receive: Receive | None, dtype: Any, shape: tuple[int, ...]) -> NDArray:
    """Return where a message goes: the buffer that waits for it, if it fits."""
    buffer = None if receive is None else receive.buffer
    if (
        isinstance(buffer, np.ndarray)
        and (buffer.dtype, buffer.shape) == (dtype, shape)
        and buffer.flags.c_contiguous
    ):
        return buffer
    return np.empty(shape, dtype)


def _remaining(head: bytes, array: NDArray | None, sent: int) -> list[Any]:
    """Return what is left to send of a head and an array after so many bytes."""
    body = None if array is None or not array.nbytes else array.reshape(-1).view(np.uint8).data
    if body is None or sent < len(head):
        return [head[sent:]] if body is None else [head[sent:], body]
    return [body[sent - len(head) :]]


def readable(connections: list[Connection], wait_s: float) -> list[Connection]:
    """Return those on which something has come, once there is one or the time is over."""
    poll, by_number = select.poll(), {}
    for connection in connections:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            poll.register(connection.link, select.POLLIN)
            by_number[connection.link.fileno()] = connection
    return [by_number[number] for number, _ in poll.poll(wait_s * 1000)]
