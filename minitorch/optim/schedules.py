"""Schedules that are a formula of the step count alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer
from minitorch.optim.scheduler import LRScheduler, cosine, positive


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
        self.step_size = positive("StepLR", "step_size", step_size)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def value(self, t: int, base: float) -> float:
        """Return base * gamma^(t // step_size)."""
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

    def value(self, t: int, base: float) -> float:
        """Return base * gamma^k, where k milestones are at most t."""
        return base * self.gamma ** bisect_right(self.milestones, t)


class ExponentialLR(LRScheduler):
    """base * gamma^t."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def value(self, t: int, base: float) -> float:
        """Return base * gamma^t."""
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

    def value(self, t: int, base: float) -> float:
        """Return base * (start + (end - start) * min(t / total, 1))."""
        share = min(t / self.total_iters, 1.0)
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingLR(LRScheduler):
    """From base to `eta_min` along half a cosine of `T_max` steps, and back.

    Source: Loshchilov & Hutter, SGDR, ICLR 2017, without the restarts.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = positive("CosineAnnealingLR", "T_max", T_max)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def value(self, t: int, base: float) -> float:
        """Return eta_min + (base - eta_min) * (1 + cos(pi t / T_max)) / 2."""
        return cosine(base, self.eta_min, t / self.T_max)
