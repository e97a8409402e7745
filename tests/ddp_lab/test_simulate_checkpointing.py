"""Checkpoint intervals against closed forms and Daly's table; and a rank that is killed here."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import ddp_lab
from ddp_lab import simulate
from ddp_lab.data_parallel import Checkpoint
from ddp_lab.errors import InvalidArgument

MINUTE, HOUR = 60.0, 3600.0


def test_youngs_interval_is_the_root_of_twice_the_write_times_the_mtbf() -> None:
    assert simulate.checkpointing(mtbf_s=200, write_s=1, restart_s=5).interval_s == 20


# Figures 3 to 5 of Daly's paper: restart 10 minutes, write 5 minutes
@pytest.mark.parametrize(
    ("mtbf_s", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)]
)
def test_dalys_interval_is_that_of_his_figures(mtbf_s: float, minutes: float) -> None:
    run = simulate.checkpointing(mtbf_s, write_s=5 * MINUTE, restart_s=10 * MINUTE)
    assert run.daly_s / MINUTE == pytest.approx(minutes, rel=0.01)


def test_writes_that_take_longer_than_runs_last_come_every_mtbf() -> None:
    assert simulate.checkpointing(mtbf_s=10, write_s=20, restart_s=0).daly_s == 10


@pytest.mark.parametrize("mtbf_s", [HOUR, 6 * HOUR, 24 * HOUR])
@pytest.mark.parametrize("restart_s", [0, 10 * MINUTE])
def test_drawn_failures_leave_the_goodput_of_the_closed_form(
    mtbf_s: float, restart_s: float
) -> None:
    run = simulate.checkpointing(mtbf_s, 5 * MINUTE, restart_s)
    for interval_s in (run.interval_s, run.daly_s, 3 * run.interval_s):
        want = run.expected_goodput(interval_s)
        assert run.simulated_goodput(interval_s) == pytest.approx(want, rel=0.01)
    assert run.goodput == run.simulated_goodput(run.interval_s)


@pytest.mark.parametrize("mtbf_s", [15 * MINUTE, 6 * HOUR])
def test_no_other_interval_is_much_better_than_dalys(mtbf_s: float) -> None:
    run = simulate.checkpointing(mtbf_s, 5 * MINUTE, 10 * MINUTE)
    best = max(run.expected_goodput(run.daly_s * 1.05**k) for k in range(-40, 41))
    assert run.expected_goodput(run.daly_s) > 0.995 * best
    assert run.expected_goodput(run.interval_s) <= best


def test_a_run_that_never_gets_to_write_keeps_nothing() -> None:
    assert simulate.checkpointing(1.0, 1e4, 0.0).goodput == 0
    assert simulate.checkpointing(1.0, 1e4, 0.0).expected_goodput(10.0) == 0


@pytest.mark.parametrize(
    ("times", "says"),
    [
        ((0, 1, 1), "got mtbf_s=0"),
        ((10, 0, 1), "got write_s=0"),
        ((10, 1, -1), "got restart_s=-1"),
        ((float("nan"), 1, 1), "got mtbf_s=nan"),
        ((float("inf"), 1, 1), "got mtbf_s=inf"),
    ],
)
def test_times_that_cannot_be_are_refused(times, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        simulate.checkpointing(*times)
    with pytest.raises(InvalidArgument, match="got interval_s=0"):
        simulate.checkpointing(10, 1, 1).expected_goodput(0)


class Weights:
    """A model of one number, and how many steps it took."""

    def __init__(self) -> None:
        self.w = np.zeros(1)

    def state_dict(self) -> dict[str, np.ndarray]:
        return {"w": self.w}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        self.w = np.array(state["w"])


def train(
    comm: ddp_lab.Communicator, folder: str, steps: int, every: int, dies_at: int
) -> tuple[float, int]:
    """Train until `steps`, or until rank 1 is killed; return the weight and the first step."""
    model = Weights()
    checkpoint = Checkpoint(Path(folder) / "run.npz", comm, model=model)
    first = checkpoint.resume()
    for step in range(first, steps):
        if step == dies_at and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        model.w += comm.all_reduce(np.array([float(step + comm.rank)]))
        if comm.rank == 0:
            with (Path(folder) / "steps").open("a") as log:
                log.write(f"{step}\n")
        if (step + 1) % every == 0:
            checkpoint.save(step + 1)
    return float(model.w[0]), first


def test_a_killed_rank_costs_the_steps_since_the_last_checkpoint(tmp_path: Path) -> None:
    """What is saved is the weight and the step; gradients and activations are made again."""
    steps, every, kills = 12, 4, (6, 11)
    for dies_at in kills:
        with pytest.raises(ddp_lab.RankFailed) as caught:
            ddp_lab.launch(train, 2, str(tmp_path), steps, every, dies_at)
        assert caught.value.rank == 1
    ended = ddp_lab.launch(train, 2, str(tmp_path), steps, every, -1)
    assert list(ended) == [(sum(2 * step + 1 for step in range(steps)), 8)] * 2
    done = [int(line) for line in (tmp_path / "steps").read_text().split()]
    redone = sum(dies_at % every for dies_at in kills)
    assert len(done) == steps + redone
    assert done == [*range(6), *range(4, 11), *range(8, 12)]
