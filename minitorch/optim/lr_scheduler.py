"""Learning-rate schedules: each is a function of the step count, written as its formula.

`_value(t, base)` is the rate after t calls of `step`, for a group that started at `base`. A
scheduler multiplies the group's rate by _value(t) / _value(t - 1), so that two schedulers on one
optimizer multiply, as PyTorch's do; after a rate of 0 it sets the value itself.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer


class LRScheduler:
    """Base of the schedules; a subclass gives `_value`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        self.base_lrs = [
            float(group.setdefault("initial_lr", group["lr"])) for group in optimizer.param_groups
        ]
        self.step()

    def _value(self, t: int, base: float) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no _value(t, base). Define it.")

    def step(self) -> None:
        """Move on by one and set the rate of every group. Call it after `optimizer.step()`."""
        self.last_epoch += 1
        for i, group in enumerate(self.optimizer.param_groups):
            value, base, t = self._value_of(i), self.base_lrs[i], self.last_epoch
            now, before = value(t, base), value(t - 1, base) if t else base
            if not before:
                group["lr"] = now
            else:
                group["lr"] = group["lr"] * (now / before) if t else group["lr"] * now / before

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        return self._value

    def get_last_lr(self) -> list[float]:
        """Return the present rate of every group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs: counters and numbers, no optimizer, no function."""
        return {
            key: value
            for key, value in vars(self).items()
            if key != "optimizer" and not _holds_functions(value)
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken; the optimizer's own state holds the rates."""
        vars(self).update(state_dict)


def _cosine(start: float, end: float, share: float) -> float:
    """Return the point at `share` of half a cosine from `start` (0) to `end` (1)."""
    return end + (start - end) * (1.0 + math.cos(math.pi * share)) / 2.0


def _positive(where: str, name: str, value: int) -> int:
    """Return `value`, which must be an integer of 1 or more."""
    if not isinstance(value, int) or value <= 0:
        raise ArgumentError(f"{where}: got {name} {value!r}, expected an integer of 1 or more.")
    return value


def _holds_functions(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(callable(item) or isinstance(item, LRScheduler) for item in items)


# ── formulas of the step count alone ────────────────────────────────────────────────────────────


class LambdaLR(LRScheduler):
    """base * f(t), one f or one for each group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(lambdas) != groups:
            raise ArgumentError(
                f"LambdaLR: got {len(lambdas)} functions, expected {groups}, one for each group."
            )
        self.lr_lambdas = lambdas
        super().__init__(optimizer, last_epoch)

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        factor = self.lr_lambdas[index]
        return lambda t, base: base * factor(t)


class StepLR(LRScheduler):
    """base * gamma^(t // step_size)."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = _positive("StepLR", "step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma ** (t // self.step_size)


class MultiStepLR(LRScheduler):
    """base * gamma^(number of milestones reached)."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(LRScheduler):
    """base * gamma^t."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma**t


class LinearLR(LRScheduler):
    """base times a factor that moves in a straight line over `total_iters` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0:
            raise ArgumentError(
                f"LinearLR: got start_factor {start_factor} and end_factor {end_factor}, expected "
                "one in (0, 1] and one in [0, 1]."
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _value(self, t: int, base: float) -> float:
        share = min(t / self.total_iters, 1.0)
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingLR(LRScheduler):
    """From base to `eta_min` along half a cosine of `T_max` steps, and back.

    Source: Loshchilov & Hutter, SGDR, ICLR 2017, without the restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = _positive("CosineAnnealingLR", "T_max", T_max)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _value(self, t: int, base: float) -> float:
        return _cosine(base, self.eta_min, t / self.T_max)


# ── made of others, moving momentum too, watching a metric ──────────────────────────────────────


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to `max_lr`, then down to a rate near 0, both along cosines.

    Momentum (beta1 for Adam) moves the other way unless `cycle_momentum` is false.

    Source: Smith & Topin, Super-Convergence, 2018.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int,
        pct_start: float = 0.3,
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        self.max_lr = max_lr
        self.total_steps = _positive("OneCycleLR", "total_steps", total_steps)
        self.peak = float(pct_start * total_steps) - 1.0
        self.first, self.last = max_lr / div_factor, max_lr / div_factor / final_div_factor
        self.cycle_momentum = cycle_momentum
        self.base_momentum, self.max_momentum = base_momentum, max_momentum
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] = self.first
        super().__init__(optimizer)

    def _value(self, t: int, base: float) -> float:
        return self._point(t, self.first, self.max_lr, self.last)

    def step(self) -> None:
        """Move on by one; after `total_steps` of them there is nothing to move on to."""
        if self.last_epoch + 1 >= self.total_steps:
            raise ArgumentError(
                f"OneCycleLR: got step {self.last_epoch + 1}, expected fewer than total_steps "
                f"{self.total_steps}. Give the true number of steps."
            )
        super().step()
        if not self.cycle_momentum:
            return
        m = self._point(self.last_epoch, self.max_momentum, self.base_momentum, self.max_momentum)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (m, *group["betas"][1:])
            else:
                group["momentum"] = m

    def _point(self, t: int, first: float, middle: float, last: float) -> float:
        end = self.total_steps - 1.0
        if t <= self.peak:
            return _cosine(first, middle, t / self.peak)
        return _cosine(middle, last, (t - self.peak) / (end - self.peak))


class SequentialLR(LRScheduler):
    """The first schedule up to the first milestone, then the second from its own start, ..."""

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        if len(schedulers) != len(milestones) + 1:
            raise ArgumentError(
                f"SequentialLR: got {len(schedulers)} schedulers and {len(milestones)} milestones, "
                "expected one milestone between each two schedulers."
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ArgumentError("SequentialLR: a scheduler belongs to another optimizer.")
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        super().__init__(optimizer)

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        def value(t: int, base: float) -> float:
            which = bisect_right(self.milestones, t)
            start = self.milestones[which - 1] if which else 0
            return self.schedulers[which]._value_of(index)(t - start, base)

        return value


class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` once a metric has not improved for `patience` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ArgumentError(f"ReduceLROnPlateau: got factor {factor}, expected one below 1.")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"ReduceLROnPlateau: got mode {mode!r} and threshold_mode {threshold_mode!r}, "
                "expected 'min' or 'max', and 'rel' or 'abs'."
            )
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0

    def step(self, metrics: float) -> None:  # type: ignore[override]
        """Take note of `metrics` and lower the rates if the patience is over."""
        current = float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group in self.optimizer.param_groups:
                lower = max(group["lr"] * self.factor, self.min_lr)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, current: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if math.isinf(self.best):
            return sign * current > sign * self.best
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1.0)
        return sign * current > sign * (self.best + sign * margin)
