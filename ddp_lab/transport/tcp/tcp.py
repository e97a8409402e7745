"""Ranks anywhere that can reach each other by TCP: a socket for each pair.

    frame: bytes of header, of description and of array; channel; then these three

Frames hold plain bytes, never pickles. Whoever waits for a message reads it himself, into the
buffer that he gave, and so without a second thread; the interpreter's lock is free while bytes
move. What comes while nobody waits is read by one thread a rank, so a send never waits for the
receiver's program and sending first never blocks.

A rank that leaves says so, and why, in a last frame whose header holds the reason; this also
happens when the interpreter ends. A host that is gone says nothing: `silence` notices.
"""

import atexit
import contextlib
import select
import socket
import struct
import sys
import threading
import time
from typing import Any

import numpy as np

from ddp_lab.errors import RankLost
from ddp_lab.transport.base import SENT, NDArray, Sent
from ddp_lab.transport.board import FAILED, NOBODY, RUNNING, Board, fate
from ddp_lab.transport.description import describe, parse
from ddp_lab.transport.tcp.local_board import LocalBoard, goodbye, hear
from ddp_lab.transport.tcp.silence import keep_alive, seconds_of_silence
from ddp_lab.transport.threads import LOOK_S, Receive, ThreadTransport, ThreadWorld

FRAME = struct.Struct("<4q")
INBOX_BYTES = 64 * 1024
LARGEST_TEXT = INBOX_BYTES // 2  # of a header or description: more is not one of ours
TIMEOUT = struct.Struct("@ll")  # seconds and microseconds, as the system wants them
PART_BYTES = 128 * 1024  # of an array: the system wakes who reads it no oftener
READ_S = 0.1  # how long a read waits before whoever reads looks at the board
RETURN_S = 0.005  # for so long what comes is left to those who have waited before
WATCH_S = 1.0  # between two looks at how long each peer has been silent
HEARTBEAT_S = 8.0  # a host that is silent for so long is gone
GOODBYE = -1  # the channel of a rank's last frame
DRAIN_LOOKS = 100  # two seconds: a child of a dead peer may keep its connection open
GOODBYE_S = 1.0  # for a peer that takes nothing any more


class TcpWorld(ThreadWorld):
    """One rank's lines; the board may know of a peer's end before its last message is here."""

    def __init__(self, size: int, board: Board) -> None:
        super().__init__(size, board)
        self.drained: set[int] = set()  # peers of which everything has been read
        self.connections: dict[int, Connection] = {}
        self._looks = [0] * size  # at each peer that is gone

    def may_still_come(self, src: int) -> bool:
        """Return whether the connection to `src` may still hold messages.

        Looks are counted, not seconds: a machine that stalls keeps the reading thread from its
        work too.
        """
        self._looks[src] += 1
        return src not in self.drained and self._looks[src] < DRAIN_LOOKS

    def destination(
        self, src: int, dst: int, channel: int, dtype: Any, shape: tuple[int, ...]
    ) -> NDArray:
        """Return where a line's next message goes: the buffer that waits for it, if it fits."""
        with self._changed[dst]:
            line = self._lines.get((src, dst, channel))
            ahead = 0 if line is None else len(line.arrived)  # these have their receives already
            receive = line.wanted[ahead] if line is not None and len(line.wanted) > ahead else None
        buffer = None if receive is None else receive.buffer
        if (
            isinstance(buffer, np.ndarray)
            and (buffer.dtype, buffer.shape) == (dtype, shape)
            and buffer.flags.c_contiguous
        ):
            return buffer
        return np.empty(shape, dtype)

    def _sleep(self, receive: Receive) -> bool:
        """Read until the message is there or it is time for a look at the board."""
        connection = self.connections.get(receive.src)
        if connection is None or connection.ended or not connection.reading.acquire(blocking=False):
            return super()._sleep(receive)
        try:
            give_up = time.monotonic() + READ_S
            while not (connection.ended or self.arrive(receive) or time.monotonic() > give_up):
                connection.read(wait=True)
        finally:
            connection.read_at = time.monotonic()
            connection.reading.release()
            with self._changed[receive.dst]:  # another that waits for this peer may read now
                self._changed[receive.dst].notify_all()
        return self.arrive(receive)


class Connection:
    """The socket to one peer. Who reads holds `reading`, who writes `writing`."""

    def __init__(self, world: TcpWorld, rank: int, peer: int, link: socket.socket) -> None:
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
        self._message: tuple[int, NDArray, bytes] | None = None
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
        parts = [memoryview(head)]
        if array is not None and array.nbytes:
            parts.append(array.reshape(-1).view(np.uint8).data)
        with self.writing:
            while parts:
                try:
                    sent = self.link.sendmsg(parts, (), socket.MSG_DONTWAIT)
                except BlockingIOError:
                    self._read_meanwhile()
                    continue
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.pop(0))
                if parts:
                    parts[0] = parts[0][sent:]

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
        if self._message is None:
            self._make_room()
            flags = 0 if wait else socket.MSG_DONTWAIT
            count = self.link.recv_into(self._view[self._high :], 0, flags)
            self._high += count
        else:
            if wait:  # the system counts what is there, not what a read has taken already
                self._poll.poll(READ_S * 1000)
            count = self.link.recv_into(self._rest, 0, socket.MSG_DONTWAIT)
            self._rest = self._rest[count:]
            self._wake_at(min(len(self._rest), PART_BYTES) or 1)
        if not count:
            raise ConnectionError("closed by the peer")
        self._hand_on()
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

    def _hand_on(self) -> None:
        """Post each message that is complete; what is left is part of one."""
        while not self.ended:
            if self._message is None and not self._begin():
                return
            if self._message is None or len(self._rest):
                return
            channel, array, header = self._message
            self._message = None
            self._world.post(self.peer, self._rank, channel, array, header)

    def _begin(self) -> bool:
        """Take the head of a frame and what has come of its array; return whether it was there."""
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
        dtype, shape = parse(bytes(self._view[middle:end]))
        array = self._world.destination(self.peer, self._rank, channel, dtype, shape)
        if array.nbytes != n_bytes:
            raise ConnectionError("a frame that makes no sense")
        here = min(n_bytes, self._high - end)
        whole = array.reshape(-1).view(np.uint8).data
        whole[:here] = self._view[end : end + here]
        self._low, self._rest = end + here, whole[here:]
        self._wake_at(min(len(self._rest), PART_BYTES) or 1)
        self._message = channel, array, header
        return True

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


class TcpTransport(ThreadTransport):
    """One rank's sockets: of `links`, by peer. Ranks beside them are reached some other way."""

    _world: TcpWorld

    def __init__(
        self,
        rank: int,
        links: dict[int, socket.socket],
        board: Board | None = None,
        size: int | None = None,
        places: dict[int, str] | None = None,
    ) -> None:
        size = size or len(links) + 1
        super().__init__(TcpWorld(size, board or LocalBoard(size)), rank)
        self._closed = False
        self._tolerated: set[int] = set()
        self._places = places or {}  # each peer's host, in words
        self._connections = self._world.connections
        for peer, link in links.items():
            keep_alive(link)
            self._connections[peer] = Connection(self._world, rank, peer, link)
        atexit.register(self.close)
        threading.Thread(target=self._attend, name=f"ddp_lab links {rank}", daemon=True).start()

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send; returns once the system has taken all bytes.

        Raises:
            RankLost: the connection is gone.
        """
        if dst == self.rank:
            return super().isend(array, dst, channel=channel, header=header)
        array = np.ascontiguousarray(array).reshape(array.shape)
        description = describe(array.dtype, array.shape)
        frame = FRAME.pack(len(header), len(description), array.nbytes, channel)
        try:
            self._connections[dst].write(frame + header + description, array)
        except OSError as error:
            raise RankLost(
                f"send: rank {dst} {self._fate(dst)}: rank {self.rank} could not send to it "
                f"({error}). Look at what ended rank {dst}.",
                dst,
            ) from error
        return SENT

    def failed(self, error: BaseException) -> None:
        """Do nothing: others hear how this rank ends."""

    def tolerate(self, ranks: set[int]) -> None:
        """Let the silence of these ranks' hosts end only waits for themselves."""
        self._tolerated |= ranks

    def _fate(self, peer: int) -> str:
        """Return what became of a peer that takes nothing more; its last words may still come."""
        for _ in range(DRAIN_LOOKS):
            entry = self.board.read(peer)
            if entry.state != RUNNING:
                return fate(entry)
            if self._closed:
                break
            time.sleep(LOOK_S)
        return "is gone"

    def _attend(self) -> None:
        """Read what comes while nobody waits, and notice who is silent for too long."""
        looked_at = time.monotonic()
        while not self._closed:
            now = time.monotonic()
            alive = [c for c in self._connections.values() if not c.ended]
            idle = [c for c in alive if now - c.read_at > RETURN_S and not c.reading.locked()]
            wait_s = WATCH_S if len(idle) == len(alive) else RETURN_S
            for connection in readable(idle, wait_s):
                connection.read_if_free()
            if now - looked_at > WATCH_S:
                looked_at = now
                self._notice_silence(alive)

    def _notice_silence(self, connections: list[Connection]) -> None:
        for connection in connections:
            silent_s = seconds_of_silence(connection.link)
            if silent_s > HEARTBEAT_S and not self._closed:
                place = self._places.get(connection.peer, "its host")
                why = f"{place} is silent: nothing heard for {silent_s:.1f} s"
                self.board.end(connection.peer, FAILED, why)
                if self.board.silent == NOBODY and connection.peer not in self._tolerated:
                    self.board.silent = connection.peer
                with contextlib.suppress(OSError):
                    connection.link.shutdown(socket.SHUT_RDWR)  # whoever waits in it wakes up

    def close(self) -> None:
        """Say goodbye and close all sockets; what was sent still arrives."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        words = goodbye(self.board)
        for connection in self._connections.values():
            connection.close(words)


def readable(connections: list[Connection], wait_s: float) -> list[Connection]:
    """Return those on which something has come, once there is one or the time is over."""
    poll, by_number = select.poll(), {}
    for connection in connections:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            poll.register(connection.link, select.POLLIN)
            by_number[connection.link.fileno()] = connection
    return [by_number[number] for number, _ in poll.poll(wait_s * 1000)]
