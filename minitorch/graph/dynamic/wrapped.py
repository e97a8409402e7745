"""The LSTM with all its options, and cells around other cells; under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ..initializers import Zeros
from ..node import Node
from ..operators.elementwise import clip_by_value, sigmoid
from ..operators.math import matmul
from ..operators.shaping import concat, split
from ..refusing import refuse
from ..variable_scope import get_variable
from .rnn_cell import Activation, BasicLSTMCell, LSTMStateTuple, RNNCell


class LSTMCell(BasicLSTMCell):
    """A `BasicLSTMCell` whose gates may also look at the memory, and whose output may be projected.

    Args:
        use_peepholes: add c times weights of their own to the gates i and f, and c' to o.
        cell_clip: cut c' to this size.
        initializer: of the kernel; that of the scope unless given.
        num_proj: the units of the output, made by one more matrix.
        proj_clip: cut the projected output to this size.

    Source: Gers & Schmidhuber, IJCNN 2000; Sak et al., Interspeech 2014.
    """

    scope_name = "lstm_cell"

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        refuse("LSTMCell", "num_unit_shards", num_unit_shards, "Weights are whole here.")
        refuse("LSTMCell", "num_proj_shards", num_proj_shards, "Weights are whole here.")
        super().__init__(num_units, forget_bias, state_is_tuple, activation, reuse, name, dtype)
        self.peepholes, self.cell_clip, self.initializer = use_peepholes, cell_clip, initializer
        self.num_proj, self.proj_clip = num_proj, proj_clip

    @property
    def output_size(self) -> int:
        """The units of the projection, or of the memory."""
        return self.num_proj or self.units

    @property
    def state_size(self) -> Any:
        """The units of c and of h."""
        return LSTMStateTuple(self.units, self.output_size)

    def build(self, n_inputs: int, dtype: Any) -> None:
        """Make W, b, and what the options need."""
        shape = (n_inputs + self.output_size, 4 * self.units)
        self.kernel = get_variable("kernel", shape, dtype, initializer=self.initializer)
        self.bias = get_variable("bias", shape[1:], dtype, initializer=Zeros())
        if self.peepholes:
            names = ("w_f_diag", "w_i_diag", "w_o_diag")
            size, start = (self.units,), self.initializer
            made = [get_variable(name, size, dtype, initializer=start) for name in names]
            self.by_f, self.by_i, self.by_o = made
        if self.num_proj:
            sizes = (self.units, self.num_proj)
            self.projection = get_variable(
                "projection/kernel", sizes, dtype, initializer=self.initializer
            )

    def call(self, inputs: Node, state: Any) -> tuple[Node, Any]:
        """Return the output and (c', output)."""
        c, h = state
        i, j, f, o = split(matmul(concat([inputs, h], 1), self.kernel) + self.bias, 4, axis=1)
        if self.peepholes:
            i, f = i + c * self.by_i, f + c * self.by_f
        new_c = c * sigmoid(f + self.forget_bias) + sigmoid(i) * self.activation(j)
        if self.cell_clip is not None:
            new_c = clip_by_value(new_c, -self.cell_clip, self.cell_clip)
        if self.peepholes:
            o = o + new_c * self.by_o
        new_h = sigmoid(o) * self.activation(new_c)
        if self.num_proj:
            new_h = matmul(new_h, self.projection)
            if self.proj_clip is not None:
                new_h = clip_by_value(new_h, -self.proj_clip, self.proj_clip)
        return new_h, LSTMStateTuple(new_c, new_h)


class _Around(RNNCell):
    """A cell around another one, with the same state."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__()
        if not isinstance(cell, RNNCell):
            raise GraphError(f"{type(self).__name__}: got {type(cell).__name__}, expected a cell.")
        self.cell = cell

    @property
    def state_size(self) -> Any:
        """The state of the cell inside."""
        return self.cell.state_size

    @property
    def output_size(self) -> int:
        """The output of the cell inside."""
        return self.cell.output_size


class DropoutWrapper(_Around):
    """A cell whose inputs, outputs or states lose some of their elements at every step."""

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(cell)
        self.keep = (input_keep_prob, output_keep_prob, state_keep_prob)
        self.seed = seed

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Node, Any]:
        """Return output and new state of one step."""
        of_input, of_output, of_state = self.keep
        output, new = self.cell(self._dropped(inputs, of_input), state, scope)
        if not _is_one(of_state):
            new = self._dropped_state(new, of_state)
        return self._dropped(output, of_output), new

    def _dropped(self, x: Any, keep: Any) -> Any:
        from ..nn import dropout

        return x if _is_one(keep) else dropout(x, keep, seed=self.seed)

    def _dropped_state(self, state: Any, keep: Any) -> Any:
        """Return the state, of an LSTM only h, with elements dropped."""
        if isinstance(state, LSTMStateTuple):
            return LSTMStateTuple(state.c, self._dropped(state.h, keep))
        if isinstance(state, tuple):
            return tuple(self._dropped_state(part, keep) for part in state)
        return self._dropped(state, keep)


class ResidualWrapper(_Around):
    """A cell whose inputs are added to its outputs."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Node, Any]:
        """Return output and new state of one step."""
        output, new = self.cell(inputs, state, scope)
        return inputs + output, new


def _is_one(keep: Any) -> bool:
    return isinstance(keep, int | float) and keep == 1.0
