"""What a communicator promises, whatever carries it."""

import subprocess
import sys
import textwrap
import threading
from functools import partial

import numpy as np
import pytest

import ddp_lab
from ddp_lab.handle import Crew, Worker
from ddp_lab.transport.sim import TurnWorld


def threads(fn, world_size: int, *args, **options):
    return ddp_lab.launch(fn, world_size, *args, transport="threads", **options)


@pytest.mark.parametrize("world_size", [2, 3, 5])
@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_ring_moves_exactly_its_share_of_the_bytes(world_size: int, transport: str) -> None:
    x = np.ones(60 * world_size, np.float32)
    run = ddp_lab.launch(
        lambda comm: comm.all_reduce(x, algorithm="ring"),
        world_size,
        transport=transport,
        record=True,
    )
    for traffic in run.traffic:
        assert traffic.bytes_sent == 2 * (world_size - 1) * x.nbytes // world_size
        assert traffic.messages_sent == 2 * (world_size - 1)


def test_messages_arrive_in_order_and_receives_match_in_order_of_posting() -> None:
    def rank(comm):
        if comm.rank == 0:
            for value in range(5):
                comm.send(np.full(3, value), 1)
            return None
        works = [comm.irecv(0) for _ in range(5)]
        return [int(work.wait()[0]) for work in reversed(works)]

    for transport in ("threads", "shm"):
        assert ddp_lab.launch(rank, 2, transport=transport)[1] == [4, 3, 2, 1, 0]


def test_recv_fills_the_buffer_and_returns_it() -> None:
    def rank(comm):
        if comm.rank == 0:
            comm.send(np.arange(4.0), 1)
            return True
        buffer = np.zeros(4)
        return comm.recv(buffer, 0) is buffer and buffer.tolist() == [0, 1, 2, 3]

    for transport in ("threads", "shm"):
        assert all(ddp_lab.launch(rank, 2, transport=transport))


def test_everybody_may_send_before_receiving() -> None:
    def rank(comm):
        comm.send(np.full(1_000_000, comm.rank, np.uint8), (comm.rank + 1) % comm.size)
        return int(comm.recv((comm.rank - 1) % comm.size)[-1])

    for transport in ("threads", "shm"):
        assert ddp_lab.launch(rank, 3, transport=transport) == [2, 0, 1]


@pytest.mark.parametrize(("count", "size"), [(40, 4_000), (2_000, 30), (30, 30_000)])
def test_everybody_may_send_many_messages_before_receiving(count: int, size: int) -> None:
    def rank(comm):  # more than the queue between two ranks holds
        for number in range(count):
            comm.send(np.full(size, number, np.float32), 1 - comm.rank)
        return [int(comm.recv(1 - comm.rank)[-1]) for _ in range(count)] == [*range(count)]

    for transport in ("threads", "shm"):
        assert ddp_lab.launch(rank, 2, transport=transport, timeout_s=120) == [True, True]


def test_the_array_sent_may_be_changed_afterwards() -> None:
    def rank(comm):
        x = np.zeros(100_000)
        if comm.rank == 0:
            comm.send(x, 1)
            x[:] = 7
            comm.barrier()
            return 0.0
        comm.barrier()
        return float(comm.recv(0).sum())

    for transport in ("threads", "shm"):
        assert ddp_lab.launch(rank, 2, transport=transport)[1] == 0


def test_average_divides_by_the_world_size() -> None:
    def rank(comm):
        x = np.array([1.0, 2.0]) * (comm.rank + 1)
        rows = np.ones((comm.size, 2)) * comm.rank
        return (
            comm.all_reduce(x, op="avg").tolist(),
            comm.reduce_scatter(rows, op="avg").tolist(),
            comm.all_reduce(np.array([3 * comm.rank - 4]), op="avg").tolist(),
        )

    assert threads(rank, 3)[1] == ([2, 4], [1, 1], [-1])


def test_split_orders_by_key_and_leaves_out_those_without_a_color() -> None:
    def rank(comm):
        group = comm.split(None if comm.rank == 4 else comm.rank % 2, key=-comm.rank)
        if group is None:
            return None
        nested = group.split(0)
        total = nested.all_reduce(np.array([comm.rank]))
        return group.rank, group.size, int(total[0]), group.all_gather(comm.rank).tolist()

    for transport in ("threads", "shm"):
        result = ddp_lab.launch(rank, 5, transport=transport)
        assert result[0] == (1, 2, 2, [2, 0])
        assert result[3] == (0, 2, 4, [3, 1])
        assert result[4] is None


def test_grid_joins_the_ranks_that_differ_in_one_axis_only() -> None:
    def rank(comm):
        axes = comm.grid(dp=2, pp=3)
        return {name: group.all_gather(comm.rank).tolist() for name, group in axes.items()}

    result = threads(rank, 6)
    assert result[4] == {"dp": [1, 4], "pp": [3, 4, 5]}
    with pytest.raises(ddp_lab.RankFailed, match="whose product is 4"):
        threads(lambda comm: comm.grid(dp=3, pp=2), 4)


def test_asynchronous_collectives_keep_the_order_of_their_calls() -> None:
    def rank(comm):
        handles = [comm.all_reduce(np.array([i]), async_op=True) for i in range(20)]
        now = int(comm.all_reduce(np.array([100]))[0])
        return [int(h.wait()[0]) for h in handles], now, handles[0].test()

    for transport in ("threads", "shm"):
        got = ddp_lab.launch(rank, 3, transport=transport)[2]
        assert got == ([3 * i for i in range(20)], 300, True)


def test_a_handle_has_what_the_collective_raised() -> None:
    def rank(comm):
        handle = comm.all_reduce(np.zeros(2 + comm.rank), async_op=True)
        return type(handle.exception()).__name__

    assert "Mismatch" in threads(rank, 2)


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
def test_what_nobody_waited_for_is_reported_all_the_same(transport: str) -> None:
    def differing(comm):
        comm.all_reduce(np.zeros(2 + comm.rank), async_op=True)

    def alone(comm):
        if comm.rank == 0:
            comm.all_reduce(np.zeros(2), async_op=True)

    def leaving(comm):
        differing(comm)
        raise SystemExit(0)

    for rank in (differing, leaving):
        with pytest.raises(ddp_lab.RankFailed, match="all_reduce"):
            ddp_lab.launch(rank, 2, transport=transport)
    with pytest.raises(ddp_lab.RankFailed, match="rank 1"):
        ddp_lab.launch(alone, 2, transport=transport)


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_what_nobody_waited_for_still_happens(transport: str) -> None:
    def rank(comm):
        total = np.ones(3)
        comm.all_reduce(total, async_op=True, out=total)
        return total

    assert [r.tolist() for r in ddp_lab.launch(rank, 2, transport=transport)] == [[2.0] * 3] * 2


def my_sum(comm, x, op):
    total = x * 0
    for array in comm.all_gather(x):
        total += array
    return total


def test_a_learners_algorithm_runs_by_name_on_every_transport() -> None:
    ddp_lab.register_algorithm("all_reduce", "my_sum", my_sum)
    assert "my_sum" in ddp_lab.algorithms("all_reduce")

    def rank(comm):
        x = np.array([1.0, comm.rank])
        got = comm.all_reduce(x, algorithm="my_sum", op="avg")
        return got.tolist(), x.tolist()

    for transport in ("threads", "shm"):
        assert ddp_lab.launch(rank, 2, transport=transport)[1] == ([1, 0.5], [1, 1])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda comm: comm.send(np.zeros(1), 9), r"send: no such rank: got 9, expected 0 to 1"),
        (lambda comm: comm.recv(-1), "recv: no such rank"),
        (lambda comm: comm.recv(), "recv: no such rank: got None"),
        (lambda comm: comm.all_reduce(np.zeros(2), op="mean"), "unknown operation: got 'mean'"),
        (lambda comm: comm.all_reduce(np.zeros(2), op="bxor"), "not defined for this dtype"),
        (lambda comm: comm.all_reduce(np.array(["a"])), "not an array of numbers"),
        (lambda comm: comm.all_reduce([[1], [1, 2]]), "not a rectangular array"),
        (lambda comm: comm.all_reduce(np.zeros(2), algorithm="rnig"), "expected one of auto"),
        (lambda comm: comm.reduce_scatter(np.zeros(3)), r"got shape \(3,\), expected \(2, ...\)"),
        (lambda comm: comm.scatter([np.zeros(1)], comm.rank), "got 1 parts, expected 2"),
        (lambda comm: comm.broadcast(None, comm.rank), "the root has nothing to send"),
        (lambda comm: comm.all_reduce(np.zeros(2), out=np.zeros(3)), "out= does not fit"),
        (lambda comm: comm.recv(np.zeros(4)[::2], 0), "cannot write into this buffer"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_was_expected(call, says: str) -> None:
    with pytest.raises(ddp_lab.RankFailed, match=says):
        threads(call, 2)


def test_the_registry_keeps_its_own_names() -> None:
    with pytest.raises(ValueError, match="the name is taken: got 'ring'"):
        ddp_lab.register_algorithm("all_reduce", "ring", my_sum)
    with pytest.raises(ValueError, match="unknown collective: got 'allreduce'"):
        ddp_lab.algorithms("allreduce")


def test_all_orders_of_delivery_lead_to_the_same_bits() -> None:
    inputs = np.random.default_rng(1).normal(size=(4, 33))

    def rank(comm):
        first = comm.all_reduce(inputs[comm.rank], algorithm="ring")
        second = comm.all_to_all(first[:32].reshape(4, 8))
        return comm.reduce_scatter(second, algorithm="ring")

    results = [ddp_lab.launch(rank, 4, transport=TurnWorld(4, seed)) for seed in range(25)]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])


def test_a_bare_transport_and_numpy_are_all_it_needs() -> None:
    """A structural transport of four methods, in a process that can import nothing else."""
    program = """
    import sys, threading
    class Nothing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("torch", "cloudpickle", "IPython"):
                raise ImportError(name)
    sys.meta_path.insert(0, Nothing())
    import queue
    import numpy as np
    from ddp_lab.communicator import Communicator

    class Work:
        def __init__(self, get): self.get, self.header = get, b""
        def wait(self, timeout_s=None):
            array, self.header = self.get()
            return array
        def test(self): return False

    class Bare:
        queues = {}
        def __init__(self, rank): self.rank, self.size = rank, 2
        def line(self, *key): return self.queues.setdefault(key, queue.Queue())
        def isend(self, array, dst, *, channel=0, header=b""):
            self.line(self.rank, dst, channel).put((array.copy(), header))
            return Work(lambda: (None, b""))
        def irecv(self, src, *, channel=0, buffer=None):
            def get():
                array, header = self.line(src, self.rank, channel).get()
                if buffer is not None:
                    buffer[...] = array
                    array = buffer
                return array, header
            return Work(get)
        def empty(self, shape, dtype): return np.empty(shape, dtype)
        def close(self): pass

    got = {}
    def run(rank):
        comm = Communicator(Bare(rank))
        got[rank] = comm.all_reduce(np.arange(3.0), algorithm="ring").tolist(), comm.gather(rank)
    threads = [threading.Thread(target=run, args=(r,)) for r in range(2)]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(got[0][0], got[1][0], got[0][1].tolist(), got[1][1])
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert found.stdout.strip() == "[0.0, 2.0, 4.0] [0.0, 2.0, 4.0] [0, 1] None", found.stderr


@pytest.mark.parametrize("kind", [Worker, Crew])
def test_a_thread_is_busy_until_it_holds_nothing_of_its_job(kind: type[Worker | Crew]) -> None:
    """The interpreter waits for it then: torch ends a process that lets go of tensors later."""
    letting_go, go_on = threading.Event(), threading.Event()

    class Data:
        def __del__(self) -> None:
            letting_go.set()
            go_on.wait(60)

    def job(_: Data) -> None:
        pass

    jobs = kind("of a test")
    if isinstance(jobs, Worker):
        jobs.submit(partial(job, Data())).wait()
    else:
        jobs.run(partial(job, Data()))
    assert letting_go.wait(60)
    assert jobs.busy
    go_on.set()
    jobs.finish(60)
    assert not jobs.busy
