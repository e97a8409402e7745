"""Many collectives leave nothing behind, and a fault at any step names the rank that had it."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import ddp_lab
from ddp_lab.collectives.registry import COLLECTIVES, lookup
from ddp_lab.transport.sim import TurnWorld

MOST_STEPS = 40
COUNT = 10_000


def own(collective: str) -> list[str]:
    """Return the package's own algorithms; other tests may have registered some."""
    return [a for a in ddp_lab.algorithms(collective)[1:] if lookup(collective, a).built_in]


class Cut(Exception):
    """What a link raises when it is cut."""


def cut_after(transport, method: str, step: int, seen: list[int]) -> None:
    """Let a transport's `isend` or `irecv` work `step` times, and then never again."""
    original = getattr(transport, method)

    def wrapped(*args, **kwargs):
        seen.append(step)
        if len(seen) > step:
            raise Cut(f"at step {step}")
        return original(*args, **kwargs)

    setattr(transport, method, wrapped)


def run_with_a_cut(
    algorithm: str, size: int, culprit: int, method: str, step: int
) -> ddp_lab.RankFailed | None:
    """Return the error of an all-reduce with that fault, None if it was over before."""
    seen: list[int] = []

    def rank(comm):
        if comm.rank == culprit:
            cut_after(comm._transport, method, step, seen)
        return comm.all_reduce(np.arange(7.0) * comm.rank, algorithm=algorithm)

    try:
        run = ddp_lab.launch(rank, size, transport=TurnWorld(size))
    except ddp_lab.RankFailed as error:
        return error
    for result in run:
        np.testing.assert_array_equal(result, np.arange(7.0) * sum(range(size)))
    return None


@pytest.mark.parametrize("method", ["isend", "irecv"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_fault_at_any_step_of_any_all_reduce_names_its_rank(size: int, method: str) -> None:
    for algorithm, culprit in itertools.product(own("all_reduce"), range(size)):
        for step in range(MOST_STEPS):
            error = run_with_a_cut(algorithm, size, culprit, method, step)
            if error is None:
                break
            assert error.rank == culprit, (algorithm, step)
            assert f"Cut: at step {step}" in str(error)
            others = {rank: why for rank, why in error.failures.items() if rank != culprit}
            assert all(why.startswith("RankLost") for why in others.values()), others
        else:
            raise AssertionError(f"{algorithm} did not end after {MOST_STEPS} steps")
        assert step > 0 or algorithm in ("tree", "reference", "hierarchical"), algorithm


def resources() -> tuple[int, int]:
    """Return this process's open descriptors and resident pages."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(list(Path("/proc/self/fd").iterdir())), pages


def calls_of(comm) -> list:
    """Return one call of every collective by every algorithm, on small arrays."""
    x, rows = np.ones(64, np.float32), np.ones((comm.size, 8), np.float32)
    arguments = {
        "barrier": (),
        "scatter": ([x] * comm.size,),
        "reduce_scatter": (rows,),
        "all_to_all": (rows,),
    }
    return [
        lambda name=name, algorithm=algorithm: getattr(comm, name)(
            *arguments.get(name, (x,)), algorithm=algorithm
        )
        for name in COLLECTIVES
        for algorithm in own(name)
    ]


def soak(comm, kept_floats: int) -> tuple[int, float]:
    """Return the descriptors and the bytes a collective that this rank has gained in many.

    It keeps an array of `kept_floats` for each of them, as a leak would.
    """
    calls, kept = itertools.cycle(calls_of(comm)), []
    for call in itertools.islice(calls, COUNT // 10):
        call()
    fds, pages = resources()
    for call in itertools.islice(calls, COUNT):
        call()
        if kept_floats:
            kept.append(np.ones(kept_floats, np.float32))
    later_fds, later_pages = resources()
    return later_fds - fds, (later_pages - pages) * 4096 / COUNT


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_ten_thousand_collectives_leak_nothing(transport: str) -> None:
    for fds, bytes_a_collective in ddp_lab.launch(soak, 2, 0, transport=transport):
        assert fds == 0
        assert bytes_a_collective < 64  # the smallest thing that could leak each time is larger


@pytest.mark.slow
def test_the_soak_notices_a_leak_of_a_small_array() -> None:
    for _, bytes_a_collective in ddp_lab.launch(soak, 2, 64, transport="tcp"):
        assert bytes_a_collective > 64
