"""Where a step's time goes."""

from typing import Any

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import LADDER, DistributedDataParallel, Overlapped
from ddp_lab.data_parallel.measurement.breakdown import StepTimes, measure, typical


def test_a_typical_step_is_neither_the_shortest_nor_the_longest() -> None:
    short, long = (StepTimes(0, 10, 30, end_ns, (), ()) for end_ns in (32, 99))
    assert typical([long, short, short]) == short


def run_of(wrap: Any) -> Any:
    models = [nn.Sequential(*(nn.Linear(40, 40) for _ in range(4))) for _ in range(2)]

    def run(comm: Any) -> list[StepTimes]:
        model = wrap(models[comm.rank], comm)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.ones(8, 40)
        return measure(model, lambda m: m(x).square().mean(), optimizer, iterations=3)

    return ddp_lab.launch(run, 2, transport="threads", timeout_s=60)


@pytest.mark.parametrize(
    "wrap", [*LADDER, lambda m, c: DistributedDataParallel(m, None, None, 0, None, True, c)]
)
def test_every_step_of_the_ladder_can_be_measured(wrap: Any) -> None:
    for steps in run_of(wrap):
        assert len(steps) == 3
        for times in steps:
            ends = times.start_ns, times.forward_end_ns, times.backward_end_ns, times.end_ns
            assert sorted(ends) == list(ends) and times.start_ns < times.forward_end_ns
            assert times.communication and times.blocked
            for span in (*times.communication, *times.blocked):
                assert times.forward_end_ns <= span.start_ns <= span.end_ns <= times.backward_end_ns


def test_only_overlap_hides_communication() -> None:
    for step in run_of(LADDER[3])[0]:
        waits, trips = (
            [(span.start_ns, span.end_ns) for span in spans]
            for spans in (step.blocked, step.communication)
        )
        assert waits == trips
    small = run_of(lambda m, c: Overlapped(m, c, 0.001))[0]
    assert all(len(times.communication) == 4 for times in small)
    assert all(times.communication[0].start_ns < times.blocked[0].start_ns for times in small)


def test_something_that_does_not_communicate_cannot_be_measured() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(TypeError, match="nothing to measure in a Linear"):
        measure(model, lambda m: m(torch.ones(1, 1)).sum(), torch.optim.SGD(model.parameters()))
