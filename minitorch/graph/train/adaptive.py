"""Optimizers with a rate for each element: RMSProp, Adadelta, FTRL; as TensorFlow has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import Array, namespace
from ..state import Variable
from .optimizer import Optimizer, Update


class RMSProp(Update):
    """r = d r + (1 - d) g^2; m = mu m + lr g / sqrt(r + eps); w -= m."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w, r, m and, if centered, the mean of g in place."""
        w, r, m, *mean = values
        lr, decay, momentum, eps = hyper
        r += (1 - decay) * (grad * grad - r)
        width = r
        if mean:
            mean[0] += (1 - decay) * (grad - mean[0])
            width = r - mean[0] * mean[0]
        m *= momentum
        m += lr * grad / (width + eps) ** 0.5
        w -= m


class RMSPropOptimizer(Optimizer):
    """The gradient over the root of a decaying mean of its square, which starts at 1.

    Args:
        centered: of the square of its distance from its own decaying mean instead.

    Source: Tieleman & Hinton, Coursera lecture 6.5, 2012; the start is TensorFlow's.
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(learning_rate, name)
        self.decay, self.momentum, self.epsilon, self.centered = decay, momentum, epsilon, centered

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return RMSProp(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        starts = {"rms": 1.0, "momentum": 0.0}
        if self.centered:
            starts["mg"] = 0.0
        return tuple(self._slot(variable, what, start) for what, start in starts.items())

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate, self.decay, self.momentum, self.epsilon)


class Adadelta(Update):
    """a = r a + (1 - r) g^2; u = sqrt(b + eps) / sqrt(a + eps) g; b likewise of u; w -= lr u."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w and both means in place."""
        w, a, b = values
        lr, rho, eps = hyper
        a += (1 - rho) * (grad * grad - a)
        update = (b + eps) ** 0.5 / (a + eps) ** 0.5 * grad
        b += (1 - rho) * (update * update - b)
        w -= lr * update


class AdadeltaOptimizer(Optimizer):
    """Steps as large as the last ones were, for the gradients that there are now.

    Source: Zeiler, ADADELTA, 2012.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(learning_rate, name)
        self.rho, self.epsilon = rho, epsilon

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return Adadelta(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return tuple(self._slot(variable, what, 0.0) for what in ("accum", "accum_update"))

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate, self.rho, self.epsilon)


class Ftrl(Update):
    """Follow the regularized leader, coordinate by coordinate."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w, the sum of squares and the linear part in place."""
        w, total, linear = values
        lr, power, l1, l2 = hyper
        xp = namespace(w)
        after = total + grad * grad
        linear += grad - (after**-power - total**-power) / lr * w
        total[...] = after
        quadratic = after**-power / lr + 2 * l2
        pull = xp.sign(linear) * l1 - linear
        w[...] = xp.where(abs(linear) > l1, pull / quadratic, xp.zeros_like(w))


class FtrlOptimizer(Optimizer):
    """Weights that a penalty of their size sets to exactly 0.

    Source: McMahan et al., Ad click prediction, KDD 2013.
    """

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
    ) -> None:
        super().__init__(learning_rate, name)
        self.power, self.start = learning_rate_power, initial_accumulator_value
        self.l1, self.l2 = l1_regularization_strength, l2_regularization_strength

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return Ftrl(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return self._slot(variable, "Ftrl", self.start), self._slot(variable, "Ftrl_1", 0.0)

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate, self.power, self.l1, self.l2)
