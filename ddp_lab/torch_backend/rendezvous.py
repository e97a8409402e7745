"""How the ranks of a torch process group find each other: through torch's store.

A store outlives ranks: torchrun keeps its own over restarts, with all that dead ranks have written
there. So the ranks first agree on a name for this meeting, which nobody has used before, and keep
everything else under it. Groups of ranks that have met before need not meet again: their names
follow from the first.
"""

import atexit
import contextlib
import json
import os
import secrets
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ddp_lab.errors import InvalidArgument, RankLost, RankTimeout
from ddp_lab.handle import finish_all
from ddp_lab.transport.base import Transport
from ddp_lab.transport.board import ENDED, FAILED, Board, entries, first_failure
from ddp_lab.transport.hosts import HostsTransport
from ddp_lab.transport.links.link import Hosts, Link, home_of, hosts_of
from ddp_lab.transport.links.measured_link import measure
from ddp_lab.transport.shm.segment import Segment
from ddp_lab.transport.shm.shm import ShmTransport
from ddp_lab.transport.tcp.circles import Waits
from ddp_lab.transport.tcp.local_board import last_words, name_first
from ddp_lab.transport.tcp.meeting import Address, connect_to, listen
from ddp_lab.transport.tcp.tcp import TcpTransport

LOOKS_S = 5e-5, 0.02  # between two looks at the store: at first, at the longest
# what this process knows of the links between two machines: a group measures what one of its ranks
# does not know, which takes longer than all else that it needs to meet
LINKS: dict[str, Sequence[float]] = {}

_boards: "WeakKeyDictionary[Board, tuple[int, int]]" = WeakKeyDictionary()  # this process and rank


@atexit.register
def _say_how_it_ends() -> None:
    """Tell those who share memory with this process that it ends, and by what."""
    finish_all()
    why = last_words().decode()
    for board, (pid, rank) in list(_boards.items()):
        if pid == os.getpid():  # and no child of it
            first = first_failure(entries(board))
            board.end(rank, FAILED if why else ENDED, name_first(rank, why, first))


@dataclass(frozen=True)
class Roster:
    """What ranks that have met know of each other, the same on all."""

    name: str  # of the meeting: nobody has used it before
    secret: str
    machines: list[str]  # of each rank
    links: dict[str, Sequence[float]]  # those between two machines that all knew when they met
    _parts: Counter[str] = field(default_factory=Counter)

    @cached_property
    def hosts(self) -> Hosts:
        """The ranks of each machine, in the order of their first ranks."""
        return hosts_of(self.machines)

    @cached_property
    def ends(self) -> str:
        """The two machines whose link stands for all, "" if there is but one machine."""
        firsts = sorted(self.machines[host[0]] for host in self.hosts[:2])
        return "|".join(firsts) if len(firsts) > 1 else ""

    def part(self, ranks: Sequence[int], group_name: str) -> "Roster | None":
        """Return the roster of some of the ranks, which all call it; None if they have to meet."""
        machines = [self.machines[rank] for rank in ranks]
        # torch uses names again, and gives the n-th group of each rank the same name: ranks that
        # make groups in different orders must not meet as one
        named = f"{group_name}/{'.'.join(map(str, ranks))}"
        self._parts[named] += 1
        name = f"{self.name}/{named}/{self._parts[named]}"
        part = Roster(name, self.secret, machines, self.links)
        return part if not part.ends or part.ends in self.links else None


def join(store: Any, rank: int, roster: Roster, timeout_s: float) -> Transport:
    """Join the ranks of a roster: those of one machine by its memory, machines by TCP.

    Raises:
        RankTimeout: not all ranks came within `timeout_s`.
    """
    room = Room(store, roster.name, time.monotonic() + timeout_s)
    hosts, size = roster.hosts, len(roster.machines)
    home = home_of(rank, hosts)
    _take_core(rank, roster)
    if len(hosts) == 1:
        segment = _share_segment(room, rank, size, home)
        _wait_for_home(room, rank, home)
        segment.close()
        near = ShmTransport(segment, rank)
        near.look_beyond(Waits(lambda _peer, _words: False))
        _boards[near.board] = os.getpid(), rank
        return near

    def address_of(peer: int) -> Address:
        host, port = room.get(f"address/{peer}", peer).decode().split()
        return host, int(port)

    with listen(("", 0)) as own:
        room.set(f"address/{rank}", f"{_own_address(store)} {own.getsockname()[1]}")
        segment = _share_segment(room, rank, size, home)
        near = ShmTransport(segment, rank, len(home))
        _boards[near.board] = os.getpid(), rank
        names = [machine.partition("/")[0] for machine in roster.machines]
        far = connect_to(
            address_of, own, rank, names, near.board, timeout_s, roster.secret.encode(), hosts
        )
    near.look_beyond(far.waits)
    _wait_for_home(room, rank, home)
    segment.close()
    transport = HostsTransport(near, far, hosts)
    if roster.ends not in roster.links:
        roster.links[roster.ends] = astuple(measure(transport, hosts))
    LINKS[roster.ends] = roster.links[roster.ends]
    transport.link = Link(*LINKS[roster.ends])
    return transport


def _take_core(rank: int, roster: Roster) -> None:
    if hasattr(os, "sched_setaffinity"):
        kernels = ["/".join(machine.split("/")[2:3]) for machine in roster.machines]
        core = core_of(rank, roster.hosts, kernels, sorted(os.sched_getaffinity(0)))
        if core is not None:
            keep_to(core)


def core_of(rank: int, hosts: Hosts, kernels: Sequence[str], cores: Sequence[int]) -> int | None:
    """Return the core that a rank should keep to, None where the kernel balances well enough.

    Hosts in namespaces share one kernel's cores. Their programs are then more than the cores, and
    the kernel's balancing gives ranks of one host unlike shares for tens of milliseconds: a bucket
    that needs the gradients of both waits for the slower one, while the link is idle. On machines
    of their own each would have a core. One machine's cores are divided evenly only where each host
    has a rank, or several, for each.

    Args:
        hosts: the ranks of each.
        kernels: each rank's kernel; hosts that are one machine have one.
        cores: those that this process may use.
    """
    home = home_of(rank, hosts)
    neighbours = sum(kernels[host[0]] == kernels[rank] for host in hosts)
    if neighbours < 2 or len(home) < 2 or len(home) % len(cores):
        return None
    return sorted(cores)[home.index(rank) % len(cores)]


def keep_to(core: int) -> None:
    """Let all threads of this process, and those that they start, run on one core."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or a sandbox forbids this
            os.sched_setaffinity(int(thread.name), {core})


def share_waits(whole: Transport, part: Transport, ranks: Sequence[int]) -> None:
    """Follow circles of waits from a group of some of the ranks of `whole` to its other groups."""
    near = whole.near if isinstance(whole, HostsTransport) else whole
    if isinstance(part, HostsTransport):
        if isinstance(part.far, TcpTransport) and isinstance(near, ShmTransport) and near.waits:
            part.far.look_beyond_group(near.waits, ranks)
        part = part.near
    if isinstance(near, ShmTransport) and isinstance(part, ShmTransport):
        part.look_beyond_group(near, ranks)


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
    store = PrefixStore("ddp_lab", store)
    return join(store, rank, meet(store, rank, size, timeout_s), timeout_s)


class Room:
    """The part of a store that belongs to one meeting, which has to be over at a time."""

    def __init__(self, store: Any, name: str, give_up: float) -> None:
        self._store = store
        self._name = name
        self._give_up = give_up

    def set(self, key: str, value: str) -> None:
        """Write a value for all to read."""
        self._store.set(f"{self._name}/{key}", value)

    def get(self, key: str, writer: int) -> bytes:
        """Return a value, once this rank has written it.

        Raises:
            RankTimeout: it did not.
        """
        name = f"{self._name}/{key}"
        _wait_until(self._give_up, lambda: self._store.check([name]), lambda: f"rank {writer}")
        value: bytes = self._store.get(name)
        return value


def meet(store: Any, rank: int, size: int, timeout_s: float) -> Roster:
    """Return the roster of the ranks which are here now, and of none before them.

    Each rank asks with a word of its own, made up now; rank 0 answers to that word with the name of
    the meeting. A word that a dead rank has left is answered too, but nobody acts on it, and rank 0
    looks again.

    Raises:
        RankTimeout: not all ranks came in time; names those that did not.
        InvalidArgument: somebody else meets here as this rank.
    """
    word = uuid.uuid4().hex
    give_up = time.monotonic() + timeout_s
    entry = json.dumps([_machine(rank), LINKS])
    store.set(f"ask/{rank}", word)
    if rank == 0:
        _answer_all(store, word, size, give_up)
        return _write_roster(store, word, size, entry)

    def answered() -> bool:
        _check_alone(store, rank, word)
        return bool(store.check([f"answer/{word}"]))

    _wait_until(give_up, answered, lambda: "rank 0")
    name: str = store.get(f"answer/{word}").decode()
    store.set(f"{name}/here/{rank}", entry)

    def absent() -> str:
        others = (peer for peer in range(1, size) if not store.check([f"{name}/here/{peer}"]))
        return f"ranks {', '.join(map(str, others)) or '0'}"

    _wait_until(give_up, lambda: store.check([f"{name}/roster"]), absent)
    return Roster(name, *json.loads(store.get(f"{name}/roster")))


def _write_roster(store: Any, name: str, size: int, entry: str) -> Roster:
    """As rank 0, which has an `entry` too: gather what all tell of themselves, and tell all."""
    others = [store.get(f"{name}/here/{peer}") for peer in range(1, size)]
    entries = [json.loads(text) for text in (entry, *others)]
    links = [links for _, links in entries]
    common = {ends: link for ends, link in links[0].items() if all(ends in of for of in links)}
    facts = secrets.token_hex(8), [machine for machine, _ in entries], common
    store.set(f"{name}/roster", json.dumps(facts))
    return Roster(name, *facts)


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

    _wait_until(give_up, all_here, lambda: "ranks " + ", ".join(map(str, sorted(missing))))


def _wait_until(give_up: float, done: Callable[[], bool], missing: Callable[[], str]) -> None:
    nap_s, longest_s = LOOKS_S
    while not done():
        if time.monotonic() > give_up:
            raise RankTimeout(
                f"join: not all ranks came: {missing()} did not. See that all are started with "
                "the same store and the same number of ranks."
            )
        time.sleep(nap_s)
        nap_s = min(1.5 * nap_s, longest_s)


def _machine(rank: int) -> str:
    """Return a name that only processes which see each other's memory have in common."""
    if not Path("/proc/self/fd").is_dir():
        return f"rank {rank}"
    names = [socket.gethostname(), str(os.getuid())]
    with contextlib.suppress(OSError):
        names.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        for kind in ("pid", "user"):  # a kernel may have no namespaces of users
            names.append(str(Path(f"/proc/self/ns/{kind}").readlink()))
    return "/".join(names)


def _share_segment(room: Room, rank: int, size: int, home: tuple[int, ...]) -> Segment:
    """Return the segment of the ranks at home, made by the first, opened by its descriptor.

    Raises:
        RankLost: the first has ended meanwhile.
    """
    first = home[0]
    if rank == first:
        segment = Segment.create(size)
        place = f"{os.getpid()} {segment.fd} {segment.layout.arena_bytes}"
        room.set(f"segment/{first}", place)
    else:
        pid, fd, arena_bytes = map(int, room.get(f"segment/{first}", first).split())
        try:
            descriptor = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise RankLost(
                f"join: rank {first}'s memory cannot be opened: {error}. See whether rank {first} "
                "has ended, and that all ranks belong to one user.",
                first,
            ) from error
        segment = Segment(descriptor, size, arena_bytes)
        room.set(f"attached/{rank}", "")
    return segment


def _wait_for_home(room: Room, rank: int, home: tuple[int, ...]) -> None:
    """As the first at home, which must not close its segment before: wait until all have it."""
    for peer in home[1:] if rank == home[0] else ():
        room.get(f"attached/{peer}", peer)
