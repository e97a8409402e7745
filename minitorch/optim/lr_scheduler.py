"""Learning-rate schedules: each is a function of the step count, written as its formula.

`_value(t, base)` is the rate after t calls of `step`, for a group that started at `base`. A
scheduler multiplies the group's rate by _value(t) / _value(t - 1), so that two schedulers on one
optimizer multiply, as PyTorch's do; after a rate of 0, and where PyTorch's does (`sets`), it sets
the value itself.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from minitorch.arrays.shapes import INTEGERS
from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer


@dataclass(eq=False, repr=False, init=False)
class LRScheduler:
    """Base of the schedules; a subclass gives `_value`, or, as in PyTorch, `get_lr`."""

    optimizer: Optimizer
    last_epoch: int = field(default=-1, kw_only=True)
    sets: ClassVar[bool] = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer, self.last_epoch = optimizer, last_epoch
        self.__post_init__()

    def __post_init__(self) -> None:
        self._require(isinstance(self.optimizer, Optimizer), "optimizer", "an Optimizer")
        groups = self.optimizer.param_groups
        resumes = self.last_epoch >= 0
        if resumes and not all("initial_lr" in group for group in groups):
            raise ArgumentError(
                f"{type(self).__name__}: got last_epoch {self.last_epoch} for groups that no "
                "schedule has set, expected their 'initial_lr'. Load the optimizer's state first."
            )
        self.base_lrs = [float(group.setdefault("initial_lr", group["lr"])) for group in groups]
        self.step()

    def _require(self, holds: bool, name: str, expected: str) -> None:
        if not holds:
            raise ArgumentError(
                f"{type(self).__name__}: got {name} {getattr(self, name)!r}, expected {expected}."
            )

    def _value(self, t: int, base: float) -> float:
        raise NotImplementedError(f"{type(self).__name__} has no _value(t, base). Define it.")

    def step(self) -> None:
        """Move on by one and set the rate of every group. Call it after `optimizer.step()`."""
        self.last_epoch += 1
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate

    def get_lr(self) -> list[float]:
        """Return the rate of every group at `last_epoch`."""
        rates = []
        for i, group in enumerate(self.optimizer.param_groups):
            value, base, t = self._value_of(i), self.base_lrs[i], self.last_epoch
            now, before = value(t, base), value(t - 1, base) if t else base
            if self.sets or not before:
                rates.append(now)
            else:
                rates.append(group["lr"] * (now / before) if t else group["lr"] * now / before)
        return rates

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        return self._value

    def _of_groups(self, name: str) -> list[float]:
        """Return an option for each group, of one number or of a list of them."""
        groups, value = len(self.optimizer.param_groups), getattr(self, name)
        values = list(value) if isinstance(value, Iterable) else [value] * groups
        self._require(len(values) == groups, name, f"a number, or {groups}, one for each group")
        return values

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


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


ANNEALS = {"cos": _cosine, "linear": _line}
_LRScheduler = LRScheduler
"""Torch's older name, of which schedules of one's own are made."""


def _holds_functions(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(callable(item) or isinstance(item, LRScheduler) for item in items)


# ── formulas of the step count alone ────────────────────────────────────────────────────────────


@dataclass(eq=False, repr=False)
class LambdaLR(LRScheduler):
    """base * f(t), one f or one for each group."""

    lr_lambda: Callable[[int], float] | list[Callable[[int], float]]
    sets = True

    def __post_init__(self) -> None:
        groups, functions = len(self.optimizer.param_groups), self.lr_lambda
        self.lr_lambdas = [functions] * groups if callable(functions) else list(functions)
        if len(self.lr_lambdas) != groups:
            raise ArgumentError(
                f"LambdaLR: got {len(self.lr_lambdas)} functions, expected {groups}, one for each "
                "group."
            )
        super().__post_init__()

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        factor = self.lr_lambdas[index]
        return lambda t, base: base * factor(t)


@dataclass(eq=False, repr=False)
class StepLR(LRScheduler):
    """base * gamma^(t // step_size)."""

    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        self._require(self.step_size > 0, "step_size", "1 or more")
        super().__post_init__()

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma ** (t // self.step_size)


@dataclass(eq=False, repr=False)
class MultiStepLR(LRScheduler):
    """base * gamma^(number of milestones reached)."""

    milestones: Sequence[int]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        self._require(isinstance(self.milestones, Iterable), "milestones", "a list of steps")
        super().__post_init__()

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma ** bisect_right(sorted(self.milestones), t)


@dataclass(eq=False, repr=False)
class ExponentialLR(LRScheduler):
    """base * gamma^t."""

    gamma: float

    def _value(self, t: int, base: float) -> float:
        return base * self.gamma**t


@dataclass(eq=False, repr=False)
class LinearLR(LRScheduler):
    """base * (start + (end - start) * min(t / total, 1)): a line over `total_iters` steps."""

    start_factor: float = 1.0 / 3
    end_factor: float = 1.0
    total_iters: int = 5

    def __post_init__(self) -> None:
        self._require(0.0 < self.start_factor <= 1.0, "start_factor", "one in (0, 1]")
        self._require(0.0 <= self.end_factor <= 1.0, "end_factor", "one in [0, 1]")
        super().__post_init__()

    def _value(self, t: int, base: float) -> float:
        share = min(t / self.total_iters, 1.0)
        return base * (self.start_factor + (self.end_factor - self.start_factor) * share)


@dataclass(eq=False, repr=False)
class CosineAnnealingLR(LRScheduler):
    """From base to `eta_min` along half a cosine of `T_max` steps, and back.

    Source: Loshchilov & Hutter, SGDR, ICLR 2017, without the restarts.
    """

    T_max: int
    eta_min: float = 0.0

    def __post_init__(self) -> None:
        self._require(self.T_max > 0, "T_max", "1 or more")
        super().__post_init__()

    def _value(self, t: int, base: float) -> float:
        return _cosine(base, self.eta_min, t / self.T_max)


@dataclass(eq=False, repr=False)
class CosineAnnealingWarmRestarts(LRScheduler):
    """From base to `eta_min` along half a cosine of `T_0` steps, then T_0 * T_mult, ...

    Source: Loshchilov & Hutter, SGDR, ICLR 2017.
    """

    T_0: int
    T_mult: int = 1
    eta_min: float = 0.0
    sets = True

    def __post_init__(self) -> None:
        for name, value in (("T_0", self.T_0), ("T_mult", self.T_mult)):
            is_count = isinstance(value, INTEGERS) and value >= 1
            self._require(is_count, name, "an integer of 1 or more")
        super().__post_init__()

    def step(self, epoch: float | None = None) -> None:
        """Move on by one, or to `epoch`, which may lie between two: epoch + batch / batches."""
        if epoch is None:
            super().step()
            return
        self.last_epoch = int(epoch)
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self._value(epoch, base)

    def _value(self, t: float, base: float) -> float:
        span = self.T_0
        if self.T_mult == 1:
            t %= span
        while t >= span:
            t, span = t - span, span * self.T_mult
        return _cosine(base, self.eta_min, t / span)


# ── made of others, moving momentum too, watching a metric ──────────────────────────────────────


@dataclass(eq=False, repr=False)
class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to `max_lr`, then down to a rate near 0, both along cosines.

    `max_lr` is one rate or one for each group; `anneal_strategy` "linear" takes lines. In
    `three_phase`s the rate comes down as it went up, and then goes on to the rate near 0.
    Momentum (beta1 for Adam) moves the other way unless `cycle_momentum` is false.

    Source: Smith & Topin, Super-Convergence, 2018.
    """

    max_lr: float | Sequence[float]
    total_steps: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    pct_start: float = 0.3
    anneal_strategy: str = "cos"
    cycle_momentum: bool = True
    base_momentum: float = 0.85
    max_momentum: float = 0.95
    div_factor: float = 25.0
    final_div_factor: float = 1e4
    three_phase: bool = False
    sets = True

    def __post_init__(self) -> None:
        self._steps = self.total_steps or (self.epochs or 0) * (self.steps_per_epoch or 0)
        if self._steps < 2:
            raise ArgumentError(
                f"OneCycleLR: got {self._steps} steps, expected 2 or more. Pass total_steps, or "
                "epochs and steps_per_epoch."
            )
        self._require(0.0 <= self.pct_start <= 1.0, "pct_start", "one in [0, 1]")
        self._require(self.anneal_strategy in ANNEALS, "anneal_strategy", "'cos' or 'linear'")
        groups = self.optimizer.param_groups
        if self.cycle_momentum and not {"momentum", "betas"} & groups[0].keys():
            raise ArgumentError(
                "OneCycleLR: the optimizer has no momentum to cycle. Pass cycle_momentum=False."
            )
        self._peaks = self._of_groups("max_lr")
        if self.last_epoch == -1:
            for group, peak in zip(groups, self._peaks, strict=True):
                group["initial_lr"] = group["lr"] = peak / self.div_factor
        super().__post_init__()

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        peak = self._peaks[index]
        return lambda t, base: self._point(t, base, peak, base / self.final_div_factor)

    def step(self) -> None:
        """Move on by one; after `total_steps` of them there is nothing to move on to."""
        if self.last_epoch >= self._steps:
            raise ArgumentError(
                f"OneCycleLR: got step {self.last_epoch + 1}, expected {self._steps} at most. "
                "Give the true number of steps."
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
        peak, end = float(self.pct_start * self._steps) - 1.0, self._steps - 1.0
        anneal = ANNEALS[self.anneal_strategy]
        if t <= peak:
            return anneal(first, middle, t / peak)
        if self.three_phase and t <= 2.0 * peak:
            return anneal(middle, first, (t - peak) / peak)
        if self.three_phase:
            peak, middle = 2.0 * peak, first
        return anneal(middle, last, (t - peak) / (end - peak))


@dataclass(eq=False, repr=False)
class SequentialLR(LRScheduler):
    """The first schedule up to the first milestone, then the second from its own start, ..."""

    schedulers: list[LRScheduler]
    milestones: list[int]

    def __post_init__(self) -> None:
        if len(self.schedulers) != len(self.milestones) + 1:
            raise ArgumentError(
                f"SequentialLR: got {len(self.schedulers)} schedulers and {len(self.milestones)} "
                "milestones, expected one milestone between each two schedulers."
            )
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        super().__post_init__()

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        def value(t: int, base: float) -> float:
            which = bisect_right(self.milestones, t)
            start = self.milestones[which - 1] if which else 0
            return self.schedulers[which]._value_of(index)(t - start, base)

        return value


@dataclass(eq=False, repr=False)
class ReduceLROnPlateau(LRScheduler):
    """Multiply the rate by `factor` once a metric has not improved for `patience` steps."""

    mode: str = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: str = "rel"
    cooldown: int = 0
    min_lr: float | Sequence[float] = 0.0
    eps: float = 1e-8

    def __post_init__(self) -> None:
        self._require(isinstance(self.optimizer, Optimizer), "optimizer", "an Optimizer")
        self._require(self.factor < 1.0, "factor", "less than 1")
        if self.mode not in ("min", "max") or self.threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"ReduceLROnPlateau: got mode {self.mode!r} and threshold_mode "
                f"{self.threshold_mode!r}, expected 'min' or 'max', and 'rel' or 'abs'."
            )
        self.min_lrs = self._of_groups("min_lr")
        self.best = math.inf if self.mode == "min" else -math.inf
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
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lower = max(group["lr"] * self.factor, least)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, current: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if math.isinf(self.best):
            return sign * current > sign * self.best
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1.0)
        return sign * current > sign * (self.best + sign * margin)
