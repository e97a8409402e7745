"""Optimizers that run on parameter servers: NumPy arrays or torch tensors, updated in place.

A server calls `step(name, param, grad)` with its piece of an array, and, where the optimizer has
it, `step_rows(name, param, rows, grad)` for a gradient that is zero outside of some rows.
May import: errors.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

from ddp_lab.errors import InvalidArgument


class Optimizer(Protocol):
    """What a server needs of an optimizer."""

    def step(self, name: str, param: Any, grad: Any) -> None:
        """Update `param` in place by the gradient `grad` of its shape."""


@dataclass
class SGD:
    """Gradient descent, with momentum as in torch: v = momentum v + g; w -= lr v."""

    lr: float
    momentum: float = 0.0
    _velocity: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check("SGD", "lr", self.lr)
        _check("SGD", "momentum", self.momentum)

    def fresh(self) -> Self:
        """Return an optimizer with the same options and no state: each server has its own."""
        return type(self)(self.lr, self.momentum)

    def step(self, name: str, param: Any, grad: Any) -> None:
        """Update `param` in place."""
        if self.momentum:
            velocity = self._velocity.get(name)
            grad = grad if velocity is None else self.momentum * velocity + grad
            self._velocity[name] = grad
        param -= self.lr * grad

    def step_rows(self, name: str, param: Any, rows: Any, grad: Any) -> bool:
        """Update the given rows, each named once; return False where all rows would change."""
        if self.momentum:
            return False
        param[rows] -= self.lr * grad
        return True


@dataclass
class Adagrad:
    """Adagrad as in torch: s += g^2; w -= lr g / (sqrt(s) + eps).

    Source: Duchi, Hazan & Singer, J. Mach. Learn. Res. 12, 2011.
    """

    lr: float
    eps: float = 1e-10
    _sums: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check("Adagrad", "lr", self.lr)
        _check("Adagrad", "eps", self.eps)

    def fresh(self) -> Self:
        """Return an optimizer with the same options and no state: each server has its own."""
        return type(self)(self.lr, self.eps)

    def step(self, name: str, param: Any, grad: Any) -> None:
        """Update `param` in place."""
        sums = self._of(name, param)
        sums += grad * grad
        param -= self.lr * grad / (sums**0.5 + self.eps)

    def step_rows(self, name: str, param: Any, rows: Any, grad: Any) -> bool:
        """Update the given rows, each named once; the others' gradient is zero."""
        sums = self._of(name, param)
        sums[rows] += grad * grad
        param[rows] -= self.lr * grad / (sums[rows] ** 0.5 + self.eps)
        return True

    def _of(self, name: str, param: Any) -> Any:
        if name not in self._sums:
            self._sums[name] = param.clone() if hasattr(param, "clone") else param.copy()
            self._sums[name][...] = 0
        return self._sums[name]


def _check(optimizer: str, option: str, value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:
        raise InvalidArgument(
            f"{optimizer}: {option} is no number of 0 or more: got {value!r}. "
            f"Write for example {optimizer}({option}=0.1)."
        )
