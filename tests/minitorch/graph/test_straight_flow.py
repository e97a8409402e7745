"""Building and planning a small graph goes straight: how often the work crosses from file to file.

Counted are calls and returns whose file differs from the one before, which is what somebody who
steps through with a debugger sees.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import minitorch
import minitorch.graph as tf

PACKAGE = minitorch.__path__[0]


def switches(work: Callable[[], object]) -> int:
    count, here = 0, ""

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal count, here
        at = {"call": frame, "return": frame.f_back}.get(event)
        file = at.f_code.co_filename if at is not None else ""
        if file.startswith(PACKAGE) and file != here:
            count, here = count + 1, file

    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def net() -> list[Any]:
    x = tf.placeholder(tf.float32, [8, 4], "x")
    w = tf.Variable(np.ones((4, 3), np.float32))
    return [x, w]


def built(x: Any, w: Any) -> list[Any]:
    y = tf.reduce_sum(tf.nn.relu(tf.matmul(x, w)))
    return [y, *tf.gradients(y, [w])]


def test_three_operators_and_their_gradients_are_built_straight_away() -> None:
    built(*net())  # what is imported or made once is there
    inputs = net()
    assert switches(lambda: built(*inputs)) <= 146


def test_the_first_run_with_all_passes_goes_from_pass_to_pass() -> None:
    x, w = net()
    fetches, feed = built(x, w), {x: np.ones((8, 4), np.float32)}
    with tf.Session(optimize=True) as session:
        session.run(tf.initialize_all_variables())
        assert switches(lambda: session.run(fetches, feed)) <= 353
        assert switches(lambda: session.run(fetches, feed)) <= 40
