"""The virtual clock under the real collectives equals the closed forms."""

import math
import subprocess
import sys

import numpy as np
import pytest

import ddp_lab
from ddp_lab import cost, simulate
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld

ALPHA, BETA, GAMMA = 3e-6, 1.25e-9, 2e-10


@pytest.mark.parametrize("gamma", [0.0, GAMMA])
@pytest.mark.parametrize("form", sorted(cost.FORMS), ids=" ".join)
def test_simulated_time_equals_the_closed_form(form: tuple[str, str], gamma: float) -> None:
    for world_size in (1, 2, 3, 4, 5, 6, 7, 8, 13, 16):
        if form in cost.POWERS_OF_TWO and world_size & (world_size - 1):
            continue
        for n_bytes in (0, 1, 1_000_003):
            arguments = (*form, n_bytes, world_size, ALPHA, BETA, gamma)
            want = cost.collective_time(*arguments)
            assert simulate.collective(*arguments) == pytest.approx(want, rel=1e-9, abs=0)


def every_rank(comm: ddp_lab.Communicator, name: str, algorithm: str, count: int) -> None:
    rows = np.zeros((comm.size, count), np.uint8)
    x = {"all_gather": rows[0], "reduce_scatter": rows}.get(name, rows.reshape(-1))
    getattr(comm, name)(*([] if name == "barrier" else [x]), algorithm=algorithm)


@pytest.mark.parametrize(
    "form",
    [
        ("all_gather", "recursive_doubling"),
        ("all_gather", "ring"),
        ("all_reduce", "halving_doubling"),
        ("all_reduce", "recursive_doubling"),
        ("all_reduce", "ring"),
        ("barrier", "dissemination"),
        ("reduce_scatter", "ring"),
    ],
    ids=" ".join,
)
def test_one_rank_that_stands_for_all_takes_as_long_as_each_of_them(form: tuple[str, str]) -> None:
    for world_size in (1, 2, 4, 8) if form in cost.POWERS_OF_TWO else (1, 2, 3, 4, 6, 8):
        world = SimWorld(world_size, Link(ALPHA, BETA, GAMMA), 1000.0)
        ddp_lab.launch(every_rank, world_size, *form, 24, transport=world)
        n_bytes = 24 * 1000 * world_size
        got = simulate.collective(*form, n_bytes, world_size, ALPHA, BETA, GAMMA)
        assert world.clocks == pytest.approx([got] * world_size, rel=1e-9, abs=0)


def test_a_ring_of_1024_ranks_needs_the_messages_of_one() -> None:
    want = cost.all_reduce_time("ring", 1e8, 1024, ALPHA, BETA)
    assert simulate.collective("all_reduce", "ring", 1e8, 1024, ALPHA, BETA) == pytest.approx(want)


def test_one_message_more_would_be_seen() -> None:
    want = cost.all_reduce_time("ring", 1 << 20, 8, ALPHA, BETA)
    assert simulate.collective("all_reduce", "ring", 1 << 20, 8, ALPHA, BETA) + ALPHA != (
        pytest.approx(want, rel=1e-9, abs=0)
    )


def test_the_three_forms_of_the_contract() -> None:
    n, p, a, b, g = 4096.0, 8, 1e-5, 1e-8, 1e-9
    ring = 2 * (p - 1) * a + 2 * (p - 1) / p * n * b + (p - 1) / p * n * g
    halving = 2 * 3 * a + 2 * (p - 1) / p * n * b + (p - 1) / p * n * g
    tree = 3 * (2 * a + 2 * n * b + n * g)
    for name, want in (("ring", ring), ("halving_doubling", halving), ("tree", tree)):
        assert cost.all_reduce_time(name, n, p, a, b, g) == pytest.approx(want)


def test_small_arrays_want_few_messages_and_large_ones_few_bytes() -> None:
    def fastest(n_bytes: int) -> str:
        names = ("ring", "tree", "recursive_doubling", "halving_doubling")
        times = {n: simulate.collective("all_reduce", n, n_bytes, 16, 1e-5, 1e-9) for n in names}
        return min(times, key=times.__getitem__)

    assert fastest(8) == "recursive_doubling"
    assert fastest(1 << 28) == "halving_doubling"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: cost.all_reduce_time("rnig", 1, 2, 0, 0), "no closed form for all_reduce"),
        (lambda: cost.all_reduce_time("halving_doubling", 1, 6, 0, 0), "powers of two only: got 6"),
        (lambda: cost.all_reduce_time("ring", -1, 2, 0, 0), "no such collective: got -1 bytes"),
        (lambda: cost.all_reduce_time("ring", math.nan, 2, 0, 0), "got nan bytes"),
        (lambda: cost.all_reduce_time("ring", 1, 2, 0, math.nan), "alpha, beta, gamma = 0, nan, 0"),
        (lambda: simulate.collective("all_reduce", "ring", 1, 2, -1, 0), "no such link: got"),
        (lambda: simulate.collective("all_reduce", "rnig", 1, 2, 0, 0), "unknown algorithm"),
        (lambda: simulate.collective("all_reduce", "ring", 1, 0, 0, 0), "on 0 ranks"),
        (lambda: simulate.collective("allreduce", "ring", 1, 2, 0, 0), "unknown collective"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_a_simulated_run_gives_results_and_a_virtual_timeline() -> None:
    def rank(comm):
        return comm.all_reduce(np.arange(8.0) + comm.rank, algorithm="ring")

    world = SimWorld(4, Link(1.0, 0.5))
    run = ddp_lab.launch(rank, 4, transport=world, record=True)
    np.testing.assert_array_equal(run[2], 4 * np.arange(8.0) + 6)
    assert max(message.received_at for message in run.trace.messages) == world.clocks[0]
    step = 1.0 + 0.5 * 16
    assert world.clocks == [6 * step] * 4
    first = [m for m in run.trace.messages if m.src == 0]
    assert [m.sent_at for m in first] == [k * step for k in range(6)]
    assert [m.received_at for m in first] == [(k + 1) * step for k in range(6)]


def test_a_deadlock_is_known_at_once() -> None:
    with pytest.raises(ddp_lab.RankTimeout, match="rank 1 waits for rank 0"):
        ddp_lab.launch(lambda comm: comm.recv(1 - comm.rank), 2, transport=SimWorld(2, Link(1, 1)))


def test_models_are_there_once_the_package_is_imported() -> None:
    script = "import ddp_lab; ddp_lab.cost.all_reduce_time; ddp_lab.simulate.collective"
    subprocess.run([sys.executable, "-c", script], check=True)
