"""What every optimizer is made of: an update that writes its variable, and `minimize`.

Slots (momenta, accumulators) are variables that are not trained; `initialize_all_variables` sets
them like any other, so it belongs after `minimize`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...errors import GraphError
from ...op import Spec
from ..core.gradients import gradients
from ..core.graph import control_dependencies, name_scope
from ..core.naming import label
from ..core.node import Node, build, convert
from ..core.variables import State, StateOp, Variable, assign_add, fresh, group, trainable_variables


class Update(StateOp):
    """One optimizer's step on one variable. A subclass gives the rule, in place and not.

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
        """Step on the variables' own arrays."""
        grad, *hyper = arrays
        with state.lock:  # what a run of another thread writes meanwhile is not lost
            self.rule(grad, [variable.value_in(state) for variable in self.writes], *hyper)
            return state.values[self.variable]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the variable."""
        return Spec(tuple(self.variable.shape), self.variable.dtype)


class Optimizer:
    """Base of the optimizers; a subclass says which update, with which slots and numbers.

    Two runs at once never mix their updates of a variable; a gradient is of the values that its
    own run read, which may be older by then.
    """

    def __init__(self, learning_rate: Any, name: str) -> None:
        self.learning_rate = learning_rate
        self.name = name
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
            raise GraphError(
                f"minimize: the loss {loss.name!r} depends on none of the variables {names} "
                f"(built at {loss.location}). Check how the loss is built."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self, loss: Node, var_list: Iterable[Variable] | None = None
    ) -> list[tuple[Node | None, Variable]]:
        """Return (gradient or None, variable) for each variable, the trainable ones unless told."""
        if not isinstance(loss, Node):
            raise GraphError(f"minimize: got a loss of {type(loss).__name__}, expected a node.")
        with loss.graph.as_default():
            variables = trainable_variables() if var_list is None else _listed(var_list)
            if not variables:
                raise GraphError(
                    "minimize: there is no variable to train in the graph of the loss "
                    f"{loss.name!r} (built at {loss.location}). Build one, or give var_list."
                )
            return list(zip(gradients(loss, variables), variables, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
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
        raise NotImplementedError(f"{type(self).__name__} does not say which update it makes.")

    def _slots(self, variable: Variable) -> tuple[Variable, ...]:
        return ()

    def _hyper(self) -> Sequence[Any]:
        return (self.learning_rate,)

    def _slot(self, variable: Variable, what: str, start: float, scalar: bool = False) -> Variable:
        shape = () if scalar else tuple(variable.shape)
        with control_dependencies(None), name_scope(""):
            value = np.full(shape, start, variable.dtype)
            return Variable(value, trainable=False, name=f"{variable.name}/{what}")


def _listed(var_list: Iterable[Variable] | Variable) -> list[Variable]:
    found = [var_list] if isinstance(var_list, Variable) else list(var_list)
    for variable in found:
        if not isinstance(variable, Variable):
            raise GraphError(
                f"minimize: got {type(variable).__name__} in var_list, expected variables."
            )
    return found
