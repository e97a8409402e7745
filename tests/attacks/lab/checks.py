"""Checks of the lab that is attacked; judge-only-5d1f must never be seen by a submission."""

import numpy as np

from autograder.checks import Feedback, LabSettings, check, close

LAB = LabSettings(preload=("numpy", "ddp_lab.communicator"))


@check("scale")
def every_element_is_multiplied(student, rng):
    """every element is multiplied by the factor"""
    x = rng.normal(size=(3, 4))
    factor = float(rng.uniform(2.0, 3.0))
    close(student.call("scale", x, factor), x * factor, called="scale(x, factor)")


@check("scale", hidden=True)
def a_second_call_is_as_good_as_the_first(student, rng):
    """a second call is as good as the first"""
    for _ in range(2):
        x = rng.normal(size=5)
        close(student.call("scale", x, -1.5), -1.5 * x, called="scale(x, -1.5)")


@check("pass_on")
def each_rank_sends_one_message(student, rng):
    """each rank sends its array to the next, and nothing else"""
    inputs = [rng.normal(size=4) for _ in range(3)]
    run = student.ranks("pass_on", 3, inputs)
    for rank, result in enumerate(run.results):
        close(result, inputs[rank - 1], called="pass_on(comm, x)")
        if run.messages_sent(rank) != 1 or run.bytes_sent(rank) != inputs[rank].nbytes:
            raise Feedback(f"rank {rank} sent {run.messages_sent(rank)} messages, expected 1.")
        sent = next(m for m in run.messages if m.src == rank)
        if sent.dst != (rank + 1) % 3 or not np.array_equal(sent.array, inputs[rank]):
            raise Feedback("The message is not x, or did not go to the next rank.")


@check("largest")
def it_is_the_largest(student, rng):
    """it is the largest"""
    if student.value("largest") != 17.25:
        raise Feedback("There is a larger one.")
