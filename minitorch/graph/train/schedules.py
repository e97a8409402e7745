"""Learning rates as functions of the global step, under TensorFlow's names.

Each is a node of the rate's dtype, so a run of the training step uses the rate of that step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...errors import GraphError
from ..naming import rename
from ..node import Node, convert
from ..operators.elementwise import ceil, cos, exp, floor, log, maximum, minimum, pow, where
from ..operators.math import cast


def _given(where_: str, learning_rate: Any, global_step: Any) -> tuple[Node, Node]:
    """Return rate and step as nodes of the rate's dtype."""
    if global_step is None:
        raise GraphError(f"{where_}: got no global_step, expected a variable that counts steps.")
    rate = convert(learning_rate)
    return rate, cast(global_step, rate.dtype)


def _periods(step: Any, decay_steps: Any, staircase: bool) -> Any:
    """Return how many times `decay_steps` have passed; with `staircase` whole times only."""
    part = step / cast(decay_steps, step.dtype)
    return floor(part) if staircase else part


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Node:
    """rate decay_rate^(step / decay_steps); with `staircase` in whole powers."""
    rate, step = _given("exponential_decay", learning_rate, global_step)
    part = _periods(step, decay_steps, staircase)
    return rename(rate * pow(cast(decay_rate, rate.dtype), part), name)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Node:
    """rate e^(-decay_rate step / decay_steps)."""
    rate, step = _given("natural_exp_decay", learning_rate, global_step)
    part = _periods(step, decay_steps, staircase)
    return rename(rate * exp(part * -1.0 * decay_rate), name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Node:
    """rate / (1 + decay_rate step / decay_steps)."""
    rate, step = _given("inverse_time_decay", learning_rate, global_step)
    part = _periods(step, decay_steps, staircase)
    return rename(rate / (part * decay_rate + 1.0), name)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Node:
    """(rate - end) (1 - step / decay_steps)^power + end; with `cycle` again and again, longer."""
    rate, step = _given("polynomial_decay", learning_rate, global_step)
    steps = cast(decay_steps, rate.dtype)
    if cycle:
        steps = steps * maximum(ceil(step / steps), 1.0)
    part = minimum(step, steps) / steps
    return rename(
        (rate - end_learning_rate) * pow(1.0 - part, cast(power, rate.dtype)) + end_learning_rate,
        name,
    )


def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: float = 0.0,
    name: str | None = None,
) -> Node:
    """Half a wave of the cosine from the rate down to alpha of it.

    Source: Loshchilov & Hutter, SGDR, ICLR 2017.
    """
    rate, step = _given("cosine_decay", learning_rate, global_step)
    steps = cast(decay_steps, rate.dtype)
    part = minimum(step, steps) / steps
    wave = 0.5 * (cos(part * math.pi) + 1.0)
    return rename(rate * (wave * (1.0 - alpha) + alpha), name)


def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Node:
    """The first value up to and with the first boundary, the second up to the second, ...

    Raises:
        GraphError: there is not one value more than there are boundaries.
    """
    if len(boundaries) != len(values) - 1:
        raise GraphError(
            f"piecewise_constant: got {len(boundaries)} boundaries and {len(values)} values, "
            "expected one value more."
        )
    step = convert(x)
    found = convert(values[-1])
    for boundary, value in zip(reversed(boundaries), reversed(values[:-1]), strict=True):
        found = where(step <= boundary, convert(value, found.dtype), found)
    return rename(found, name)


piecewise_constant_decay = piecewise_constant


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Node:
    """Half waves of the cosine one after another, each `t_mul` as long and `m_mul` as high.

    Source: Loshchilov & Hutter, SGDR, ICLR 2017.
    """
    rate, step = _given("cosine_decay_restarts", learning_rate, global_step)
    done = step / cast(first_decay_steps, rate.dtype)
    if t_mul == 1.0:
        round_ = floor(done)
        part = done - round_
    else:
        round_ = floor(log(1.0 - done * (1.0 - t_mul)) / math.log(t_mul))
        longer = pow(convert(t_mul, rate.dtype), round_)
        part = (done - (1.0 - longer) / (1.0 - t_mul)) / longer
    height = pow(convert(m_mul, rate.dtype), round_)
    wave = 0.5 * height * (cos(part * math.pi) + 1.0)
    return rename(rate * (wave * (1.0 - alpha) + alpha), name)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Node:
    """A cosine of so many periods under a line that falls to 0: (alpha + line) cosine + beta.

    Source: Bello et al., Neural optimizer search, ICML 2017.
    """
    rate, step = _given("linear_cosine_decay", learning_rate, global_step)
    steps = cast(decay_steps, rate.dtype)
    part = minimum(step, steps) / steps
    wave = 0.5 * (cos(part * (2.0 * num_periods * math.pi)) + 1.0)
    return rename(rate * ((1.0 - part + alpha) * wave + beta), name)
