"""How ranks on several machines find each other, and what they do not let in.

Rank 0 listens where all know; the others tell it where they listen themselves, and get the list of
all. Then each pair is joined that does not share memory. Whoever connects has to begin with a
greeting: the job's secret, the number of ranks, its own. A stranger is turned away, named in a
warning, and keeps nobody waiting: each greeting is read as it comes, beside all others.
"""

import errno
import hmac
import json
import logging
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ddp_lab.errors import InvalidArgument, RankTimeout
from ddp_lab.transport.board import Board
from ddp_lab.transport.links.link import Hosts, home_of
from ddp_lab.transport.tcp.tcp import TcpTransport

HELLO = struct.Struct("<8s16s3i")  # magic, the job's secret, world size, rank, port
MAGIC = b"ddp_lab2"
LONGEST_TABLE = 1 << 20
CONNECT_S = 60.0
HELLO_S = 5.0  # what takes longer is not a greeting
LOOK_S = 0.1  # between two looks at the time, while nobody comes
RETRY_S = 0.05
BACKLOG = 128

Address = tuple[str, int]
log = logging.getLogger("ddp_lab")


class Guest(NamedTuple):
    """A rank that has come: its socket, and where it listens itself."""

    link: socket.socket
    port: int


def connect(
    rank: int,
    size: int,
    master: Address,
    listener: socket.socket | None = None,
    board: Board | None = None,
    timeout_s: float = CONNECT_S,
    *,
    secret: bytes = b"",
    hosts: Hosts | None = None,
) -> TcpTransport:
    """Return the transport of `rank`, once it is connected to every rank that it needs.

    Args:
        master: where rank 0 listens, unless it has a `listener` already.
        secret: at most 16 bytes that only the ranks of this job know.
        hosts: ranks of one host are not joined; None joins every pair.

    Raises:
        RankTimeout: not all ranks came in time; names one that did not.
        InvalidArgument: a rank of a run of another size came, or the address cannot be used.
    """
    meeting = Meeting(rank, size, secret, time.monotonic() + timeout_s)
    with listener or listen(master if rank == 0 else ("", 0)) as own:
        links, names = meeting.join(master, own, hosts or tuple((r,) for r in range(size)))
    return _transport(rank, links, names, board, hosts or ())


def connect_to(
    address_of: Callable[[int], Address],
    own: socket.socket,
    rank: int,
    names: list[str],
    board: Board,
    timeout_s: float,
    secret: bytes,
    hosts: Hosts,
) -> TcpTransport:
    """Return the transport of `rank`, as `connect` does where all know where the others listen.

    Args:
        address_of: gives the address at which a rank listens.
        own: where this one does.
        names: those of the ranks' hosts.

    Raises:
        RankTimeout: not all ranks came in time; names one that did not.
    """
    meeting = Meeting(rank, len(names), secret, time.monotonic() + timeout_s)
    links = meeting.join_far(address_of, own, hosts, {})
    return _transport(rank, links, names, board, hosts)


def _transport(
    rank: int,
    links: dict[int, socket.socket],
    names: list[str],
    board: Board | None,
    hosts: Hosts,
) -> TcpTransport:
    for link in links.values():
        link.settimeout(None)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    neighbours = [host for host in hosts if rank not in host]
    places = {
        peer: place_of(names[peer], links[peer], next((h for h in neighbours if peer in h), ()))
        for peer in links
    }
    return TcpTransport(rank, links, board, len(names), places)


def place_of(name: str, link: socket.socket, ranks: tuple[int, ...]) -> str:
    """Return a peer's host in words."""
    address = link.getpeername()[0]
    those = f" of rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}" if ranks else ""
    return f"host {name} ({address}){those}"


def listen(address: Address) -> socket.socket:
    """Return a listening socket.

    Raises:
        InvalidArgument: the port is in use, or the address is not this machine's.
    """
    try:
        return socket.create_server(address, backlog=BACKLOG)
    except OSError as error:
        why = "in use by another program" if error.errno == errno.EADDRINUSE else error.strerror
        raise InvalidArgument(
            f"connect: cannot listen at {address[0] or '*'}:{address[1]}: {why}. "
            "Set MASTER_ADDR to an address of rank 0's machine and MASTER_PORT to a free port. "
            "Help: when_it_does_not_work.html#ports-in-use"
        ) from error


class Meeting:
    """One rank's part in the meeting of all."""

    def __init__(self, rank: int, size: int, secret: bytes, give_up: float) -> None:
        self.rank = rank
        self.size = size
        self._secret = secret.ljust(16, b"\0")
        self._give_up = give_up
        self._strangers: list[str] = []

    def join(
        self, master: Address, own: socket.socket, hosts: Hosts
    ) -> tuple[dict[int, socket.socket], list[str]]:
        """Return the sockets to all ranks on other hosts, and the name of each rank's host."""
        if self.rank == 0:
            links, names = self._gather(own)
        else:
            links, names = self._dial_all(master, own, hosts)
        for peer in home_of(self.rank, hosts):  # it was only asked where the others are
            if peer in links:
                links.pop(peer).close()
        return links, names

    def join_far(
        self,
        address_of: Callable[[int], Address],
        own: socket.socket,
        hosts: Hosts,
        links: dict[int, socket.socket],
    ) -> dict[int, socket.socket]:
        """Return `links` and those to all other ranks on other hosts: the later one dials.

        All are closed where one fails.
        """
        far = set(range(self.size)) - set(home_of(self.rank, hosts)) - links.keys()
        try:
            for peer in sorted(far):
                if peer < self.rank:
                    links[peer] = self._dial(address_of(peer), 0)
            guests = self._receive(own, {peer for peer in far if peer > self.rank})
        except BaseException:
            close_all(links.values())
            raise
        return links | {peer: guest.link for peer, guest in guests.items()}

    def _gather(self, own: socket.socket) -> tuple[dict[int, socket.socket], list[str]]:
        """As rank 0: wait for all, then tell each where the others listen."""
        guests = self._receive(own, set(range(1, self.size)))
        names = {0: socket.gethostname()}
        table = [["", 0, names[0]]]
        for peer in range(1, self.size):
            link, port = guests[peer]
            names[peer] = self._take_text(link, peer)
            table.append([link.getpeername()[0], port, names[peer]])
        for link, _ in guests.values():
            send_text(link, json.dumps(table))
        return {peer: guest.link for peer, guest in guests.items()}, [
            names[peer] for peer in range(self.size)
        ]

    def _dial_all(
        self, master: Address, own: socket.socket, hosts: Hosts
    ) -> tuple[dict[int, socket.socket], list[str]]:
        link = self._dial(master, own.getsockname()[1])
        try:
            send_text(link, socket.gethostname())
            table = json.loads(self._take_text(link, 0))
        except BaseException:
            link.close()
            raise
        links = self.join_far(lambda peer: tuple(table[peer][:2]), own, hosts, {0: link})
        return links, [row[2] for row in table]

    def _receive(self, own: socket.socket, expected: set[int]) -> dict[int, Guest]:
        """Accept a connection of each expected rank, whoever else knocks.

        Raises:
            RankTimeout: one did not come.
        """
        guests: dict[int, Guest] = {}
        greetings: dict[socket.socket, tuple[bytearray, float]] = {}
        own.setblocking(False)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(own, selectors.EVENT_READ)
                while expected - guests.keys():
                    self._check_time(expected - guests.keys())
                    for key, _ in selector.select(LOOK_S):
                        self._hear(key.fileobj, own, selector, greetings, expected, guests)
                    for link in [link for link, (_, end) in greetings.items() if late(end)]:
                        self._turn_away(link, "it says nothing", selector)
                        del greetings[link]
        except BaseException:
            close_all([guest.link for guest in guests.values()])
            raise
        finally:
            close_all(greetings)
        return guests

    def _hear(
        self,
        link: Any,
        own: socket.socket,
        selector: selectors.BaseSelector,
        greetings: dict[socket.socket, tuple[bytearray, float]],
        expected: set[int],
        guests: dict[int, Guest],
    ) -> None:
        """Let in who knocks, or read on in the greeting of one who has."""
        if link is own:
            for newcomer in accept_all(own):
                greetings[newcomer] = bytearray(), time.monotonic() + HELLO_S
                selector.register(newcomer, selectors.EVENT_READ)
            return
        refusal = self._greet(link, greetings[link][0], expected, guests)
        if refusal is None:
            return
        del greetings[link]
        if refusal:
            self._turn_away(link, refusal, selector)
        else:
            selector.unregister(link)

    def _greet(
        self, link: socket.socket, text: bytearray, expected: set[int], guests: dict[int, Guest]
    ) -> str | None:
        """Read on in a greeting; return None while it goes on, then why it is refused, or ""."""
        try:
            part = link.recv(HELLO.size - len(text))
        except OSError:
            part = b""
        text += part
        if part and len(text) < HELLO.size and MAGIC.startswith(text[: len(MAGIC)]):
            return None
        if len(text) < HELLO.size or not text.startswith(MAGIC):
            return "it does not speak as a rank does"
        _, secret, their_size, peer, port = HELLO.unpack(text)
        if not hmac.compare_digest(secret, self._secret):
            return "it belongs to another job: its secret is not ours"
        if their_size != self.size:
            raise InvalidArgument(
                f"connect: ranks disagree on the number of ranks: rank {peer} has {their_size}, "
                f"this one {self.size}. Start all with the same WORLD_SIZE."
            )
        if peer not in expected or peer in guests:
            return f"rank {peer} is here already or not expected"
        link.settimeout(max(0.01, self._give_up - time.monotonic()))
        guests[peer] = Guest(link, port)
        return ""

    def _turn_away(self, link: socket.socket, why: str, selector: selectors.BaseSelector) -> None:
        try:
            who = "{}:{}".format(*link.getpeername()[:2])
        except OSError:
            who = "somebody who has left"
        self._strangers.append(f"{who}: {why}")
        log.warning("connect: a stranger was turned away: %s: %s.", who, why)
        selector.unregister(link)
        link.close()

    def _check_time(self, missing: set[int]) -> None:
        if time.monotonic() > self._give_up:
            strangers = f" Turned away: {'; '.join(self._strangers)}." if self._strangers else ""
            raise RankTimeout(
                f"connect: rank {min(missing)} did not come: {len(missing)} of {self.size} are "
                f"missing. See that all are started and can reach this machine.{strangers}",
                min(missing),
            )

    def _dial(self, address: Address, port: int) -> socket.socket:
        """Return a connection to a rank that listens there, or will soon."""
        while True:
            try:
                left_s = max(0.01, self._give_up - time.monotonic())
                link = socket.create_connection(address, left_s)
                break
            except OSError as error:
                hopeless = isinstance(error, socket.gaierror)
                if hopeless or time.monotonic() + RETRY_S > self._give_up:
                    raise RankTimeout(
                        f"connect: nobody listens at {address[0]}:{address[1]}: {error}. "
                        "See that rank 0 is started and that MASTER_ADDR and MASTER_PORT are its."
                    ) from error
                time.sleep(RETRY_S)  # rank 0 may not listen yet
        link.sendall(HELLO.pack(MAGIC, self._secret, self.size, self.rank, port))
        return link

    def _take_text(self, link: socket.socket, peer: int) -> str:
        """Return what a rank tells of itself, or rank 0 of all.

        Raises:
            RankTimeout: it does not, or turns this rank away.
        """
        try:
            (length,) = struct.unpack("<q", take(link, 8))
            if not 0 <= length <= LONGEST_TABLE:
                raise ConnectionError("this is no rank")
            return take(link, length).decode()
        except OSError as error:
            raise RankTimeout(
                f"connect: rank {peer} did not answer as a rank of this job: {error}. "
                "See what its own last lines say, and that two jobs do not share one MASTER_PORT.",
                peer,
            ) from error


def late(end: float) -> bool:
    """Return whether a time has passed."""
    return time.monotonic() > end


def close_all(links: Iterable[socket.socket]) -> None:
    """Close sockets that nobody will read any more."""
    for link in links:
        link.close()


def accept_all(own: socket.socket) -> list[socket.socket]:
    """Return all connections that wait to be accepted."""
    guests: list[socket.socket] = []
    while True:
        try:
            guest, _ = own.accept()
        except OSError:
            return guests
        guest.setblocking(False)
        guests.append(guest)


def send_text(link: socket.socket, text: str) -> None:
    """Send a text and its length."""
    data = text.encode()
    link.sendall(struct.pack("<q", len(data)) + data)


def take(link: socket.socket, n_bytes: int) -> bytes:
    """Return exactly `n_bytes` bytes.

    Raises:
        ConnectionError: the peer closed the connection.
    """
    data = bytearray()
    while len(data) < n_bytes:
        part = link.recv(n_bytes - len(data))
        if not part:
            raise ConnectionError("closed by the peer")
        data += part
    return bytes(data)
