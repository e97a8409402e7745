"""Ranks anywhere that can reach each other by TCP: a socket for each pair.

Frames hold plain bytes, never pickles. Whoever waits for a message reads it himself, into the
buffer that he gave, and so without a second thread; the interpreter's lock is free while bytes
move. What comes while nobody waits is read by one thread a rank, so a send never waits for the
receiver's program and sending first never blocks.

A rank that leaves says so, and why, in a last frame whose header holds the reason; this also
happens when the interpreter ends.

A host that is gone says nothing. The systems of two hosts ask and answer each other on an idle
connection, so a process that is stopped, or busy with something else, is not taken for a host that
is gone. Only Linux tells when it heard last; elsewhere the system's own limits end the connection,
later.

Source: RFC 9293, section 3.8.4; Linux's tcp(7), TCP_INFO.
"""

import atexit
import contextlib
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from ddp_lab.errors import RankLost
from ddp_lab.transport.base import SENT, NDArray, Receive, Sent
from ddp_lab.transport.board import (
    FAILED,
    NOBODY,
    RUNNING,
    Board,
    Onlooker,
    deadlock,
    fate,
    is_alone,
    sentence,
)
from ddp_lab.transport.description import describe
from ddp_lab.transport.header import call_site
from ddp_lab.transport.tcp.circles import Waits, report_of_circle
from ddp_lab.transport.tcp.connection import FRAME, READ_S, Connection, readable
from ddp_lab.transport.tcp.local_board import LocalBoard, goodbye
from ddp_lab.transport.threads import LOOK_S, ThreadTransport, ThreadWorld, take_first

RETURN_S = 0.005  # for so long what comes is left to those who have waited before
WATCH_S = 1.0  # between two looks at how long each peer has been silent
HEARTBEAT_S = 8.0  # a host that is silent for so long is gone
DRAIN_LOOKS = 100  # two seconds: a child of a dead peer may keep its connection open
ASK_S = 2  # idle for so long: ask, and ask again as often
LAST_HEARD = struct.Struct("=2I")  # milliseconds since data and since an acknowledgement
LAST_HEARD_AT = 52  # in the kernel's `struct tcp_info`


class TcpWorld(ThreadWorld):
    """One rank's lines; the board may know of a peer's end before its last message is here."""

    def __init__(self, size: int, board: Board) -> None:
        super().__init__(size, board)
        self.drained: set[int] = set()  # peers of which everything has been read
        self.connections: dict[int, Connection] = {}
        self.waits = Waits(Connection.tell_of_wait)
        self.numbers: Sequence[int] = range(size)  # of the ranks, among all that are told
        self._stuck: dict[threading.Thread, Receive] = {}  # who has looked for a circle, in a wait
        self._looks = [0] * size  # at each peer that is gone

    def may_still_come(self, src: int) -> bool:
        """Return whether the connection to `src` may still hold messages.

        Looks are counted, not seconds: a machine that stalls keeps the reading thread from its
        work too.
        """
        self._looks[src] += 1
        return src not in self.drained and self._looks[src] < DRAIN_LOOKS

    def claim(self, src: int, dst: int, channel: int) -> Receive | None:
        """Return the receive whose message begins to come, None if none was posted for it yet."""
        with self._locks[dst]:
            return take_first(self._wanted, (src, dst, channel))

    def take_in(self, src: int) -> None:
        connection = self.connections.get(src)
        if connection is not None:
            connection.read_if_free()
            connection.read_at = time.monotonic()  # who asks once, asks again soon

    def wake(self, rank: int) -> None:
        """Have who sleeps until a message comes look again."""
        if self._sleepers[rank]:
            with self._locks[rank]:
                self._changed[rank].notify_all()

    def wait(self, receive: Receive, timeout_s: float | None) -> None:
        # most messages come before anybody could ask what this rank waits for
        if timeout_s is not None or not self._sleep(receive):
            self.waits.begin()
            try:
                super().wait(receive, timeout_s)
            finally:
                self._stuck.pop(threading.current_thread(), None)
                self.waits.begin()  # others may wait on while this thread sends

    def _look_for_circle(self, receive: Receive) -> None:
        """Raise if the receiver is the first of those that wait for each other for ever.

        Several threads of this rank may wait, as the lanes of a group do, if all do for one peer:
        none of them can send before that has.
        """
        rank, board, stuck = receive.dst, self.board, self._stuck
        stuck[threading.current_thread()] = receive
        receives = list(stuck.values())
        if any(other.src != receive.src for other in receives) or not is_alone(list(stuck)):
            self.waits.begin()
            return
        number, numbers = self.numbers[rank], self.numbers
        # the board shows the wait of one thread
        shown = replace(board.read(rank), waits_for=numbers[receive.src], waits_at=call_site())
        words = sentence({number: shown}).removesuffix(".")
        peer = self.connections.get(receive.src)
        have_come = lambda: any(other.test() for other in receives)  # noqa: E731
        circle = self.waits.circle(number, peer, words, have_come)
        if circle and number == min(circle)[0]:
            raise deadlock(board, rank, receive.src, report_of_circle(circle))

    def _sleep(self, receive: Receive) -> bool:
        """Read until the message is there or it is time for a look at the board."""
        connection = self.connections.get(receive.src)
        if connection is None or connection.ended or not connection.reading.acquire(blocking=False):
            return super()._sleep(receive)
        give_up = time.monotonic() + READ_S
        try:
            while not (receive.done or connection.ended or time.monotonic() > give_up):
                connection.read(wait=True)
        finally:
            connection.read_at = time.monotonic()
            connection.reading.release()
            self.wake(receive.dst)  # another that waits for this peer may read now
        return receive.done


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
        self._process = os.getpid()
        self._tolerated: set[int] = set()
        self._places = places or {}  # each peer's host, in words
        self._connections = self._world.connections
        for peer, link in links.items():
            keep_alive(link)
            self._connections[peer] = Connection(self._world, rank, peer, link)
        atexit.register(self.close)
        Onlooker(target=self._attend, name=f"ddp_lab links {rank}", daemon=True).start()

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send; returns once the system has taken all bytes.

        Raises:
            RankLost: the connection is gone.
        """
        if dst == self.rank:
            return super().isend(array, dst, channel=channel, header=header)
        if not array.flags.c_contiguous:
            array = array.copy()
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

    @property
    def waits(self) -> Waits:
        """This rank's waits, as it tells of them."""
        return self._world.waits

    def look_beyond_group(self, waits: Waits, numbers: Sequence[int]) -> None:
        """Follow circles of waits over other groups, as `waits`, where ranks have these numbers."""
        self._world.waits, self._world.numbers = waits, numbers

    def tell_failure(self, error: BaseException) -> None:
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
        """Say goodbye and close all sockets; what was sent still arrives.

        A fork of this process has the same connections, and leaves them alone.
        """
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        atexit.unregister(self.close)
        words = goodbye(self.board)
        for connection in self._connections.values():
            connection.close(words)
        self.waits.forget(self._connections.values())


def keep_alive(link: socket.socket) -> None:
    """Have the system ask the other host for a sign of life while the connection is idle."""
    if link.family not in (socket.AF_INET, socket.AF_INET6):
        return
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), ASK_S)


def seconds_of_silence(link: socket.socket) -> float:
    """Return for how long the other host has sent nothing, 0 where the system does not say."""
    if sys.platform != "linux" or link.family not in (socket.AF_INET, socket.AF_INET6):
        return 0.0
    try:
        info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_HEARD_AT + LAST_HEARD.size)
    except OSError:  # closed meanwhile
        return 0.0
    data_ms, acknowledged_ms = LAST_HEARD.unpack_from(info, LAST_HEARD_AT)
    return float(min(data_ms, acknowledged_ms)) / 1000
