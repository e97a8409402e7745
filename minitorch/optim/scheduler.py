"""Learning-rate schedules: each is a function of the step count, written as its formula.

`value(t, base)` is the rate after t calls of `step`, for a group that started at `base`. A
scheduler multiplies the group's rate by value(t) / value(t - 1), so that two schedulers on one
optimizer multiply, as PyTorch's do; after a rate of 0 it sets the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from minitorch.errors import ArgumentError
from minitorch.optim.optimizer import Optimizer


class LRScheduler:
    """Base of the schedules; a subclass gives `value`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        for group in optimizer.param_groups:
            if last_epoch == -1 or "initial_lr" not in group:
                group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.step()

    def value(self, t: int, base: float) -> float:
        """Return the rate after `t` steps of a group that started at `base`."""
        raise NotImplementedError(f"{type(self).__name__} has no value(t, base). Define it.")

    def step(self) -> None:
        """Move on by one and set the rate of every group. Call it after `optimizer.step()`."""
        self.last_epoch += 1
        for i, (group, base) in enumerate(
            zip(self.optimizer.param_groups, self.base_lrs, strict=True)
        ):
            group["lr"] = self._next(i, group["lr"], base)

    def _next(self, index: int, current: float, base: float) -> float:
        value = self._value_of(index)
        if self.last_epoch == 0:
            return current * value(0, base) / base if base else value(0, base)
        before = value(self.last_epoch - 1, base)
        now = value(self.last_epoch, base)
        return current * (now / before) if before else now

    def _value_of(self, index: int) -> Callable[[int, float], float]:
        return self.value

    def get_last_lr(self) -> list[float]:
        """Return the present rate of every group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, object]:
        """Return what `load_state_dict` needs: counters and numbers, no optimizer, no function."""
        return {
            key: value
            for key, value in vars(self).items()
            if key != "optimizer" and not _holds_functions(value)
        }

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Continue where `state_dict` was taken; the optimizer's own state holds the rates."""
        vars(self).update(state_dict)


def cosine(start: float, end: float, share: float) -> float:
    """Return the point at `share` of half a cosine from `start` (0) to `end` (1)."""
    return end + (start - end) * (1.0 + math.cos(math.pi * share)) / 2.0


def positive(where: str, name: str, value: int) -> int:
    """Return `value`, which must be an integer of 1 or more."""
    if not isinstance(value, int) or value <= 0:
        raise ArgumentError(f"{where}: got {name} {value!r}, expected an integer of 1 or more.")
    return value


def _holds_functions(value: object) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(callable(item) or isinstance(item, LRScheduler) for item in items)
