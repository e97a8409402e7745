"""Optimizers that run on parameter servers: NumPy arrays or torch tensors, updated in place.

A server calls `step(name, param, grad)` with its piece of an array, and, where the optimizer has
it, `step_rows(name, param, rows, grad)` for a gradient that is zero outside of some rows.
May import: errors.
"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, Self

from ddp_lab.errors import InvalidArgument


class Optimizer(Protocol):
    """What a server needs of an optimizer."""

    def step(self, name: str, param: Any, grad: Any) -> None:
        """Update `param` in place by the gradient `grad` of its shape."""


@dataclass
class _WithOptions:
    """What optimizers have in common: options, each a number of 0 or more, and a state."""

    lr: float

    def __post_init__(self) -> None:
        for option in (option.name for option in fields(self) if option.init):
            value = getattr(self, option)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 <= value < math.inf:
                own = type(self).__name__
                raise InvalidArgument(
                    f"{own}: {option} is no number of 0 or more: got {value!r}. "
                    f"Write for example {own}({option}=0.1)."
                )

    def fresh(self) -> Self:
        """Return an optimizer with the same options and no state: each server has its own."""
        return replace(self)


@dataclass
class SGD(_WithOptions):
    """Gradient descent, with momentum as in torch: v = momentum v + g; w -= lr v."""

    momentum: float = 0.0
    _velocity: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

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
class Adagrad(_WithOptions):
    """Adagrad as in torch: s += g^2; w -= lr g / (sqrt(s) + eps).

    Source: Duchi, Hazan & Singer, J. Mach. Learn. Res. 12, 2011.
    """

    eps: float = 1e-10
    _sums: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

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
