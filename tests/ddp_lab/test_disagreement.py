"""Ranks that disagree are told at that collective, even where neither waits for the other."""

import contextlib
import inspect
import warnings

import numpy as np
import pytest

import ddp_lab

# Who takes itself for the root only sends, and who does not only receives: by these algorithms
# two ranks that both are the root, or both are not, never hear of each other.
ROOTED = {
    "broadcast": ("tree", "reference"),
    "gather": ("tree", "reference"),
    "reduce": ("tree", "reference"),
    "scatter": ("tree", "reference"),
}


def failed(fn, world_size: int, transport: str) -> ddp_lab.RankFailed:
    with pytest.raises(ddp_lab.RankFailed) as caught:
        ddp_lab.launch(fn, world_size, transport=transport, timeout_s=30)
    return caught.value


@pytest.mark.parametrize("transport", ["threads", "shm", "tcp"])
@pytest.mark.parametrize(("collective", "algorithms"), ROOTED.items())
def test_another_root_is_an_error_at_that_collective(
    transport: str, collective: str, algorithms: tuple[str, ...]
) -> None:
    for algorithm in algorithms:

        def rank(comm, algorithm=algorithm):
            x = [np.zeros(2)] * comm.size if collective == "scatter" else np.zeros(2)
            getattr(comm, collective)(x, comm.rank, algorithm=algorithm)  # everybody is the root
            return "unseen"

        error = failed(rank, 2, transport)
        assert "Mismatch" in str(error)
        for fact in ("rank 0 has root=0", "rank 1 has root=1", f"{collective}: ranks disagree"):
            assert fact in str(error)
        assert f"{__file__}:{rank.__code__.co_firstlineno + 2}" in str(error)


@pytest.mark.parametrize("ahead", [0, 1, 12])
def test_a_rank_that_is_far_ahead_is_still_compared_with(ahead: int) -> None:
    def rank(comm):
        if comm.rank == 1:
            comm.recv(0)  # rank 0 has left them all by then
        comm.broadcast(np.zeros(2), comm.rank, algorithm="tree")
        for _ in range(ahead):
            comm.broadcast(np.zeros(2), 0, algorithm="tree")
        if comm.rank == 0:
            comm.send(np.zeros(1), 1)
            return "ahead"
        return "unseen"

    error = failed(rank, 2, "shm")
    assert error.rank == 1
    assert "rank 1 has root=1" in str(error)
    assert "rank 0 has root=0" in str(error)


def test_agreeing_costs_no_message() -> None:
    def rank(comm):
        comm.broadcast(np.zeros(2), 0, algorithm="tree")

    run = ddp_lab.launch(rank, 4, record=True)
    assert sum(traffic.messages_sent for traffic in run.traffic) == 3


def test_groups_of_their_own_may_differ() -> None:
    def rank(comm):
        group = comm.split(comm.rank % 2)
        root = comm.rank % 2  # each group another root, at one place in the order
        return [int(group.broadcast(comm.rank, root, algorithm="tree")) for _ in range(40)][-1]

    assert ddp_lab.launch(rank, 4) == [0, 3, 0, 3]


@pytest.mark.parametrize("transport", ["shm", "threads"])
def test_ranks_of_two_groups_of_one_split_are_in_no_collective_together(transport: str) -> None:
    def run(comm) -> None:
        group = comm.split(comm.rank // 2)
        if comm.rank < 2:
            group.all_reduce(np.ones(3))
        else:
            group.broadcast(np.ones(3), 0)
        if comm.rank == 0:
            comm.send(np.ones(1), 2)
            comm.recv(2)
        if comm.rank == 2:
            comm.recv(0)
            with pytest.raises(ddp_lab.RankTimeout):
                comm.irecv(0).wait(0.01)  # looks at what rank 0 did last
            comm.send(np.ones(1), 0)

    ddp_lab.launch(run, 4, transport=transport)


@pytest.mark.parametrize("around", [warnings.catch_warnings.__init__, contextlib.contextmanager])
def test_what_python_puts_around_a_function_is_not_the_line_of_the_program(around) -> None:
    file = inspect.getfile(around)  # of `warnings`, what calls a function that is deprecated
    names: dict[str, object] = {}
    exec(compile("def call(f, *args):\n    f(*args)", file, "exec"), names)

    def rank(comm):
        names["call"](comm.broadcast, np.zeros(2), comm.rank)

    error = failed(rank, 2, "threads")
    assert f"{__file__}:{rank.__code__.co_firstlineno + 1}" in str(error)
