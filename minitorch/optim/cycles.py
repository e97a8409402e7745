"""Schedules that are made of others, move momentum as well, or watch a metric."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence

from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer
from minitorch.optim.scheduler import LRScheduler, cosine, positive


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
        self.total_steps = positive("OneCycleLR", "total_steps", total_steps)
        self.peak = float(pct_start * total_steps) - 1.0
        self.first, self.last = max_lr / div_factor, max_lr / div_factor / final_div_factor
        self.cycle_momentum = cycle_momentum
        self.base_momentum, self.max_momentum = base_momentum, max_momentum
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"] = self.first
        super().__init__(optimizer)

    def value(self, t: int, base: float) -> float:
        """Return the point at `t` of the two half cosines."""
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
            return cosine(first, middle, t / self.peak)
        return cosine(middle, last, (t - self.peak) / (end - self.peak))


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


class ReduceLROnPlateau:
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

    def step(self, metrics: float) -> None:
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

    def get_last_lr(self) -> list[float]:
        """Return the present rate of every group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, object]:
        """Return every number of the schedule."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where `state_dict` was taken."""
        vars(self).update(state_dict)

    def _is_better(self, current: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if math.isinf(self.best):
            return sign * current > sign * self.best
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1.0)
        return sign * current > sign * (self.best + sign * margin)
