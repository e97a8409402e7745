"""L-BFGS: Newton's method with a curvature guessed from the last few steps.

Sources: Nocedal & Wright, Numerical Optimization, 2nd ed., algorithm 7.4 (the direction), 3.5 and
3.6 (strong Wolfe conditions); the numbers that end a search are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.arrays import asarray, host_dtype, to_numpy
from minitorch.clock import clock
from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer, Params
from minitorch.recording import enable_grad

Phi = Callable[[float], tuple[float, Any]]
"""(step length) -> (loss, gradient) there."""
Point = tuple[float, float, Any, float]
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
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS: got several groups, expected one: all move together.")

    def check(self, group: dict[str, object]) -> None:
        """Raise unless the hyperparameters make sense."""
        super().check(group)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            self.refuse("line_search_fn", group["line_search_fn"], "'strong_wolfe' or None")

    def step(self, closure: Callable[[], object] | None = None) -> Any:
        """Take up to `max_iter` steps; return the loss before the first.

        Args:
            closure: clears the gradients, computes the loss, calls backward, returns the loss.
        Raises:
            ArgumentError: there is no closure.
        """
        if closure is None:
            raise ArgumentError("LBFGS: step needs a closure that computes the loss anew.")
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        first, evaluate = self._first(closure)
        loss, g = float(first), self._gathered()
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
            before, start = loss, self._flat([p._settled() for p in group["params"]])
            calls = 0
            if group["line_search_fn"]:
                phi = _along(evaluate, self._put, start, d)
                most = group["max_eval"] - evaluations
                loss, g, t, calls = strong_wolfe(phi, t, d, loss, g, slope, max_ls=most)
            self._put(start + t * d)
            if not calls and n != group["max_iter"]:
                (loss, g), calls = evaluate(), 1
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

    def _first(self, closure: Callable[[], Any]) -> tuple[Any, Callable[[], tuple[float, Any]]]:
        """Return the loss now, and a function that gives loss and gradient where one has gone."""

        def evaluate() -> tuple[float, Any]:
            with enable_grad():
                loss = float(closure())
            return loss, self._gathered()

        with enable_grad():
            return closure(), evaluate

    def _flat(self, arrays: list[object]) -> Any:
        return np.concatenate([to_numpy(array).reshape(-1) for array in arrays])

    def _gathered(self) -> Any:
        """Return all gradients as one vector; zeros where there is none."""
        params = self.param_groups[0]["params"]
        return self._flat(
            [
                np.zeros(p.shape, host_dtype(p.dtype)) if p.grad is None else p.grad.array
                for p in params
            ]
        )

    def _put(self, vector: Any) -> None:
        """Write a vector into the parameters."""
        at = 0
        for param in self.param_groups[0]["params"]:
            array = param._settled()
            part = vector[at : at + param.numel()].reshape(param.shape)
            array[...] = asarray(part, None, param.device)
            clock.tick(array)
            at += param.numel()


def _along(evaluate: Callable[[], tuple[float, object]], put: Any, start: Any, d: Any) -> Phi:
    def phi(t: float) -> tuple[float, Any]:
        put(start + t * d)
        return evaluate()

    return phi


def _direction(state: dict[str, Any], g: Any, history: int) -> Any:
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
    q, kept = -g, []
    for y, s, r in zip(reversed(dirs), reversed(steps), reversed(ro), strict=True):
        kept.append(float(s @ q) * r)
        q = q - kept[-1] * y
    q = q * state["H_diag"]
    for y, s, r, a in zip(dirs, steps, ro, reversed(kept), strict=True):
        q = q + s * (a - float(y @ q) * r)
    return q


def cubic_minimum(
    x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, low: float, high: float
) -> float:
    """Return where the cubic through two points with these slopes is least, within the bounds."""
    d1 = g1 + g2 - 3.0 * (f1 - f2) / (x1 - x2)
    square: float = d1 * d1 - g1 * g2
    if not square >= 0.0:
        return (low + high) / 2.0
    d2: float = square**0.5
    if x1 <= x2:
        least = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2.0 * d2))
    else:
        least = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2.0 * d2))
    return min(max(least, low), high)


def strong_wolfe(
    phi: Phi,
    t: float,
    d: Any,
    f: float,
    g: Any,
    slope: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, object, float, int]:
    """Return (loss, gradient, step length, evaluations) where the strong Wolfe conditions hold.

    They are f(t) <= f + c1 t slope and |slope(t)| <= c2 |slope|.

    Args:
        phi: loss and gradient at a step length.
        t: the first length to try.
        d: the direction.
        f: the loss at 0; g: the gradient; slope: g @ d.
    """

    def at(t: float) -> Point:
        loss, grad = phi(t)
        return t, loss, grad, float(grad @ d)

    start: Point = (0.0, f, g.copy(), slope)
    before, now, n = start, at(t), 0
    bracket: list[Point] = []
    while n < max_ls:
        t, loss, _, rate = now
        if loss > f + c1 * t * slope or (n > 1 and loss >= before[1]) or not np.isfinite(loss):
            bracket = [before, now]
        elif abs(rate) <= -c2 * slope:
            return loss, now[2], t, n + 1
        elif rate >= 0:
            bracket = [before, now]
        if bracket:
            break
        low, high = t + 0.01 * (t - before[0]), t * 10.0
        after = cubic_minimum(before[0], before[1], before[3], t, loss, rate, low, high)
        before, now, n = now, at(after), n + 1
    if not bracket:
        bracket = [start, now]
    best, n = _zoom(
        at, bracket, f, slope, c1, c2, tolerance_change / float(abs(d).max()), n, max_ls
    )
    return best[1], best[2], best[0], n + 1


def _zoom(
    at: Callable[[float], Point],
    bracket: list[Point],
    f: float,
    slope: float,
    c1: float,
    c2: float,
    shortest: float,
    n: int,
    max_ls: int,
) -> tuple[Point, int]:
    """Shrink a bracket until its lower end satisfies the conditions; return that end."""
    slow = False
    low, high = sorted(bracket, key=_loss)
    while n < max_ls and abs(high[0] - low[0]) >= shortest:
        left, right = sorted((low[0], high[0]))
        t = cubic_minimum(low[0], low[1], low[3], high[0], high[1], high[3], left, right)
        margin = 0.1 * (right - left)
        near = min(right - t, t - left) < margin  # so near an end teaches little
        if near and (slow or not left < t < right):
            t = right - margin if right - t < t - left else left + margin
            near = False
        slow = near
        new, n = at(t), n + 1
        if new[1] > f + c1 * t * slope or new[1] >= low[1]:
            low, high = sorted((low, new), key=_loss)
        elif abs(new[3]) <= -c2 * slope:
            return new, n
        else:
            high = low if new[3] * (high[0] - low[0]) >= 0 else high
            low = new
    return low, n


def _loss(point: Point) -> float:
    return point[1]
