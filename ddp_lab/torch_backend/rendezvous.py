"""How the ranks of a torch process group find each other: through torch's store.

A store outlives ranks: torchrun keeps its own over restarts, with all that dead ranks have written
there. So the ranks first agree on a name for this meeting, which nobody has used before, and keep
everything else under it.
"""

import contextlib
import json
import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ddp_lab.errors import InvalidArgument, RankLost, RankTimeout
from ddp_lab.transport.base import Transport
from ddp_lab.transport.hosts import HostsTransport
from ddp_lab.transport.links.link import Hosts, Link, home_of
from ddp_lab.transport.links.measured_link import measure
from ddp_lab.transport.shm.segment import Segment
from ddp_lab.transport.shm.shm import ShmTransport
from ddp_lab.transport.tcp.meeting import connect, listen

ARENA_BYTES = 2 << 30  # of addresses: groups are many, and most are small
ATTACH_S = 60.0
LOOK_S = 0.001  # between two looks at the store
# what this process knows of the links between two machines: a group measures what one of its ranks
# does not know, which takes longer than all else that it needs to meet
LINKS: dict[str, tuple[float, ...]] = {}


def join(store: Any, rank: int, size: int, timeout_s: float) -> Transport:
    """Join the ranks: those of one machine by its memory, machines by TCP.

    Raises:
        RankTimeout: not all ranks came within `timeout_s`.
    """
    room = Room(store, meet(store, rank, size, timeout_s))
    room.set(f"machine/{rank}", json.dumps([_machine(rank), LINKS]))
    entries = [json.loads(room.get(f"machine/{peer}")) for peer in range(size)]
    machines = [machine for machine, _ in entries]
    hosts = _hosts(machines)
    home = home_of(rank, hosts)
    near = ShmTransport(_shared_segment(room, rank, size, home), rank, len(home))
    if len(hosts) == 1:
        return near
    listener, secret = None, secrets.token_hex(8)
    if rank == 0:
        listener = listen(("", 0))
        room.set("address", f"{_own_address(store)} {listener.getsockname()[1]} {secret}")
    host, port, secret = room.get("address").decode().split()
    master = host, int(port)
    far = connect(
        rank, size, master, listener, near.board, timeout_s, secret=secret.encode(), hosts=hosts
    )
    transport = HostsTransport(near, far, hosts)
    ends = "|".join(sorted(machines[host[0]] for host in hosts[:2]))
    if not all(ends in links for _, links in entries):
        entries[0][1][ends] = astuple(measure(transport, hosts))
    LINKS[ends] = entries[0][1][ends]  # as rank 0 knows it, so that all choose alike
    transport.link = Link(*LINKS[ends])
    return transport


def _hosts(machines: list[str]) -> Hosts:
    """Return the ranks of each machine, in the order of their first ranks."""
    ranks_of: dict[str, list[int]] = {}
    for rank, machine in enumerate(machines):
        ranks_of.setdefault(machine, []).append(rank)
    return tuple(tuple(ranks) for ranks in ranks_of.values())


def _own_address(store: Any) -> str:
    """Return the address by which others reach this machine: that of its way to the store's."""
    master = os.environ.get("MASTER_ADDR") or getattr(store, "host", "")
    if master:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way, contextlib.suppress(OSError):
            way.connect((master, 9))  # sends nothing
            address: str = way.getsockname()[0]
            return address
    return socket.gethostname()


def join_torchrun(timeout_s: float) -> Transport:
    """Return the transport of this process, one of those that torchrun has started.

    Raises:
        RankTimeout: not all ranks came within `timeout_s`.
    """
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    store, rank, size = next(rendezvous("env://"))
    return join(PrefixStore("ddp_lab", store), rank, size, timeout_s)


class Room:
    """The part of a store that belongs to one meeting."""

    def __init__(self, store: Any, name: str) -> None:
        self._store = store
        self._name = name

    def set(self, key: str, value: str) -> None:
        """Write a value for all to read."""
        self._store.set(f"{self._name}/{key}", value)

    def get(self, key: str) -> bytes:
        """Return a value, once somebody has written it."""
        value: bytes = self._store.get(f"{self._name}/{key}")
        return value

    def add(self, key: str, amount: int) -> int:
        """Add to a counter and return its value."""
        count: int = self._store.add(f"{self._name}/{key}", amount)
        return count


def meet(store: Any, rank: int, size: int, timeout_s: float) -> str:
    """Return a name that the ranks which are here now have agreed on, and none before them.

    Each rank asks with a word of its own, made up now; rank 0 answers to that word. A word that a
    dead rank has left is answered too, but nobody acts on it, and rank 0 looks again.

    Raises:
        RankTimeout: not all ranks came in time; names those that did not.
        InvalidArgument: somebody else meets here as this rank.
    """
    word = uuid.uuid4().hex
    give_up = time.monotonic() + timeout_s
    store.set(f"ask/{rank}", word)
    if rank == 0:
        _answer_all(store, word, size, give_up)
        return word

    def answered() -> bool:
        _check_alone(store, rank, word)
        return bool(store.check([f"answer/{word}"]))

    _until(give_up, answered, lambda: "rank 0")
    name: str = store.get(f"answer/{word}").decode()
    store.set(f"{name}/here/{rank}", "1")
    return name


def _check_alone(store: Any, rank: int, word: str) -> None:
    if store.get(f"ask/{rank}").decode() != word:
        raise InvalidArgument(
            f"join: two processes are rank {rank}: two jobs meet on one store, or two machines "
            "have one number. Give each job its own MASTER_PORT, or file, and each its own rank."
        )


def _answer_all(store: Any, name: str, size: int, give_up: float) -> None:
    missing = set(range(1, size))
    answered: set[str] = set()

    def all_here() -> bool:
        _check_alone(store, 0, name)
        for peer in sorted(missing):
            if store.check([f"{name}/here/{peer}"]):
                missing.discard(peer)
            elif store.check([f"ask/{peer}"]):
                word = store.get(f"ask/{peer}").decode()
                if word not in answered:
                    answered.add(word)
                    store.set(f"answer/{word}", name)
        return not missing

    _until(give_up, all_here, lambda: "ranks " + ", ".join(map(str, sorted(missing))))


def _until(give_up: float, done: Callable[[], bool], missing: Callable[[], str]) -> None:
    while not done():
        if time.monotonic() > give_up:
            raise RankTimeout(
                f"join: not all ranks came: {missing()} did not. See that all are started with "
                "the same store and the same number of ranks."
            )
        time.sleep(LOOK_S)


def _machine(rank: int) -> str:
    """Return a name that only processes which see each other's memory have in common."""
    if not Path("/proc/self/fd").is_dir():
        return f"rank {rank}"
    boot = Path("/proc/sys/kernel/random/boot_id")
    names = [socket.gethostname(), str(os.getuid())]
    with contextlib.suppress(OSError):
        names += [boot.read_text().strip(), str(Path("/proc/self/ns/pid").readlink())]
    return "/".join(names)


def _shared_segment(room: Room, rank: int, size: int, home: tuple[int, ...]) -> Segment:
    """Return the segment of the ranks at home, made by the first, opened by its descriptor.

    Raises:
        RankLost: the first has ended meanwhile.
    """
    first = home[0]
    if rank == first:
        segment = Segment.create(size, ARENA_BYTES)
        place = f"{os.getpid()} {segment.fd} {segment.layout.arena_bytes}"
        room.set(f"segment/{first}", place)
    else:
        pid, fd, arena_bytes = map(int, room.get(f"segment/{first}").split())
        try:
            descriptor = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise RankLost(
                f"join: rank {first}'s memory cannot be opened: {error}. See whether rank {first} "
                "has ended, and that all ranks belong to one user.",
                first,
            ) from error
        segment = Segment(descriptor, size, arena_bytes)
    here = f"attached/{first}"
    room.add(here, 1)
    _until(  # the first must not close before all have it
        time.monotonic() + ATTACH_S, lambda: room.add(here, 0) >= len(home), lambda: "some"
    )
    segment.close()
    return segment
