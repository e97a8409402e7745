"""Ranks on hosts: who lies where, what crosses the links, and when a message is there."""

import itertools
import time

import numpy as np
import pytest

import ddp_lab
from ddp_lab import InvalidArgument, Link, launch
from ddp_lab.collectives.choose import choose
from ddp_lab.collectives.hierarchical import PIECE_BYTES
from ddp_lab.collectives.registry import COLLECTIVES, algorithms
from ddp_lab.parallel import Pipeline, ShardedOptimizer, fully_shard, parallelize
from ddp_lab.transport.links.emulated_link import MOST_STRETCHES, merge_stretches, of_threads
from ddp_lab.transport.links.link import equal_hosts, within
from ddp_lab.transport.shm.interfaces import of_processes
from ddp_lab.transport.shm.segment import Segment

FAST = Link(1e-5, 1e-9)
SPREADS = [
    pytest.param(4, {"hosts": 2, "link": FAST}, id="2x2 over a link"),
    pytest.param(4, {"hosts": 2, "link": FAST, "transport": "threads"}, id="2x2 of threads"),
    pytest.param(6, {"hosts": 3, "link": FAST}, id="3x2 over a link"),
    pytest.param(6, {"hosts": 2, "link": FAST}, id="2x3 over a link"),
    pytest.param(3, {"hosts": 3, "link": FAST}, id="3x1 over a link"),
    pytest.param(4, {"hosts": 2}, id="2x2 over TCP"),
    pytest.param(4, {"hosts": 4}, id="4x1 over TCP"),
    pytest.param(3, {}, id="one host"),
    pytest.param(3, {"transport": "tcp"}, id="one host over TCP"),
]


def all_collectives(comm, elements: int) -> None:
    """Call each collective in two levels, and compare with NumPy."""
    size, rank = comm.size, comm.rank
    numbers = np.random.default_rng(0)
    arrays = [numbers.integers(-9, 9, (size, elements)).astype(float) for _ in range(size)]
    x, every = arrays[rank], np.stack(arrays)
    for name in ("hierarchical", "auto"):
        for op, total in (("sum", every.sum(0)), ("max", every.max(0))):
            np.testing.assert_array_equal(comm.all_reduce(x, op, algorithm=name), total)
            shared = comm.empty(x.shape, x.dtype)
            shared[...] = x
            for target in (x.copy(), shared):
                comm.all_reduce(target, op, algorithm=name, out=target)
                np.testing.assert_array_equal(target, total)
            got = comm.reduce_scatter(x, op, algorithm=name)
            np.testing.assert_array_equal(got, total[rank])
            root = size - 1
            got = comm.reduce(x, root, op, algorithm=name)
            np.testing.assert_array_equal(got, total if rank == root else None)
        np.testing.assert_array_equal(comm.all_gather(x, algorithm=name), every)
        np.testing.assert_array_equal(comm.all_to_all(x, algorithm=name), every[:, rank])
        for root in range(size):
            mine = x if rank == root else None
            np.testing.assert_array_equal(comm.broadcast(mine, root, algorithm=name), arrays[root])
            got = comm.gather(x, root, algorithm=name)
            np.testing.assert_array_equal(got, every if rank == root else None)
            parts = None if mine is None else list(mine)
            np.testing.assert_array_equal(
                comm.scatter(parts, root, algorithm=name), arrays[root][rank]
            )
        comm.barrier(algorithm=name)


@pytest.mark.parametrize(("size", "spread"), SPREADS)
def test_collectives_in_two_levels_are_right_wherever_ranks_lie(size: int, spread: dict) -> None:
    for elements in (3, 5001):  # by mailboxes and where they lie
        launch(all_collectives, size, elements, **spread)


def test_every_collective_has_a_form_in_two_levels() -> None:
    assert [c for c in COLLECTIVES if "hierarchical" not in algorithms(c)] == []


def same_bits(comm) -> bytes:
    x = np.random.default_rng(comm.rank).standard_normal(10_007).astype(np.float32)
    return comm.all_reduce(x, "avg").tobytes()


@pytest.mark.parametrize(("size", "spread"), SPREADS[:7])
def test_all_ranks_get_the_same_bits(size: int, spread: dict) -> None:
    assert len(set(launch(same_bits, size, **spread))) == 1


def reduce_in_pieces(comm) -> None:
    count = (2 * PIECE_BYTES + PIECE_BYTES // 2) // 8 + 7  # of elements: no piece is whole
    arrays = [np.random.default_rng(rank).integers(-9, 9, count) for rank in range(comm.size)]
    x, total = arrays[comm.rank], np.sum(arrays, 0)
    near = comm.empty(x.shape, x.dtype)
    near[...] = x
    np.testing.assert_array_equal(comm.all_reduce(x, algorithm="hierarchical"), total)
    fewer = comm.split(int(comm.rank < comm.size - 1))  # one host has a rank less than the others
    left = total - arrays[-1] if fewer.size > 1 else x
    np.testing.assert_array_equal(fewer.all_reduce(x, algorithm="hierarchical"), left)
    for array in (near, x):  # in the host's memory and elsewhere, and the one into the other
        for out in (np.empty_like(x), comm.empty(x.shape, x.dtype), array):
            comm.all_reduce(array, algorithm="hierarchical", out=out)
            np.testing.assert_array_equal(out, total)


@pytest.mark.parametrize(("size", "spread"), SPREADS[:7])
def test_a_large_array_is_reduced_in_pieces(size: int, spread: dict) -> None:
    launch(reduce_in_pieces, size, **spread)


def places(comm) -> tuple:
    odd = comm.split(comm.rank % 2)
    return comm.hosts, comm.host, odd.hosts, odd.host


def meetings(comm, size: int) -> list[int]:
    """Return how often the first two ranks of a group meet in each of three calls."""
    group = comm.split(0 if comm.rank < size else None)
    counts = []
    for elements in (0, 256, 4096) if group is not None else ():
        inside = group._inside().neighbours()
        before = inside.rendezvous()._phase
        if elements:
            group.all_reduce(np.ones(elements, np.float32))
        else:
            group.barrier()
        counts.append(inside.rendezvous()._phase - before)
    return counts


@pytest.mark.parametrize(("size", "counts"), [(4, [1, 1, 2]), (3, [2, 2, 2])])
def test_ranks_of_a_host_meet_once_where_latency_is_all(size: int, counts: list[int]) -> None:
    """Of three, the second has nobody on the other host."""
    results = launch(meetings, 4, size, hosts=2, link=FAST, transport="shm")
    assert results[:2] == [counts] * 2


def test_a_communicator_and_its_splits_know_their_hosts() -> None:
    assert launch(places, 4, hosts=2, link=FAST) == [
        (((0, 1), (2, 3)), 0, ((0,), (1,)), 0),
        (((0, 1), (2, 3)), 0, ((0,), (1,)), 0),
        (((0, 1), (2, 3)), 1, ((0,), (1,)), 1),
        (((0, 1), (2, 3)), 1, ((0,), (1,)), 1),
    ]
    assert launch(places, 2)[0] == (((0, 1),), 0, ((0,),), 0)
    assert within(((0, 3), (1, 2)), (3, 2, 0)) == ((2, 0), (1,))
    assert within(((0, 3), (1,), (2,)), (2, 3)) == ((1,), (0,))


def one_call(comm, name: str, n_bytes: int) -> None:
    x = np.zeros((comm.size, n_bytes // comm.size), np.uint8)
    call = getattr(comm, name)
    given = {"all_gather": x[0], "gather": x[0], "scatter": list(x) if comm.rank == 0 else None}
    call(*(() if name == "barrier" else (given.get(name, x),)), algorithm="hierarchical")


def crossing(results, hosts) -> dict[tuple[int, int], int]:
    """Return the bytes from each host to each other one."""
    home = {rank: h for h, ranks in enumerate(hosts) for rank in ranks}
    pairs = dict.fromkeys(itertools.permutations(range(len(hosts)), 2), 0)
    for message in results.trace.messages:
        pair = home[message.src], home[message.dst]
        if pair in pairs:
            pairs[pair] += message.n_bytes
    return pairs


WHOLE = 4 * 6 * 1024  # bytes of the array, or of all rows together


@pytest.mark.parametrize(
    ("name", "out_of_0", "out_of_1"),
    [
        ("all_reduce", WHOLE, WHOLE),  # 2 (H-1)/H N
        ("reduce_scatter", WHOLE // 2, WHOLE // 2),  # the rows of the other host, reduced
        ("all_gather", WHOLE // 2, WHOLE // 2),
        ("all_to_all", 2 * WHOLE // 2, 2 * WHOLE // 2),  # two ranks, half of what each has
        ("broadcast", WHOLE, 0),
        ("reduce", 0, WHOLE),
        ("gather", 0, WHOLE // 2),
        ("scatter", WHOLE // 2, 0),
        ("barrier", 0, 0),
    ],
)
def test_what_crosses_a_link_is_the_least_there_can_be(name, out_of_0, out_of_1) -> None:
    results = launch(one_call, 4, name, WHOLE, hosts=2, link=FAST, record=True)
    pairs = crossing(results, ((0, 1), (2, 3)))
    assert (pairs[0, 1], pairs[1, 0]) == (out_of_0, out_of_1)


def shard_a_step(comm, kind: str) -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(64, 63, bias=True)  # 4095 parameters: one is added for equal shares
    if kind == "zero1":
        optimizer = ShardedOptimizer(model.parameters(), torch.optim.SGD, comm, lr=0.1)
    else:
        fully_shard(model, comm)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()


@pytest.mark.parametrize(("kind", "gathers", "reductions"), [("zero1", 1, 0), ("zero3", 2, 1)])
def test_sharded_training_sends_across_what_its_method_needs(kind, gathers, reductions) -> None:
    results = launch(shard_a_step, 4, kind, hosts=2, link=FAST, record=True)
    whole = 4 * 4096
    least = (gathers + reductions) * whole // 2  # half of the rows are the other host's
    for crossed in crossing(results, ((0, 1), (2, 3))).values():
        assert least <= crossed <= least + 4096  # and small messages of agreement


def split_a_step(comm, kind: str) -> None:
    import torch

    torch.manual_seed(0)
    x = torch.ones(64, 256, requires_grad=True)
    if kind == "tensor":
        model = torch.nn.Sequential(*(torch.nn.Linear(256, 256, bias=False) for _ in range(2)))
        parallelize(model, comm, {"0": "column", "1": "row"})
        model(x).sum().backward()
        return
    stage = torch.nn.Linear(256, 256)
    pipeline = Pipeline(comm, stage, microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    pipeline.step(x if comm.rank == 0 else None, x if comm.rank == 3 else None)


@pytest.mark.parametrize(("kind", "out_of_0", "out_of_1"), [("tensor", 2, 2), ("pipeline", 1, 1)])
def test_split_models_send_across_their_activations_and_no_more(kind, out_of_0, out_of_1) -> None:
    """Tensor layers reduce output and gradient; of a pipeline one pair of stages is joined."""
    results = launch(split_a_step, 4, kind, hosts=2, link=FAST, record=True)
    crossed, whole = crossing(results, ((0, 1), (2, 3))), 4 * 64 * 256
    for pair, times in (((0, 1), out_of_0), ((1, 0), out_of_1)):
        assert times * whole <= crossed[pair] <= times * whole + 4096  # and words of agreement


def test_auto_chooses_by_the_hosts_and_by_the_link() -> None:
    pairs, alone = ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))
    slow_start, narrow = Link(1.0, 1e-9), Link(1e-9, 1.0)
    assert choose("all_reduce", 1000, False, pairs, slow_start) == "hierarchical"
    assert choose("all_reduce", 1000, False, alone, slow_start) == "recursive_doubling"
    assert choose("all_reduce", 1000, False, alone, narrow) == "halving_doubling"
    assert choose("all_reduce", 1000, False, alone[:3], narrow) == "ring"
    assert choose("all_reduce", 1 << 30, True, ((0, 1),), None) == "two_shot"


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_a_message_leaves_after_those_before_it_and_is_there_alpha_after_its_last_byte(
    kind: str,
) -> None:
    hosts = equal_hosts(6, 3)
    now = iter([1000, 1000, 1000, 1000, 1010, 1010, 1010, 5000])
    segment = Segment.create(6)
    ways = (
        of_threads(hosts, lambda: next(now))
        if kind == "threads"
        else of_processes(segment, hosts, lambda: next(now))
    )
    assert ways.reserve(0, 1, 100, 7) == 1000 + 100 + 7
    assert ways.reserve(0, 1, 100, 7) == 1000 + 200 + 7  # the same way out
    assert ways.reserve(1, 0, 100, 7) == 1000 + 100 + 7  # full duplex
    assert ways.reserve(0, 2, 50, 7) == 1000 + 250 + 7  # to another host, the same way out
    assert ways.reserve(1, 2, 50, 7) == 1100 + 50 + 7  # it is in before that one has left
    assert ways.reserve(1, 2, 100, 7) == 1250 + 7 + 100  # behind that one, on the same way in
    assert ways.reserve(1, 2, 0, 7) == 1250 + 7  # a message without bytes waits for none
    assert ways.reserve(2, 0, 1, 7) == 5000 + 1 + 7
    segment.close()


def test_a_busy_way_in_is_remembered_in_a_bounded_number_of_stretches() -> None:
    busy: list[tuple[int, int]] = []
    for number in range(3 * MOST_STRETCHES):
        busy = merge_stretches([*busy, (10 * number, 10 * number + 5)])
    assert len(busy) == MOST_STRETCHES
    assert busy[0][0] == 0 and busy[-1] == (10 * number, 10 * number + 5)
    assert merge_stretches([(5, 9), (0, 5)]) == [(0, 9)]


def ping(comm, n_bytes: int) -> tuple[float, float]:
    """Return when the message was sent or received, and the processor time of the wait."""
    comm.barrier()
    began_at, worked = time.monotonic(), time.process_time()
    if comm.rank == 0:
        comm.send(np.zeros(n_bytes, np.uint8), 1)
        return began_at, 0.0
    comm.recv(0)
    return time.monotonic(), time.process_time() - worked


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_a_message_is_not_there_before_the_link_has_delivered_it(transport: str) -> None:
    link = Link(0.05, 1e-6)
    sent, received = launch(ping, 2, 100_000, hosts=2, link=link, transport=transport)
    (sent_at, _), (received_at, worked) = sent, received
    assert received_at - sent_at >= 0.15  # one clock for all ranks of a machine
    assert transport == "threads" or worked < 0.5 * 0.15


def impatient(comm) -> bool:
    if comm.rank == 0:
        comm.send(np.zeros(1), 1)
        return True
    work = comm.irecv(0)
    with pytest.raises(ddp_lab.RankTimeout, match=r"recv: nothing came: rank 1 waited 0.01 s"):
        work.wait(0.01)
    return not work.test() and work.wait() == 0 and work.test()


def test_a_wait_that_is_given_up_can_be_taken_up_again() -> None:
    assert all(launch(impatient, 2, hosts=2, link=Link(1.0, 0.0)))


def late(comm) -> None:
    comm.all_reduce(np.ones(4))


def test_a_run_ends_at_its_timeout_whatever_its_link_still_holds_back() -> None:
    with pytest.raises(ddp_lab.RankTimeout):
        launch(late, 2, hosts=2, link=Link(1000.0, 0.0), timeout_s=0.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hosts": 3}, "got hosts=3 for 4 ranks, expected a number that divides them"),
        ({"hosts": 0}, "got hosts=0"),
        ({"hosts": True}, "got hosts=True"),
        ({"hosts": 2, "link": 5}, "no such link: got 5"),
        ({"hosts": 2, "link": Link(-1, 0)}, "no such link"),
        ({"hosts": 2, "link": Link(float("nan"), 0)}, "no such link"),
        ({"hosts": 2, "transport": "threads"}, "Use transport='shm', or give a link"),
        ({"hosts": 2, "transport": "gloo"}, "got transport='gloo' with hosts=2"),
    ],
)
def test_hosts_and_links_that_cannot_be_are_refused(options: dict, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        launch(places, 4, **options)
