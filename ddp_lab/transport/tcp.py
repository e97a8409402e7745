"""Ranks anywhere that can reach each other by TCP: a socket for each pair.

    frame: bytes of header, of description and of array; channel; then these three

Frames hold plain bytes, never pickles. A rank that leaves says so, and why, in a last frame whose
header holds the reason; this also happens when the interpreter ends. A thread for each peer reads
what comes into queues, so a send never waits for the receiver's program and sending first never
blocks. Timings are those of this machine's network stack, in Python: use them to see latency
count, not to rate a network.
"""

import atexit
import contextlib
import json
import socket
import struct
import threading
import time
from typing import Any

import numpy as np

from ddp_lab.errors import InvalidArgument, RankLost, RankTimeout
from ddp_lab.transport.base import SENT, NDArray, Sent
from ddp_lab.transport.board import RUNNING, Board, fate
from ddp_lab.transport.description import describe, parse
from ddp_lab.transport.local_board import LocalBoard, goodbye, hear
from ddp_lab.transport.threads import LOOK_S, ThreadTransport, ThreadWorld

FRAME = struct.Struct("<4q")
HELLO = struct.Struct("<8s3i")  # magic, world size, rank, port
MAGIC = b"ddp_lab1"
LARGEST_TEXT = 1 << 20  # of a header or description: more is not one of ours
CONNECT_S = 60.0
RETRY_S = 0.05
GOODBYE = -1  # the channel of a rank's last frame
DRAIN_LOOKS = 100  # two seconds: a child of a dead peer may keep its connection open
GOODBYE_S = 1.0  # for a peer that takes nothing any more

Address = tuple[str, int]


class TcpWorld(ThreadWorld):
    """One rank's lines; the board may know of a peer's end before its last message is here."""

    def __init__(self, size: int, board: Board) -> None:
        super().__init__(size, board)
        self.drained: set[int] = set()  # peers of which everything has been read
        self._looks = [0] * size  # at each peer that is gone

    def may_still_come(self, src: int) -> bool:
        """Return whether the connection to `src` may still hold messages.

        Looks are counted, not seconds: a machine that stalls keeps the reading thread from its
        work too.
        """
        self._looks[src] += 1
        return src not in self.drained and self._looks[src] < DRAIN_LOOKS


class TcpTransport(ThreadTransport):
    """One rank's sockets."""

    _world: TcpWorld

    def __init__(
        self, rank: int, links: dict[int, socket.socket], board: Board | None = None
    ) -> None:
        size = len(links) + 1
        super().__init__(TcpWorld(size, board or LocalBoard(size)), rank)
        self._links = links
        self._locks = {peer: threading.Lock() for peer in links}
        self._closed = False
        atexit.register(self.close)
        for peer, link in links.items():
            name = f"ddp_lab link {rank}-{peer}"
            threading.Thread(target=self._read, args=(peer, link), name=name, daemon=True).start()

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
            with self._locks[dst]:
                self._links[dst].sendall(frame + header + description)
                if array.nbytes:
                    self._links[dst].sendall(array.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise RankLost(
                f"send: rank {dst} {self._fate(dst)}: rank {self.rank} could not send to it "
                f"({error}). Look at what ended rank {dst}.",
                dst,
            ) from error
        return SENT

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

    def _read(self, peer: int, link: socket.socket) -> None:
        try:
            while True:
                n_header, n_description, n_bytes, channel = FRAME.unpack(take(link, FRAME.size))
                if not 0 <= n_header + n_description <= LARGEST_TEXT:
                    raise ConnectionError("a frame that makes no sense")
                header = bytes(take(link, n_header))
                if channel == GOODBYE:
                    self._leave(peer, header.decode(errors="replace"))
                    return
                dtype, shape = parse(bytes(take(link, n_description)))
                array = np.empty(shape, dtype)
                if array.nbytes != n_bytes:
                    raise ConnectionError("a frame that makes no sense")
                fill(link, array.reshape(-1).view(np.uint8))
                self._world.post(peer, self.rank, channel, array, header)
        except (OSError, ValueError) as error:
            self._leave(peer, f"connection closed: {error}")

    def _leave(self, peer: int, words: str) -> None:
        """Note that `peer` is gone; once this rank is gone itself, that says nothing."""
        self._world.drained.add(peer)
        if not self._closed:
            hear(self.board, self.rank, peer, words)

    def close(self) -> None:
        """Say goodbye and close all sockets; what was sent still arrives."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        words = goodbye(self.board)
        for peer, link in self._links.items():
            with contextlib.suppress(OSError):  # the peer may have gone first
                self._say_goodbye(peer, link, words)
                link.shutdown(socket.SHUT_WR)
            link.close()

    def _say_goodbye(self, peer: int, link: socket.socket, words: bytes) -> None:
        if self._locks[peer].acquire(timeout=GOODBYE_S):  # a send that hangs may hold it
            try:
                link.settimeout(GOODBYE_S)
                link.sendall(FRAME.pack(len(words), 0, 0, GOODBYE) + words)
            finally:
                self._locks[peer].release()


def take(link: socket.socket, n_bytes: int) -> bytearray:
    """Return exactly `n_bytes` bytes.

    Raises:
        ConnectionError: the peer closed the connection.
    """
    data = bytearray(n_bytes)
    fill(link, data)
    return data


def fill(link: socket.socket, buffer: Any) -> None:
    """Receive as many bytes as `buffer` has."""
    view = memoryview(buffer)
    while len(view):
        got = link.recv_into(view)
        if not got:
            raise ConnectionError("closed by the peer")
        view = view[got:]


def connect(
    rank: int,
    size: int,
    master: Address,
    listener: socket.socket | None = None,
    board: Board | None = None,
    timeout_s: float = CONNECT_S,
) -> TcpTransport:
    """Return the transport of `rank`, once every pair of ranks is connected.

    Rank 0 listens at `master`, or on `listener`; the others tell it where they listen themselves,
    and get the list of all.

    Raises:
        RankTimeout: not all ranks came in time; names one that did not.
        InvalidArgument: a rank of a run of another size came.
    """
    give_up = time.monotonic() + timeout_s
    own = listener or listen(master if rank == 0 else ("", 0))
    links: dict[int, socket.socket] = {}
    with own:
        if rank == 0:
            table = _gather(own, links, size, give_up)
            for link in links.values():
                _send_text(link, json.dumps(table))
        else:
            link = links[0] = _dial(master, give_up)
            link.sendall(HELLO.pack(MAGIC, size, rank, own.getsockname()[1]))
            table = json.loads(_take_text(link))
            for peer in range(1, rank):
                links[peer] = _dial((table[peer][0], table[peer][1]), give_up)
                links[peer].sendall(HELLO.pack(MAGIC, size, rank, 0))
            _accept(own, links, size, set(range(rank + 1, size)), give_up)
    for link in links.values():
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return TcpTransport(rank, links, board)


def listen(address: Address) -> socket.socket:
    """Return a listening socket."""
    server = socket.create_server(address, backlog=128)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return server


def _gather(
    own: socket.socket, links: dict[int, socket.socket], size: int, give_up: float
) -> list[tuple[str, int]]:
    ports = _accept(own, links, size, set(range(1, size)), give_up)
    table = [("", 0)]
    for peer in range(1, size):
        table.append((links[peer].getpeername()[0], ports[peer]))
    return table


def _accept(
    own: socket.socket,
    links: dict[int, socket.socket],
    size: int,
    expected: set[int],
    give_up: float,
) -> dict[int, int]:
    """Accept a connection from each expected rank; return the ports that they told."""
    ports = {}
    while expected:
        link = _accept_one(own, expected, give_up)
        magic, their_size, peer, port = HELLO.unpack(take(link, HELLO.size))
        if magic != MAGIC or peer not in expected:
            link.close()  # a stranger on our port
            continue
        if their_size != size:
            raise InvalidArgument(
                f"connect: ranks disagree on the number of ranks: rank {peer} has {their_size}, "
                f"this one {size}. Start all with the same WORLD_SIZE."
            )
        links[peer], ports[peer] = link, port
        expected.discard(peer)
    return ports


def _accept_one(own: socket.socket, expected: set[int], give_up: float) -> socket.socket:
    own.settimeout(max(0.01, give_up - time.monotonic()))
    try:
        link, _ = own.accept()
    except TimeoutError as error:
        peer = min(expected)
        raise RankTimeout(
            f"connect: rank {peer} did not come: {len(expected)} ranks are missing. "
            "See that all are started and can reach this machine.",
            peer,
        ) from error
    link.settimeout(max(0.01, give_up - time.monotonic()))
    return link


def _dial(address: Address, give_up: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(address, max(0.01, give_up - time.monotonic()))
        except OSError as error:
            if time.monotonic() + RETRY_S > give_up:
                raise RankTimeout(
                    f"connect: nobody listens at {address[0]}:{address[1]}: {error}. "
                    "See that rank 0 is started and that the address is right."
                ) from error
            time.sleep(RETRY_S)  # rank 0 may not listen yet


def _send_text(link: socket.socket, text: str) -> None:
    data = text.encode()
    link.sendall(struct.pack("<q", len(data)) + data)


def _take_text(link: socket.socket) -> str:
    (length,) = struct.unpack("<q", take(link, 8))
    return take(link, length).decode()
