"""Recurrent cells under TensorFlow's names: one step of a recurrence, called by `nn.dynamic_rnn`.

A cell is called as (inputs, state) -> (output, new state). Its variables are made at its first
call, in the `name_scope` that is open then, under TensorFlow's names.

Sources: Elman, Cognitive Science 14(2), 1990; Hochreiter & Schmidhuber, Neural Computation 9(8),
1997, with the forget gate of Gers et al.; Cho et al., EMNLP 2014.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.library import DType, DTypeLike, as_dtype
from ...errors import GraphError
from ...pytree import map_leaves
from ..core.graph import name_scope, outside
from ..core.node import Node, UnknownShape, convert
from ..core.variables import Variable
from ..operators.creation import zeros
from ..operators.elementwise import sigmoid, tanh
from ..operators.math import matmul
from ..operators.random import random_uniform
from ..operators.shaping import concat, split

__all__ = ["BasicLSTMCell", "BasicRNNCell", "GRUCell", "LSTMStateTuple", "MultiRNNCell", "RNNCell"]

Activation = Callable[[Node], Node]
State = object
"""A node, or a structure of nodes, as the cell's `state_size` is one of numbers."""


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: the memory c and the output h, each (batch, units)."""

    c: Node | int
    h: Node | int


class RNNCell:
    """Base of the cells; a subclass gives what is below.

    Attributes:
        state_size: the units of the state, or a structure of numbers as the state is one.
        output_size: the units of the output.
    """

    scope_name = "rnn_cell"
    state_size: object
    output_size: int
    _has_variables = False

    def build(self, n_inputs: int, dtype: DType) -> None:
        """Make the variables."""

    def call(self, inputs: Node, state: Any) -> tuple[Node, State]:
        """Return output and new state of one step."""
        raise NotImplementedError(f"{type(self).__name__}: `call` is not defined. Define it.")

    def __call__(self, inputs: object, state: Any) -> tuple[Node, State]:
        """Return output and new state of one step, (batch, units) each.

        Raises:
            GraphError: the inputs are no matrix with a known number of columns.
        """
        x = convert(inputs)
        if not self._has_variables:
            with outside(), name_scope(self.scope_name):
                self.build(_columns(x, self), x.dtype)
            self._has_variables = True
        return self.call(x, state)

    def zero_state(self, batch_size: object, dtype: DTypeLike) -> State:
        """Return a state of zeros; `batch_size` is a number or a scalar node."""
        kind = as_dtype(dtype)
        return map_leaves(lambda units: zeros([batch_size, units], kind), self.state_size)


def _columns(x: Node, cell: RNNCell) -> int:
    if isinstance(x.shape, UnknownShape) or len(x.shape) != 2 or x.shape[1] is None:
        raise x.error(
            f"{type(cell).__name__}: got inputs of shape {x.shape}, expected (batch, features) "
            "with the features known."
        )
    return int(x.shape[1])


class BasicRNNCell(RNNCell):
    """h' = activation([x, h] W + b), which is also the output."""

    scope_name = "basic_rnn_cell"
    gates = 1

    def __init__(self, num_units: int, activation: Activation | None = None) -> None:
        self.units, self.activation = num_units, activation or tanh
        self.state_size = self.output_size = num_units

    def build(self, n_inputs: int, dtype: DType) -> None:
        """Make W of (inputs + units, units times the gates) and b."""
        shape = (n_inputs + self.units, self.units * self.gates)
        self.kernel, self.bias = _weights(shape, dtype)

    def call(self, inputs: Node, state: Any) -> tuple[Node, State]:
        """Return h' twice."""
        new = self.activation(_affine([inputs, state], self.kernel, self.bias))
        return new, new


class BasicLSTMCell(BasicRNNCell):
    """c' = sigmoid(f + forget_bias) c + sigmoid(i) act(j), h' = sigmoid(o) act(c').

    i, j, f, o are the quarters of [x, h] W + b, in this order.
    """

    scope_name = "basic_lstm_cell"
    gates = 4

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
    ) -> None:
        super().__init__(num_units, activation)
        if not state_is_tuple:
            raise GraphError(
                "BasicLSTMCell: got state_is_tuple=False, expected True: a pair (c, h)."
            )
        self.forget_bias = forget_bias
        self.state_size = LSTMStateTuple(num_units, num_units)

    def call(self, inputs: Node, state: Any) -> tuple[Node, State]:
        """Return h' and (c', h')."""
        c, h = state
        i, j, f, o = split(_affine([inputs, h], self.kernel, self.bias), 4, axis=1)
        remembered = c * sigmoid(f + self.forget_bias)
        new_c = remembered + sigmoid(i) * self.activation(j)
        new_h = self.activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)


class GRUCell(BasicRNNCell):
    """h' = u h + (1 - u) act([x, r h] W + b), with r, u = sigmoid([x, h] W_g + b_g)."""

    scope_name = "gru_cell"

    def build(self, n_inputs: int, dtype: DType) -> None:
        """Make the weights of the gates, whose bias starts at 1, and those of the candidate."""
        n = n_inputs + self.units
        with name_scope("gates"):
            self.gate_kernel, self.gate_bias = _weights((n, 2 * self.units), dtype, 1.0)
        with name_scope("candidate"):
            self.kernel, self.bias = _weights((n, self.units), dtype)

    def call(self, inputs: Node, state: Any) -> tuple[Node, State]:
        gates = sigmoid(_affine([inputs, state], self.gate_kernel, self.gate_bias))
        r, u = split(gates, 2, axis=1)
        candidate = self.activation(_affine([inputs, r * state], self.kernel, self.bias))
        new = u * state + (1.0 - u) * candidate
        return new, new


class MultiRNNCell(RNNCell):
    """Cells one above the other; the state is a tuple of theirs."""

    scope_name = "multi_rnn_cell"

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        if not state_is_tuple:
            raise GraphError(
                "MultiRNNCell: got state_is_tuple=False, expected True: a tuple of states."
            )
        if not cells:
            raise GraphError("MultiRNNCell: got no cells, expected one or more.")
        self.cells = list(cells)
        self.state_size = tuple(cell.state_size for cell in self.cells)
        self.output_size = self.cells[-1].output_size

    def __call__(self, inputs: object, state: Any) -> tuple[Node, State]:
        """Return the output of the uppermost cell, and all new states."""
        x, new = convert(inputs), []
        with name_scope(self.scope_name):
            for i, (cell, part) in enumerate(zip(self.cells, state, strict=True)):
                with name_scope(f"cell_{i}"):
                    x, after = cell(x, part)
                new.append(after)
        return x, tuple(new)


def _weights(
    shape: tuple[int, int], dtype: DType, bias_start: float = 0.0
) -> tuple[Variable, Variable]:
    """Return a kernel, uniform as Glorot & Bengio (AISTATS 2010) have it, and a bias."""
    limit = math.sqrt(6.0 / sum(shape))
    kernel = Variable(random_uniform(shape, -limit, limit, dtype), name="kernel")
    return kernel, Variable(np.full(shape[1:], bias_start, dtype), name="bias")


def _affine(parts: Sequence[object], kernel: Node, bias: Node) -> Node:
    """Return the parts side by side, times the kernel, plus the bias."""
    product: Node = matmul(concat([convert(p) for p in parts], 1), kernel) + bias
    return product
