"""Ranks of one machine that wait for each other are told at once, and only these are."""

import random
import threading
from collections import defaultdict, deque

import numpy as np
import pytest

import ddp_lab
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.segment import Segment
from ddp_lab.transport.tcp.circles import Waits, parse


def run(transport: str, program, world_size: int, **options) -> list:
    """Launch; threads in a process of their own, without what other tests have left behind."""

    def ranks(_comm) -> list:
        return list(ddp_lab.launch(program, world_size, transport=transport, **options))

    return ddp_lab.launch(ranks, 1)[0] if transport == "threads" else ranks(None)


def each_receives_first(comm) -> None:
    other = 1 - comm.rank
    comm.recv(other)
    comm.send(np.ones(3), other)


def receives_from_itself(comm) -> None:
    comm.recv(comm.rank)


def one_receives_where_the_other_meets(comm) -> None:
    comm.recv(1) if comm.rank == 0 else comm.barrier()


def works_beside(comm) -> None:
    comm.all_reduce(np.ones(3), async_op=True).wait()


def waits_after_work_beside(comm) -> None:
    works_beside(comm)
    each_receives_first(comm)


def a_ring_that_has_worked_before(comm) -> None:
    for _ in range(3):
        comm.send(np.ones(3), (comm.rank + 1) % comm.size)
        comm.recv((comm.rank - 1) % comm.size)
    comm.recv((comm.rank - 1) % comm.size)


def one_waits_for_a_circle_of_others(comm) -> None:
    comm.recv(0 if comm.rank == 2 else 1 - comm.rank)


@pytest.mark.parametrize(
    ("program", "world_size", "circle"),
    [
        (each_receives_first, 2, [(0, 1), (1, 0)]),
        (waits_after_work_beside, 2, [(0, 1), (1, 0)]),
        (receives_from_itself, 1, [(0, 0)]),
        (one_receives_where_the_other_meets, 2, [(0, 1), (1, 0)]),
        (a_ring_that_has_worked_before, 3, [(0, 2), (1, 0), (2, 1)]),
        (one_waits_for_a_circle_of_others, 3, [(0, 1), (1, 0)]),
    ],
)
@pytest.mark.parametrize("transport", ["shm", "threads", "tcp"])
def test_a_circle_is_told_with_who_waits_for_whom(
    program, world_size: int, circle, transport: str
) -> None:
    with pytest.raises(ddp_lab.Deadlock) as caught:
        run(transport, program, world_size)
    for rank, peer in circle:
        assert f"rank {rank} waits for rank {peer} in " in str(caught.value)
    assert f"{__file__}:" in str(caught.value)
    assert str(caught.value).count(" waits for ") == len(circle)


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_a_circle_over_an_emulated_link_is_told(transport: str) -> None:
    def rank(comm) -> None:
        comm.recv((comm.rank + 1) % comm.size)

    with pytest.raises(ddp_lab.Deadlock, match="rank 3 waits for rank 0 in recv"):
        run(transport, rank, 4, hosts=2, link=ddp_lab.Link(1e-3, 1e-8))


@pytest.mark.parametrize(
    ("peers", "circle"),
    [
        ((1, 2, 3, 0), "0123"),  # two of the four waits are between hosts
        ((2, 0, 1, 1), "012"),  # rank 3 waits for a circle that it is no part of
        ((1, 3, 0, 2), "0132"),
    ],
)
def test_a_circle_partly_in_shared_memory_and_partly_over_tcp_is_told(peers, circle: str) -> None:
    def rank(comm) -> None:
        comm.barrier()
        comm.recv(peers[comm.rank])

    with pytest.raises(ddp_lab.Deadlock) as caught:
        run("shm", rank, 4, hosts=2)
    for waiting in map(int, circle):
        assert f"rank {waiting} waits for rank {peers[waiting]} in recv" in str(caught.value)
    assert str(caught.value).count(" waits for ") == len(circle)


def test_threads_without_a_way_to_the_ranks_are_no_senders() -> None:
    def beside_the_kernel(comm) -> None:
        class Kernels(threading.Thread):
            __module__ = "ipykernel.control"

            def run(self) -> None:
                threading.Event().wait()

        Kernels(daemon=True).start()
        ddp_lab.launch(works_beside, 2, transport="threads")
        ddp_lab.launch(each_receives_first, 2, transport="threads")

    with pytest.raises(ddp_lab.Deadlock):
        ddp_lab.launch(beside_the_kernel, 1)


def test_a_thread_that_runs_a_function_of_no_module_disturbs_no_launch() -> None:
    lock = threading.Lock()
    with lock:
        waiting = threading.Thread(target=lock.acquire)  # whose __module__ is None
        waiting.start()
        assert ddp_lab.launch(lambda comm: comm.rank, 2, transport="threads") == [0, 1]
    waiting.join()


@pytest.mark.parametrize("transport", ["shm", "threads", "tcp"])
def test_who_may_still_send_from_another_thread_is_in_no_circle(transport: str) -> None:
    def rank(comm) -> float:
        other = 1 - comm.rank
        sender = None
        if comm.rank == 0:
            arrived = threading.Event()  # never set: it sends after longer than many looks
            sender = threading.Thread(
                target=lambda: (arrived.wait(1.0), comm.send(np.full(1, 7.0), other))
            )
            sender.start()
        received = comm.recv(other)
        if sender is None:
            comm.send(received, other)
        else:
            sender.join()
        return float(received[0])

    assert run(transport, rank, 2) == [7.0, 7.0]


@pytest.mark.parametrize("transport", ["shm", "threads", "tcp"])
def test_who_receives_in_another_thread_may_still_send(transport: str) -> None:
    def rank(comm) -> float:
        if comm.rank == 1:
            received = comm.recv(0)
            comm.send(received, 0)
            return float(received[0])
        heard: list[np.ndarray] = []
        listener = threading.Thread(target=lambda: heard.append(comm.recv(1)))
        listener.start()
        threading.Event().wait(1.0)  # never set: longer than many looks
        comm.send(np.full(1, 7.0), 1)
        listener.join()
        return float(heard[0][0])

    assert run(transport, rank, 2) == [7.0, 7.0]


@pytest.mark.parametrize("transport", ["shm", "threads", "tcp"])
def test_a_wait_with_a_limit_of_its_own_is_in_no_circle(transport: str) -> None:
    def rank(comm) -> str:
        other = 1 - comm.rank
        try:
            comm.irecv(other).wait(0.5)
        except ddp_lab.RankTimeout as error:
            assert not isinstance(error, ddp_lab.Deadlock)
        comm.send(np.zeros(1), other)
        return "went on"

    assert run(transport, rank, 2) == ["went on"] * 2


def test_only_notes_of_the_waits_that_last_close_a_circle() -> None:
    segment = Segment.create(3, 64 << 20)
    board = ShmBoard(segment)
    board.wait(0, 1, b"a:1")
    board.wait(1, 2, b"a:1")
    board.wait(2, 0, b"a:1")
    assert board.circle(0) == []  # nobody has looked
    for rank, peer in ((0, 1), (1, 2), (2, 0)):
        board.note_in_vain(rank, board.wait_number(peer))
    assert board.circle(0) == [1, 2, 0]
    assert board.circle(2) == [0, 1, 2]
    board.wait(1, -1, b"")
    assert board.wait_number(1) == 0
    assert board.circle(0) == []
    board.wait(1, 2, b"a:2")  # again, and it has not looked yet; what it sent may be on its way
    board.note_in_vain(1, board.wait_number(2))
    assert board.circle(0) == []  # rank 0 looked before that
    board.note_in_vain(0, board.wait_number(1))
    assert board.circle(0) == [1, 2, 0]
    segment.words[segment.layout.board(2) // 8] += 1  # its writer is in the middle
    assert board.circle(0) == []
    segment.close()


class Ranks:
    """Ranks that send, wait and look in any order, over connections that keep order.

    With `near`, those whose numbers are both even or both odd share memory.
    """

    def __init__(self, size: int, seed: int, near: bool) -> None:
        self.draw = random.Random(seed)
        self.size = size
        self.links: dict[tuple[int, int], deque[bytes | None]] = defaultdict(deque)  # None: data
        self.arrived: dict[tuple[int, int], int] = defaultdict(int)
        self.waits_for: list[int | None] = [None] * size
        self.told: set[int] = set()  # who was told of a circle
        self.near = near
        self.posted = [b""] * size
        self.seen: dict[int, bytes] = {}  # by rank that waits for a near one: its last post
        self.looking: set[int] = set()  # who has looked for a message and not yet at the post
        self.waits = [
            Waits(lambda peer, words, r=r: self.tell(r, peer, words)) for r in range(size)
        ]
        for rank, waits in enumerate(self.waits):
            waits.post = lambda words, rank=rank: self.posted.__setitem__(rank, words)

    def is_near(self, rank: int, peer: int) -> bool:
        return self.near and rank % 2 == peer % 2

    def tell(self, rank: int, peer: int, words: bytes) -> bool:
        takes_more = self.draw.random() < 0.8
        if takes_more:
            self.links[rank, peer].append(words)
        return takes_more

    def step(self, may_start: bool) -> None:
        """Deliver what leads one connection, or let one rank go on."""
        rank, peer = self.draw.sample(range(self.size), 2)
        awaited = self.waits_for[rank]
        if self.draw.random() < 0.5:
            self.deliver(rank, peer)
        elif awaited is not None:
            self.look(rank, awaited)
        elif may_start and self.draw.random() < 0.5:
            self.send(rank, peer)
        elif may_start:
            self.waits[rank].begin()
            self.waits_for[rank] = peer
            self.seen.pop(rank, None)

    def send(self, rank: int, peer: int) -> None:
        if self.is_near(rank, peer):
            self.arrived[rank, peer] += 1
        else:
            self.links[rank, peer].append(None)

    def deliver(self, src: int, dst: int) -> None:
        if self.links[src, dst]:
            words = self.links[src, dst].popleft()
            if words is None:
                self.arrived[src, dst] += 1
            else:
                self.waits[dst].hear(src, words)

    def look(self, rank: int, awaited: int) -> None:
        if rank in self.looking:  # for a near one: others may have gone on since it looked
            self.looking.remove(rank)
            circle = self.waits[rank].close(rank, "", parse(self.seen.get(rank, b"")))
            self.seen[rank] = self.posted[awaited]
        elif self.arrived[awaited, rank]:
            self.arrived[awaited, rank] -= 1
            self.waits_for[rank] = None
            return
        elif self.is_near(rank, awaited):
            self.looking.add(rank)
            return
        else:
            circle = self.waits[rank].circle(rank, awaited, "", lambda: False)
        if circle:
            self.told.add(rank)
            members = [member for member, _, _ in circle]
            assert members == self.circle_from(rank)

    def circle_from(self, rank: int) -> list[int]:
        """Return the true circle of a rank, seen from outside."""
        members: list[int] = []
        while (awaited := self.waits_for[rank]) is not None and awaited not in members:
            if self.arrived[awaited, rank] or None in self.links[awaited, rank]:
                return []
            members.append(awaited)
            rank = awaited
        return members if awaited is not None else []


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("seed", [*range(30), 270])  # 270: who goes by a post unseen errs
def test_what_ranks_tell_each_other_proves_all_circles_and_no_other(seed: int, near: bool) -> None:
    ranks = Ranks(2 + seed % 4, seed, near)
    for number in range(3000):
        ranks.step(may_start=number < 300)
    for rank in range(ranks.size):
        assert (rank in ranks.told) is (rank in ranks.circle_from(rank))
