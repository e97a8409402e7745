"""Loss scaling as nodes of the graph: small gradients survive half precision.

The loss is multiplied by a scale before its gradient is taken, so that gradients are large enough
for float16, and the gradients are divided by it before they are applied. A gradient that overflows
costs the step and halves the scale; after enough good steps it is doubled. Whether to apply is a
Switch: after an overflow the updates are dead, and a Merge goes on without them.

Source: Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import GraphError
from ..control.cond import merge, switch
from ..node import Node
from ..operators.elementwise import is_finite, logical_and, maximum, where
from ..operators.math import cast, reduce_all
from ..operators.shaping import identity
from ..scope import control_dependencies
from ..state import Variable, assign, group
from .optimizer import Optimizer

LARGEST = 2.0**24  # a scale above it would make ordinary losses overflow float32's gradients too


class LossScaleOptimizer(Optimizer):
    """An optimizer whose gradients are computed from a scaled loss.

    Args:
        optimizer: what applies the gradients.
        initial_scale: what the loss is first multiplied by.
        growth_steps: after so many steps without an overflow the scale is doubled.
    Attributes:
        scale: the variable that holds the scale.
    """

    def __init__(
        self, optimizer: Optimizer, initial_scale: float = 2.0**15, growth_steps: int = 2000
    ) -> None:
        if not isinstance(optimizer, Optimizer) or initial_scale <= 0 or growth_steps < 1:
            raise GraphError(
                f"LossScaleOptimizer: got {type(optimizer).__name__}, scale {initial_scale} and "
                f"{growth_steps} growth steps, expected an optimizer, a number above 0, and 1 or "
                "more."
            )
        super().__init__(optimizer.learning_rate, f"LossScale{optimizer.name}")
        self.optimizer, self.growth_steps = optimizer, growth_steps
        self.scale = Variable(np.float32(initial_scale), trainable=False, name="loss_scale")
        self.good_steps = Variable(np.int32(0), trainable=False, name="good_steps")

    def compute_gradients(
        self,
        loss: Node,
        var_list: Iterable[Variable] | None = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Node | None, Variable]]:
        """Return (gradient of the unscaled loss or None, variable) for each variable."""
        if not isinstance(loss, Node):
            raise GraphError(f"minimize: got a loss of {type(loss).__name__}, expected a node.")
        larger = loss * cast(self.scale, loss.dtype)
        scaled = self.optimizer.compute_gradients(larger, var_list, grad_loss=grad_loss)
        return [(g if g is None else g / cast(self.scale, g.dtype), v) for g, v in scaled]

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Variable]],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Node:
        """Return an operation that applies these gradients if all are finite."""
        pairs = [(grad, v) for grad, v in grads_and_vars if grad is not None]
        if not pairs:
            raise GraphError("apply_gradients: got no gradient, expected one or more.")
        finite = reduce_all(is_finite(pairs[0][0]))
        for grad, _ in pairs[1:]:
            finite = logical_and(finite, reduce_all(is_finite(grad)))
        alive = [(switch(grad, finite)[1], v) for grad, v in pairs]
        applied = self.optimizer.apply_gradients(alive, global_step)
        no, yes = switch(finite, finite)
        with control_dependencies([applied]):
            yes = identity(yes)
        done, _ = merge([no, yes])
        with control_dependencies([done]):
            return group(*self._next(finite), name=name)

    def _next(self, finite: Node) -> list[Node]:
        """Return the writes of the scale and of the count of good steps."""
        scale, count = self.scale.read(), self.good_steps.read() + 1
        grown = logical_and(count >= self.growth_steps, scale < LARGEST)
        larger = where(grown, scale * 2.0, scale)
        smaller = maximum(scale * 0.5, 1.0)
        restart = logical_and(finite, count < self.growth_steps)
        return [
            assign(self.scale, where(finite, larger, smaller)),
            assign(self.good_steps, where(restart, count, 0)),
        ]
