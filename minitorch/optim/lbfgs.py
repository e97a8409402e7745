"""L-BFGS: Newton's method with a curvature guessed from the last few steps.

Sources: Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4 (the direction) and
chapter 3 (the strong Wolfe conditions, and the search for them); the numbers that end a step or a
search are PyTorch's.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitorch.arrays.library import Array, asarray, host_dtype, to_numpy
from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer, Params, hyperparameters
from minitorch.tensor.modes import enable_grad
from minitorch.tensor.versions import clock

C1, C2 = 1e-4, 0.9
"""Of the strong Wolfe conditions: f(t) <= f + C1 t slope, and |slope(t)| <= C2 |slope|."""
Point = tuple[float, float, Array, float]
"""(step length, loss, gradient, slope along the direction)."""


class LBFGS(Optimizer):
    """Up to `max_iter` quasi-Newton steps a `step`, which needs a closure.

    Args:
        params: one group of parameters.
        lr: length of a step without line search; where a search begins with one.
        max_iter: steps a call.
        max_eval: calls of the closure a call; 1.25 `max_iter` unless given.
        tolerance_grad: ends when no gradient is larger.
        tolerance_change: ends when neither loss nor parameters change by more.
        history_size: steps from which the curvature is guessed.
        line_search_fn: "strong_wolfe" or None.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, hyperparameters(locals()))
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS: got several groups, expected one: all move together.")

    def check(self, group: dict[str, object]) -> None:
        super().check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            self.refuse("line_search_fn", group["line_search_fn"], "'strong_wolfe' or None")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to `max_iter` steps; return the loss before the first.

        Args:
            closure: clears the gradients, computes the loss, calls backward, returns the loss.
        Raises:
            ArgumentError: there is no closure.
        """
        if closure is None:
            raise ArgumentError("LBFGS: step needs a closure that computes the loss anew.")
        group = self.param_groups[0]
        state = self.state[group["params"][0]].arrays
        with enable_grad():
            first = closure()
        loss, g = float(first), self._gather()
        state["func_evals"] = state.get("func_evals", 0) + 1
        evaluations = 1
        if abs(g).max(initial=0.0) <= group["tolerance_grad"]:
            return first
        for n in range(1, group["max_iter"] + 1):
            state["n_iter"] = state.get("n_iter", 0) + 1
            d, lr = _direction(state, g, group["history_size"]), group["lr"]
            t = min(1.0, 1.0 / float(abs(g).sum())) * lr if state["n_iter"] == 1 else lr
            state.update(prev_flat_grad=g, d=d, t=t)
            slope = float(g @ d)
            if slope > -group["tolerance_change"]:
                break
            before, start = loss, _flat([p._own_array() for p in group["params"]])
            at, calls = partial(self._point, closure, start, d), 1
            if group["line_search_fn"]:
                most = group["max_eval"] - evaluations
                (t, loss, g, _), calls = strong_wolfe(at, t, (0.0, loss, g, slope), d, most)
                self._put(start + t * d)
            elif n == group["max_iter"]:
                calls = 0
                self._put(start + t * d)
            else:
                _, loss, g, _ = at(t)
            state.update(t=t, func_evals=state["func_evals"] + calls)
            evaluations += calls
            if (
                n == group["max_iter"]
                or evaluations >= group["max_eval"]
                or abs(g).max() <= group["tolerance_grad"]
                or abs(d * t).max() <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        return first

    def _point(self, closure: Callable[[], Any], origin: Array, d: Array, t: float) -> Point:
        """Return what the closure finds `t` along the direction `d` from `origin`."""
        self._put(origin + t * d)
        with enable_grad():
            loss = float(closure())
        g = self._gather()
        return t, loss, g, float(g @ d)

    def _gather(self) -> Array:
        """Return all gradients as one vector; zeros where there is none."""
        return _flat(
            [
                np.zeros(p.shape, host_dtype(p.dtype)) if p.grad is None else p.grad.array
                for p in self.param_groups[0]["params"]
            ]
        )

    def _put(self, vector: Array) -> None:
        """Write a vector into the parameters."""
        at = 0
        for param in self.param_groups[0]["params"]:
            array = param._own_array()
            part = vector[at : at + param.numel()].reshape(param.shape)
            array[...] = asarray(part, None, param.device)
            clock.tick(array)
            at += param.numel()


def _flat(arrays: list[Array]) -> Array:
    return np.concatenate([to_numpy(array).reshape(-1) for array in arrays])


def _direction(state: dict[str, Any], g: Array, history: int) -> Any:
    """Return -H g, H the inverse curvature guessed from the steps in `state` (the two loops)."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return -g
    y, s = g - state["prev_flat_grad"], state["d"] * state["t"]
    dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    if (ys := float(y @ s)) > 1e-10:
        if len(dirs) == history:
            del dirs[0], steps[0], ro[0]
        dirs.append(y)
        steps.append(s)
        ro.append(1.0 / ys)
        state["H_diag"] = ys / float(y @ y)
    q, pairs = -g, []
    for y, s, r in zip(reversed(dirs), reversed(steps), reversed(ro), strict=True):
        pairs.append(float(s @ q) * r)
        q = q - pairs[-1] * y
    q = q * state["H_diag"]
    for y, s, r, a in zip(dirs, steps, ro, reversed(pairs), strict=True):
        q = q + s * (a - float(y @ q) * r)
    return q


def strong_wolfe(
    at: Callable[[float], Point], t: float, start: Point, d: Array, most: int
) -> tuple[Point, int]:
    """Return a point where the strong Wolfe conditions hold, and how often `at` was called.

    Goes further until a minimum is passed, then narrows the bracket; each next length is where the
    cubic through two points is least (Nocedal & Wright, algorithms 3.5 and 3.6).

    Args:
        at: step length -> point.
        t: the first length to try.
        start: the point at 0.
        d: the direction; a bracket in which no parameter moves by 1e-9 is not narrowed.
        most: calls after the first; then the best end of the bracket is the answer.
    """
    before, now, calls = start, at(t), 1
    while calls <= most:
        if _too_high(now, start) or (calls > 2 and now[1] >= before[1]):
            return _narrow(at, start, before, now, float(abs(d).max()), calls, most)
        if _is_flat(now, start):
            return now, calls
        if now[3] >= 0:
            return _narrow(at, start, before, now, float(abs(d).max()), calls, most)
        t = now[0]
        further = cubic_minimum(before, now, t + 0.01 * (t - before[0]), 10 * t)
        before, now, calls = now, at(further), calls + 1
    return min(start, now, key=_loss), calls


def _narrow(
    at: Callable[[float], Point],
    start: Point,
    first: Point,
    other: Point,
    d_max: float,
    calls: int,
    most: int,
) -> tuple[Point, int]:
    """Return the same, from a bracket that holds a minimum."""
    low, high = sorted((first, other), key=_loss)
    was_near_an_end = False
    while calls <= most and abs(high[0] - low[0]) * d_max >= 1e-9:
        left, right = sorted((low[0], high[0]))
        t = cubic_minimum(low, high, left, right)
        margin = 0.1 * (right - left)
        is_near = min(right - t, t - left) < margin
        if is_near and (was_near_an_end or t >= right or t <= left):
            t = right - margin if right - t < t - left else left + margin
            is_near = False
        was_near_an_end = is_near
        now, calls = at(t), calls + 1
        if _too_high(now, start) or now[1] >= low[1]:
            low, high = sorted((low, now), key=_loss)
            continue
        if _is_flat(now, start):
            return now, calls
        if now[3] * (high[0] - low[0]) >= 0:
            high = low
        low = now
    return low, calls


def _loss(point: Point) -> float:
    return point[1]


def _too_high(point: Point, start: Point) -> bool:
    """Tell whether a point does not go down enough for its length, or its loss is no number."""
    return not point[1] <= start[1] + C1 * point[0] * start[3]


def _is_flat(point: Point, start: Point) -> bool:
    """Tell whether the slope has become small enough."""
    return abs(point[3]) <= -C2 * start[3]


def cubic_minimum(first: Point, other: Point, least: float, limit: float) -> float:
    """Return where the cubic with the losses and slopes of two points is least, within bounds."""
    (x1, f1, _, g1), (x2, f2, _, g2) = sorted((first, other), key=lambda point: point[0])
    bend = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = bend * bend - g1 * g2
    if not square >= 0:
        return (least + limit) / 2
    root = math.sqrt(square)
    divisor = g2 - g1 + 2 * root
    if divisor == 0:  # a straight line has no minimum
        return limit
    x = x2 - (x2 - x1) * ((g2 + root - bend) / divisor)
    return min(max(x, least), limit)
