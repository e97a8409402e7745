"""The optimizers: each makes updates, nodes that write their variable, and `minimize`.

Slots (momenta, accumulators) are variables that are not trained; `initialize_all_variables` sets
them like any other, so it belongs after `minimize`.
"""

from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np

from ...arrays.library import Array
from ...errors import GraphError
from ...op import Spec
from ...ops.elementwise.compiled import descend
from ..core.gradients import gradients
from ..core.graph import control_dependencies, name_scope
from ..core.naming import label
from ..core.node import Node, build, convert
from ..core.variables import State, StateOp, Variable, assign_add, fresh, group, trainable_variables


class Update(StateOp):
    """One optimizer's step on one variable; a subclass gives the rule.

    Inputs of the node: the gradient, then the hyperparameters as scalars.
    """

    soon = True

    def __init__(self, variable: Variable, slots: tuple[Variable, ...] = ()) -> None:
        self.variable, self.slots = variable, slots
        self.writes = (variable, *slots)

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        """Change `values` (the variable's array, then the slots') in place."""
        raise NotImplementedError(f"{self.name}: `rule` is not defined. Define it.")

    def run(self, state: State, *arrays: Array) -> Array:
        """Step on copies; whoever holds the old arrays keeps them."""
        with state.lock:
            for variable in self.writes:
                state.values[variable] = fresh(variable.value_in(state))
            return self.run_in_place(state, *arrays)

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        grad, *hyper = arrays
        with state.lock:  # what a run of another thread writes meanwhile is not lost
            self.rule(grad, [variable.value_in(state) for variable in self.writes], *hyper)
            return state.values[self.variable]

    def infer(self, *specs: Spec) -> Spec:
        return Spec(tuple(self.variable.shape), self.variable.dtype)


class Optimizer:
    """Base of the optimizers; a subclass says which update, with which slots and numbers.

    Two runs at once never mix their updates of a variable; a gradient is of the values that its
    own run read, which may be older by then.
    """

    update: ClassVar[type[Update]]

    def __init__(self, learning_rate: object, name: str | None = None) -> None:
        self.learning_rate = learning_rate
        self.name = name or type(self).__name__.removesuffix("Optimizer")
        self._made: dict[Variable, tuple[Variable, ...]] = {}

    def minimize(
        self,
        loss: Node,
        global_step: Variable | None = None,
        var_list: Iterable[Variable] | None = None,
        name: str | None = None,
    ) -> Node:
        """Return an operation that takes one step down the gradient of `loss`.

        A loss with axes counts as its sum, which is what the gradient of all its elements is.
        """
        pairs = self.compute_gradients(loss, var_list)
        if all(grad is None for grad, _ in pairs):
            names = ", ".join(v.name for _, v in pairs)
            raise loss.error(
                f"minimize: the loss {loss.name!r} depends on none of the variables {names}. Check "
                "how the loss is built."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self, loss: Node, var_list: Iterable[Variable] | None = None
    ) -> list[tuple[Node | None, Variable]]:
        """Return (gradient or None, variable) for each variable, the trainable ones unless told."""
        if not isinstance(loss, Node):
            raise GraphError(f"minimize: got a loss of {type(loss).__name__}, expected a node.")
        with loss.graph.as_default():
            variables = trainable_variables() if var_list is None else _as_list(var_list)
            if not variables:
                raise loss.error(
                    "minimize: there is no variable to train in the graph of the loss "
                    f"{loss.name!r}. Build one, or give var_list."
                )
            return list(zip(gradients(loss, variables), variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[object, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Node:
        """Return an operation that applies these gradients; None leaves its variable alone."""
        pairs = [(grad, v) for grad, v in grads_and_vars if grad is not None]
        if not pairs:
            raise GraphError("apply_gradients: got no gradient, expected one or more.")
        with pairs[0][1].graph.as_default():
            updates = [self._update(convert(grad, v.dtype), v) for grad, v in pairs]
            if global_step is not None:
                with control_dependencies(updates):
                    updates = [assign_add(global_step, np.ones((), global_step.dtype))]
            return group(*updates, name=name)

    def _update(self, grad: Node, variable: Variable) -> Node:
        if not isinstance(variable, Variable):
            raise GraphError(
                f"apply_gradients: got {type(variable).__name__}, expected a Variable beside each "
                "gradient."
            )
        slots = self._made.get(variable) or self._slots(variable)
        self._made[variable] = slots
        hyper = [convert(h, variable.dtype) for h in self._hyper()]
        update = build(self._operator(variable, slots), (grad, *hyper))
        return label(update, f"update_{variable.name}")

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        return self.update(variable, slots)

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return ()

    def _hyper(self) -> Sequence[object]:
        return (self.learning_rate,)

    def _slot(self, variable: Variable, what: str, start: float, scalar: bool = False) -> Variable:
        shape = () if scalar else tuple(variable.shape)
        with control_dependencies(None), name_scope(""):
            value = np.full(shape, start, variable.dtype)
            return Variable(value, trainable=False, name=f"{variable.name}/{what}")


def _as_list(var_list: Iterable[Variable] | Variable) -> list[Variable]:
    variables = [var_list] if isinstance(var_list, Variable) else list(var_list)
    for variable in variables:
        if not isinstance(variable, Variable):
            raise GraphError(
                f"minimize: got {type(variable).__name__} in var_list, expected variables."
            )
    return variables


class GradientDescent(Update):
    """w -= lr g."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        values[0] -= hyper[0] * grad

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        """As the base does, without making lists: it runs at every step."""
        grad, lr = arrays
        with state.lock:
            w = state.values[self.variable]
            alike = isinstance(w, np.ndarray) and lr.size == 1 and lr.dtype == w.dtype
            if not (alike and descend(w, grad, lr)):
                w -= lr * grad
        return w


class Momentum(Update):
    """a = mu a + g; w -= lr a, or with Nesterov w -= lr (g + mu a)."""

    nesterov = False

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        w, a = values
        lr, mu = hyper
        a *= mu
        a += grad
        w -= lr * (grad + mu * a) if self.nesterov else lr * a


class Adagrad(Update):
    """a += g^2; w -= lr g / sqrt(a)."""

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        w, a = values
        a += grad * grad
        w -= hyper[0] * grad / a**0.5


class Adam(Update):
    """m, v: decaying means of g and g^2; w -= lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps).

    The slots hold b1^t and b2^t as well, a pair for each variable.
    """

    def rule(self, grad: Array, values: list[Array], *hyper: Array) -> None:
        w, m, v, power1, power2 = values
        lr, beta1, beta2, eps = hyper
        power1 *= beta1
        power2 *= beta2
        m += (1 - beta1) * (grad - m)
        v += (1 - beta2) * (grad * grad - v)
        w -= lr * (1 - power2) ** 0.5 / (1 - power1) * m / (v**0.5 + eps)


class GradientDescentOptimizer(Optimizer):
    """w -= lr g."""

    update = GradientDescent


class MomentumOptimizer(Optimizer):
    """A velocity that decays by `momentum`, from 0."""

    def __init__(
        self,
        learning_rate: object,
        momentum: object,
        name: str | None = None,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(learning_rate, name)
        self.momentum, self.use_nesterov = momentum, use_nesterov

    def _operator(self, variable: Variable, slots: tuple[Variable, ...]) -> Update:
        update = Momentum(variable, slots)
        update.nesterov = self.use_nesterov
        return update

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return (self._slot(variable, "Momentum", 0.0),)

    def _hyper(self) -> Sequence[object]:
        return (self.learning_rate, self.momentum)


class AdagradOptimizer(Optimizer):
    """A rate for each element that falls with its squared gradients; their sum starts at 0.1.

    Source: Duchi, Hazan & Singer, JMLR 12, 2011; the start is TensorFlow's.
    """

    update = Adagrad

    def __init__(
        self, learning_rate: object, initial_accumulator_value: float = 0.1, name: str | None = None
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise GraphError(
                f"AdagradOptimizer: got initial_accumulator_value {initial_accumulator_value}, "
                "expected one above 0, since the first step divides by its root."
            )
        super().__init__(learning_rate, name)
        self.start = initial_accumulator_value

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return (self._slot(variable, "Adagrad", self.start),)


class AdamOptimizer(Optimizer):
    """Decaying means of gradient and squared gradient, corrected for their start at 0.

    Source: Kingma & Ba, ICLR 2015; epsilon outside the correction, as in TensorFlow.
    """

    update = Adam

    def __init__(
        self,
        learning_rate: object = 0.001,
        beta1: object = 0.9,
        beta2: object = 0.999,
        epsilon: object = 1e-8,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, name)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        moments = [self._slot(variable, what, 0.0) for what in ("Adam_m", "Adam_v")]
        powers = [self._slot(variable, f"beta{i}_power", 1.0, scalar=True) for i in (1, 2)]
        return (*moments, *powers)

    def _hyper(self) -> Sequence[object]:
        return (self.learning_rate, self.beta1, self.beta2, self.epsilon)
