# ruff: noqa
"""Schedules, their times and the conjugate pair are the package's."""

from ddp_lab.parallel.pipeline.schedules import schedule
from ddp_lab.parallel.tensor.conjugate import CopyForwardReduceBackward, ReduceForwardCopyBackward
from ddp_lab.simulate.pipeline import finish_times


def gpipe(rank, ranks, microbatches):
    return schedule("gpipe", ranks, microbatches)[rank]


def one_f_one_b(rank, ranks, microbatches):
    return schedule("1f1b", ranks, microbatches)[rank]


def bubble(stages, microbatches):
    ends, _ = finish_times("gpipe", microbatches, [1.0] * stages, [1.0] * stages)
    return 1 - 2 * microbatches / max(ends)


def step_seconds(stages, microbatches, forward, backward, message):
    ends, _ = finish_times("gpipe", microbatches, [forward] * stages, [backward] * stages)
    return max(ends) + 2 * (stages - 1) * message


class Copy:
    apply = CopyForwardReduceBackward.apply


class Reduce:
    apply = ReduceForwardCopyBackward.apply
