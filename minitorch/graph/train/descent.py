"""Gradient descent and its kin: each update is a node that writes its variable."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import compile as code
from ...arrays import Array, DType
from ...errors import GraphError
from ..core.variables import State, Variable
from .optimizer import Optimizer, Update


class GradientDescent(Update):
    """w -= lr g."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w in place."""
        values[0] -= hyper[0] * grad

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        """As the base does, without its detour through lists: this runs at every step."""
        grad, lr = arrays
        with state.lock:
            w = state.values[self.variable]
            if not (isinstance(w, np.ndarray) and w.size >= LARGE and descend(w, lr, grad)):
                w -= lr * grad
        return w


LARGE = 2**16  # elements from which one pass over memory saves more than calling it takes


def descend(w: Array, lr: Array, grad: Array) -> bool:
    """Set w to w - lr grad in one pass, no array in between; tell whether that was possible."""
    rule = _one_pass(w.dtype)
    if rule is None or not (w.dtype == grad.dtype == lr.dtype and w.shape == grad.shape):
        return False
    if lr.size != 1 or not w.flags.c_contiguous or np.may_share_memory(w, grad):
        return False  # the gradient may be the transposed variable itself
    rule(w, lr, grad, out=w)
    return True


@functools.cache
def _one_pass(dtype: DType) -> code.Kernel | None:
    """Return the kernel w - lr grad; None where none can be made."""
    if dtype.name not in code.DTYPES or not code.available():
        return None
    steps = (code.Step("mul", (1, 2)), code.Step("sub", (0, -1)))
    return code.kernel(code.Program(dtype.name, ("float",) * 3, steps))


class Momentum(Update):
    """a = mu a + g; w -= lr a, or with Nesterov w -= lr (g + mu a)."""

    nesterov = False

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w and a in place."""
        w, a = values
        lr, mu = hyper
        a *= mu
        a += grad
        w -= lr * (grad + mu * a) if self.nesterov else lr * a


class Adagrad(Update):
    """a += g^2; w -= lr g / sqrt(a)."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w and a in place."""
        w, a = values
        a += grad * grad
        w -= hyper[0] * grad / a**0.5


class Adam(Update):
    """m, v: decaying means of g and g^2; w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps).

    The slots hold b1^t and b2^t as well, a pair for each variable.
    """

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change w, m, v and the two powers in place."""
        w, m, v, power1, power2 = values
        lr, beta1, beta2, eps = hyper
        power1 *= beta1
        power2 *= beta2
        m += (1 - beta1) * (grad - m)
        v += (1 - beta2) * (grad * grad - v)
        w -= lr * (1 - power2) ** 0.5 / (1 - power1) * m / (v**0.5 + eps)


class GradientDescentOptimizer(Optimizer):
    """w -= lr g."""

    def __init__(self, learning_rate: Any, name: str = "GradientDescent") -> None:
        super().__init__(learning_rate, name)

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return GradientDescent(variable, slots)


class MomentumOptimizer(Optimizer):
    """A velocity that decays by `momentum`, from 0."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, name)
        self.momentum = momentum
        self.use_nesterov = use_nesterov

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        update = Momentum(variable, slots)
        update.nesterov = self.use_nesterov
        return update

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return (self._slot(variable, "Momentum", 0.0),)

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate, self.momentum)


class AdagradOptimizer(Optimizer):
    """A rate for each element that falls with its squared gradients; their sum starts at 0.1.

    Source: Duchi, Hazan & Singer, JMLR 12, 2011; the start is TensorFlow's.
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise GraphError(
                f"AdagradOptimizer: got initial_accumulator_value {initial_accumulator_value}, "
                "expected one above 0, since the first step divides by its root."
            )
        super().__init__(learning_rate, name)
        self.start = initial_accumulator_value

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return Adagrad(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return (self._slot(variable, "Adagrad", self.start),)


class AdamOptimizer(Optimizer):
    """Decaying means of gradient and squared gradient, corrected for their start at 0.

    Source: Kingma & Ba, ICLR 2015; epsilon outside the correction, as in TensorFlow.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, name)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return Adam(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        moments = [self._slot(variable, what, 0.0) for what in ("Adam_m", "Adam_v")]
        powers = [self._slot(variable, f"beta{i}_power", 1.0, scalar=True) for i in (1, 2)]
        return (*moments, *powers)

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate, self.beta1, self.beta2, self.epsilon)
