"""Two levels: inside each host through its memory, and between hosts no byte twice.

    all_reduce, 2 hosts of 2 ranks      rank 0        rank 1    |    rank 2        rank 3
    1. inside: each reduces a slice     a0+a1         b0+b1     |    a2+a3         b2+b3
    2. between: with its counterpart    a0+a1+a2+a3   ...       |    the same
    3. inside: each reads the others'

Every rank of a host carries a share across the link, so that all of its connections are used and
none waits for a single one. A large array goes in pieces: while the link carries one, others are
added up and copied inside the hosts, and a sum leaves before all others are there.

A small array, for which latency is all, is added up by every rank of a host, and carried by each:
then they meet once. Otherwise what crosses is the least there can be: of N bytes reduced,
2(H-1)/H N each way for each of H hosts, however many ranks it has. Where one rank of a host is
enough to carry all, as in a broadcast, it is the host's first, or the root.

Source: Thakur & Gropp, EuroPVM/MPI 2003, for the idea; NCCL's and Horovod's hierarchical modes.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ddp_lab.collectives import direct, reference, tree
from ddp_lab.collectives.choose import on_wires
from ddp_lab.collectives.halving_doubling import recursive_doubling
from ddp_lab.collectives.registry import built_in, lookup
from ddp_lab.collectives.rows import Rows, copy_into, rows_of, same_place, split_evenly
from ddp_lab.collectives.two_shot import one_shot, publish, reduce_slice, slice_of
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.shm.rendezvous import SharedRendezvous

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator

SMALL_BYTES = 2 * 1024  # of the arrays of a host's ranks together: less than a meeting costs
PIECE_BYTES, MOST_PIECES = 1 << 20, 8  # of an array to reduce over a link; less costs more meetings
DONE = object()


@built_in("all_reduce", "hierarchical", reads=True, fills=True)
def all_reduce(comm: "Communicator", x: NDArray, *, op: str, out: NDArray | None = None) -> NDArray:
    """Return the reduction, the same bits on each rank."""
    inside = comm.neighbours()
    if comm.size == 1 or x.size == 0:
        return copy_into(x, out)
    rendezvous = inside.rendezvous() if inside.size > 1 else None
    if rendezvous is None:
        return _all_reduce_by_messages(comm, inside, copy_into(x, out), op)
    counterparts = _counterparts(comm) if x.nbytes * inside.size <= SMALL_BYTES else None
    if counterparts is not None:
        total = one_shot(inside, x, op=op, out=out)
        return recursive_doubling(counterparts, total, op=op)
    memory = _Memory(comm, inside, rendezvous, x, out, op)
    _run_in_turn([memory.reduce(*part) for part in zip(*memory.parts, strict=True)], memory.meet)
    inside.count_shared(x.nbytes // len(memory.parts), 2)
    return memory.box if out is None else out


def _counterparts(comm: "Communicator") -> "Communicator | None":
    """Return a view of the ranks at this one's place on each host, None if some has none."""
    if len(set(map(len, comm.hosts))) > 1:
        return None
    place = comm.hosts[comm.host].index(comm.rank)
    return comm.subset(host[place] for host in comm.hosts)


def _run_in_turn(pieces: list[Iterator[None]], meet: Callable[[], object]) -> None:
    """Run each piece a round behind the one before it; the ranks of a host meet between rounds.

    So the link carries some while others are added up and copied. A piece uses the link from its
    second round on, on every host: a rank sends and receives in one order, whatever else it does.
    """
    running: list[Iterator[None]] = []
    while pieces or running:
        running = [piece for piece in running if next(piece, DONE) is not DONE]
        if pieces:
            next(pieces[0])
            running.insert(0, pieces.pop(0))
        if running:
            meet()


def _parts_of(x: NDArray, shares: int) -> list[list[slice]]:
    """Return for each share its slices of `x`, flat, one a piece."""
    pieces = max(1, min(x.nbytes // PIECE_BYTES, MOST_PIECES))
    parts = []
    for share in range(shares):
        whole = slice_of(share, shares, x.size)
        ends = [whole.start + k * (whole.stop - whole.start) // pieces for k in range(pieces + 1)]
        parts.append(list(map(slice, ends, ends[1:])))
    return parts


def _reduce_between_hosts(
    comm: "Communicator", share: int, part: NDArray, is_all: bool, op: str
) -> Iterator[None]:
    """Reduce, in place, over the ranks that carry this share on each host, if this one does.

    Of several pieces, each step is a round: what is sent in one is waited for in the next.
    """
    steps = 0 if is_all else 2 * (len(comm.hosts) - 1)
    if share >= min(map(len, comm.hosts)):
        yield from [None] * steps
        return
    carriers = comm.subset(host[share] for host in comm.hosts)
    if is_all and part.size:
        name = on_wires("all_reduce", part.nbytes, carriers.size, comm.link)
        lookup("all_reduce", name).fn(carriers, part, op=op)
    chunks, me, size = split_evenly(part, carriers.size), carriers.rank, carriers.size
    for step in range(steps):  # as `ring`
        target = chunks[(me - 2 - step) % size]
        adds = step < size - 1
        coming = carriers.irecv(None if adds else target, (me - 1) % size)
        carriers.isend(chunks[(me - 1 - step) % size], (me + 1) % size)
        yield
        received = coming.wait()
        if adds:
            comm.combine(target, received, op)


class _Memory:
    """The arrays and results of the ranks of a host, in its memory.

    Of an array outside of it only what the others need goes there, and back.
    """

    def __init__(
        self,
        comm: "Communicator",
        inside: "Communicator",
        rendezvous: SharedRendezvous,
        x: NDArray,
        out: NDArray | None,
        op: str,
    ) -> None:
        self._comm, self._inside, self._rendezvous, self._op = comm, inside, rendezvous, op
        self.box = rendezvous.result(x, out)
        self._is_near = rendezvous.reaches(x)
        self._is_filled = out is None or out is self.box  # once the box is
        self._source = x if self._is_near else self.box
        self._mine = x.reshape(-1)
        self._total = (self.box if out is None else out).reshape(-1)
        self.parts = _parts_of(x, min(map(len, comm.hosts)))
        self._arrays: list[NDArray] = []
        self._results: list[NDArray] = []

    def meet(self) -> None:
        """Return once all are here; the first time, know where the others' arrays lie."""
        if self._arrays:
            self._rendezvous.leave()
            return
        me, header = self._inside.rank, self._inside.header
        self._arrays, self._results = self._rendezvous.share(header, self._source, self.box)
        self._arrays[me], self._results[me] = self._mine, self._total

    def reduce(self, *parts: slice) -> Iterator[None]:
        """Reduce a piece: a part of each share, of which one is this rank's own, if any."""
        inside, box = self._inside, self.box.reshape(-1)
        me = inside.rank
        others = [part for share, part in enumerate(parts) if share != me]
        own = parts[me] if me < len(parts) else slice(0, 0)
        for part in () if self._is_near else others:
            box[part] = self._mine[part]
        yield
        reduce_slice(inside, self._arrays, self._total, [], own, self._op)
        is_all = len(self.parts[0]) == 1
        yield from _reduce_between_hosts(self._comm, me, self._total[own], is_all, self._op)
        for result in self._results:
            if result is not self._total:
                result[own] = self._total[own]
        yield
        for part in () if self._is_filled else others:
            self._total[part] = box[part]


def _all_reduce_by_messages(
    comm: "Communicator", inside: "Communicator", work: NDArray, op: str
) -> NDArray:
    shares = min(map(len, comm.hosts))
    slices = [work.reshape(-1)[slice_of(i, shares, work.size)] for i in range(shares)]
    others = [(inside.rank + k) % inside.size for k in range(1, inside.size)]
    for dst in others:
        if dst < shares:
            inside.isend(slices[dst], dst)
    if inside.rank < shares:
        mine = slices[inside.rank]
        for src in reversed(others):
            inside.combine(mine, inside.take(src), op)
        parts = [work.reshape(-1)[part] for part in _parts_of(work, shares)[inside.rank]]
        is_all = len(parts) == 1
        between = [_reduce_between_hosts(comm, inside.rank, part, is_all, op) for part in parts]
        _run_in_turn([itertools.chain([None], steps) for steps in between], lambda: None)
        for dst in others:
            inside.isend(mine, dst)
    for src in reversed(others):
        if src < shares:
            inside.take(src, slices[src])
    return work


@built_in("reduce_scatter", "hierarchical", reads=True)
def reduce_scatter(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return row `rank` of the reduction: hosts send each other rows that are reduced already."""
    inside = comm.neighbours()
    arrays, rendezvous = publish(inside, x)
    homes = comm.hosts
    totals = {}
    for k in range(len(homes)):  # the farthest first, none of two hosts with the same
        host = homes[(comm.host + 1 + k) % len(homes)]
        for place, rank in enumerate(host):
            if place % inside.size == inside.rank:
                totals[rank] = arrays[0][rank, ...].copy()
                for array in arrays[1:]:
                    comm.combine(totals[rank], array[rank, ...], op)
                if host is not homes[comm.host]:
                    comm.isend(totals[rank], rank)
    if rendezvous is not None:
        rendezvous.leave()
    return _add_up(comm, totals[comm.rank], inside.rank, op)


def _add_up(comm: "Communicator", own: NDArray, place: int, op: str) -> NDArray:
    """Return the sum of what each host has for this rank, in the hosts' order."""
    parts = [
        own if ranks is comm.hosts[comm.host] else comm.take(ranks[place % len(ranks)])
        for ranks in comm.hosts
    ]
    total = parts[0]
    for part in parts[1:]:
        comm.combine(total, part, op)
    return total


@built_in("all_gather", "hierarchical", fills=True)
def all_gather(comm: "Communicator", x: NDArray, *, out: Rows | None = None) -> Rows:
    """Return every rank's `x`: each row crosses once to each host, and is read there by all."""
    inside = comm.neighbours()
    result = np.empty_like(x, shape=(comm.size, *x.shape)) if out is None else out
    rows = rows_of(result)
    if not same_place(x, rows[comm.rank]):
        rows[comm.rank][...] = x
    home = comm.hosts[comm.host]
    others = [host for host in comm.hosts if host is not home]
    for host in others:
        comm.isend(x, host[inside.rank % len(host)])
    carried = [
        [rank for host in others for i, rank in enumerate(host) if i % len(home) == place]
        for place in range(len(home))
    ]
    for rank in carried[inside.rank]:
        comm.take(rank, rows[rank])
    if inside.size == 1:
        return result
    own = np.stack([rows[rank] for rank in (comm.rank, *carried[inside.rank])])
    widest = 1 + max(map(len, carried))  # all offer as many rows, for all must be of one shape
    own = np.concatenate([own, np.empty_like(own, shape=(widest - len(own), *x.shape))])
    arrays, rendezvous = publish(inside, own)
    for place, array in enumerate(arrays):
        for row, rank in zip(array, (home[place], *carried[place]), strict=False):
            if place != inside.rank:
                rows[rank][...] = row
    if rendezvous is not None:
        rendezvous.leave()
    return result


@built_in("all_to_all", "hierarchical")
def all_to_all(comm: "Communicator", x: NDArray) -> NDArray:
    """Return row `rank` of every rank's `x`: neighbours read theirs, the others are sent theirs."""
    inside, home = comm.neighbours(), comm.hosts[comm.host]
    out = np.empty_like(x)
    far = [rank for rank in range(comm.size) if rank not in home]
    for rank in far:
        comm.isend(x[rank, ...], rank)
    arrays, rendezvous = publish(inside, x)
    for rank, array in zip(home, arrays, strict=True):
        out[rank] = array[comm.rank]
    if rendezvous is not None:
        rendezvous.leave()
    rows = rows_of(out)
    for rank in far:
        comm.take(rank, rows[rank])
    return out


def heads_of(comm: "Communicator", root: int = 0) -> list[int]:
    """Return the rank of each host that speaks for it: the root, or the first."""
    return [root if root in host else host[0] for host in comm.hosts]


@built_in("broadcast", "hierarchical")
def broadcast(comm: "Communicator", x: NDArray | None, *, root: int) -> NDArray:
    """Return the root's `x`: a tree joins one rank of each host, memory the ranks of each."""
    heads = heads_of(comm, root)
    if comm.rank in heads:
        between = comm.subset(heads)
        x = tree.broadcast(between, x, root=heads.index(root))
        comm.hear(between.header, root)
    inside = comm.neighbours()
    if inside.size > 1:
        x = direct.broadcast(inside, x, root=comm.hosts[comm.host].index(heads[comm.host]))
        comm.hear(inside.header, root)
    assert x is not None
    return x


@built_in("reduce", "hierarchical", reads=True)
def reduce(comm: "Communicator", x: NDArray, *, root: int, op: str) -> NDArray | None:
    """Return the reduction at the root: of each host first, then by a tree between hosts."""
    heads = heads_of(comm, root)
    inside = comm.neighbours()
    place = comm.hosts[comm.host].index(heads[comm.host])
    total = direct.reduce(inside, x, root=place, op=op) if inside.size > 1 else x.copy()
    if total is None:
        return None
    return tree.reduce(comm.subset(heads), total, root=heads.index(root), op=op)


@built_in("gather", "hierarchical")
def gather(comm: "Communicator", x: NDArray, *, root: int) -> NDArray | None:
    """Return every rank's `x` at the root: it reads its neighbours', the others send theirs."""
    inside, home = comm.neighbours(), comm.hosts[comm.host]
    if root not in home:
        comm.isend(x, root)
        return None
    near: Rows | None = x[np.newaxis]
    if inside.size > 1:
        near = direct.gather(inside, x, root=home.index(root))
    if near is None:
        return None
    out = np.empty_like(x, shape=(comm.size, *x.shape))
    rows = rows_of(out)
    for rank, row in zip(home, near, strict=True):
        out[rank] = row
    for rank in range(comm.size):
        if rank not in home:
            comm.take(rank, rows[rank])
    return out


@built_in("barrier", "hierarchical")
def barrier(comm: "Communicator") -> None:
    """Return once all ranks are here: those of each host, then the hosts.

    Where hosts have ranks without counterparts, the first of each tells its own in the end.
    """
    inside, counterparts = comm.neighbours(), _counterparts(comm)
    direct.barrier(inside)
    if counterparts is not None:
        tree.barrier(counterparts)
        return
    if inside.rank == 0:
        tree.barrier(comm.subset(heads_of(comm)))
    direct.barrier(inside)


# every message is for one rank alone: nothing is saved
built_in("scatter", "hierarchical")(reference.scatter)
