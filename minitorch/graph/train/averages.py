"""Moving averages of variables and values, under TensorFlow's name; and the count of steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import GraphError
from ..collections import GraphKeys
from ..defaults import global_variables, trainable_variables
from ..node import Node, UnknownShape
from ..operators.elementwise import minimum, pow
from ..operators.math import cast
from ..scope import Graph, control_dependencies, get_default_graph, name_scope
from ..state import Variable, assign, assign_add, assign_sub, group


class ExponentialMovingAverage:
    """Keeps a shadow of each variable that follows it slowly: s -= (1 - decay) (s - value).

    Args:
        decay: how much of the shadow stays at each update.
        num_updates: a count, so that early updates follow faster: by min(decay, (1+n) / (10+n)).
        zero_debias: correct the shadows of values that are no variables for their start at 0.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self.decay, self.num_updates, self.zero_debias = decay, num_updates, zero_debias
        self.name = name
        self._shadows: dict[Node, Variable] = {}

    def apply(self, var_list: Iterable[Node] | None = None) -> Node:
        """Return an operation that updates the shadows, which it makes for what has none yet."""
        values = trainable_variables() if var_list is None else list(var_list)
        for value in values:
            if not isinstance(value, Node) or value.dtype.kind != "f":
                raise GraphError(
                    f"ExponentialMovingAverage: got {value!r}, expected variables or nodes of a "
                    "floating dtype."
                )
        with name_scope(self.name):
            return group(*[self._update(value) for value in values])

    def average(self, var: Node) -> Variable | None:
        """Return the shadow of `var`, or None if it has none."""
        return self._shadows.get(var)

    def average_name(self, var: Node) -> str:
        """Return the name of the shadow, which checkpoints know it by."""
        shadow = self._shadows.get(var)
        return f"{var.name}/{self.name}" if shadow is None else shadow.name

    def variables_to_restore(
        self, moving_avg_variables: Iterable[Variable] | None = None
    ) -> dict[str, Variable]:
        """Return variables by the names to restore them from: the shadows' where there are some."""
        moving = trainable_variables() if moving_avg_variables is None else moving_avg_variables
        found = {self.average_name(v): v for v in moving}
        shadows = {id(shadow) for shadow in self._shadows.values()}
        covered = {id(v) for v in found.values()} | shadows
        found.update({v.name: v for v in global_variables() if id(v) not in covered})
        return found

    def _update(self, value: Node) -> Node:
        shadow = self._shadows.get(value) or self._shadow(value)
        kept = cast(self.decay, value.dtype)
        if self.num_updates is not None:
            count = cast(self.num_updates, value.dtype)
            kept = minimum(kept, (count + 1.0) / (count + 10.0))
        if isinstance(value, Variable) or not self.zero_debias:
            return assign_sub(shadow, (shadow - value) * (1.0 - kept))
        return self._corrected(shadow, value, kept)

    def _shadow(self, value: Node) -> Variable:
        """Make and keep the shadow: a variable's starts where it does, another's at 0."""
        if isinstance(value, Variable):
            start: Any = value.initialized_value()
            value.graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, value)
        elif isinstance(value.shape, UnknownShape) or None in value.shape:
            raise GraphError(
                f"ExponentialMovingAverage: the shape of {value.name!r} is not fixed: got "
                f"{value.shape} (built at {value.location}). Use set_shape."
            )
        else:
            start = np.zeros(tuple(value.shape), value.dtype)
        name = f"{value.name}/{self.name}"
        with name_scope(""):
            made = self._shadows[value] = Variable(start, trainable=False, name=name)
        return made

    def _corrected(self, shadow: Variable, value: Node, kept: Node) -> Node:
        with name_scope(""):
            zeros = np.zeros(tuple(value.shape), value.dtype)
            biased = Variable(zeros, trainable=False, name=f"{shadow.name}/biased")
            steps = Variable(np.zeros((), value.dtype), trainable=False, name=f"{shadow.name}/step")
        total = assign_sub(biased, (biased - value) * (1.0 - kept))
        count = assign_add(steps, np.ones((), value.dtype))
        return assign(shadow, total / (1.0 - pow(kept, count)))


# ── the global step ─────────────────────────────────────────────────────────────────────────────


def get_global_step(graph: Graph | None = None) -> Variable | None:
    """Return the variable that counts the steps of training, if the graph has one."""
    owner = get_default_graph() if graph is None else graph
    found = owner.get_collection(GraphKeys.GLOBAL_STEP)
    named = [v for v in owner.variables if v.name == "global_step"]
    return next(iter([*found, *named]), None)


def create_global_step(graph: Graph | None = None) -> Variable:
    """Make the variable that counts steps, from 0.

    Raises:
        GraphError: the graph has one.
    """
    owner = get_default_graph() if graph is None else graph
    there = get_global_step(owner)
    if there is not None:
        raise GraphError(
            f"create_global_step: {there.name!r} exists already (built at {there.location}). Use "
            "get_or_create_global_step."
        )
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP)
    with owner.as_default(), name_scope(""), control_dependencies(None):
        return Variable(np.int64(0), trainable=False, name="global_step", collections=keys)


def get_or_create_global_step(graph: Graph | None = None) -> Variable:
    """Return the variable that counts steps; make it if there is none."""
    return get_global_step(graph) or create_global_step(graph)


def global_step(sess: Any, global_step_tensor: Node) -> int:
    """Return the number of steps in a session."""
    return int(sess.run(global_step_tensor))
