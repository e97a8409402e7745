"""One step of a recurrent network: plain, LSTM, GRU. Legend: N batch, I input, H hidden, G gates*H.

A step takes the two products of weights and values, one from the input and one from the state,
both (N, G) with their biases, and gives the next state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from minitorch.arrays import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.ops.joining import chunk
from minitorch.tensor import Tensor, tensor

State = tuple[Any, ...]
Step = Callable[[Any, Any, State], State]


def tanh_step(from_x_NG: Any, from_h_NG: Any, state: State) -> State:
    """h' = tanh(x part + h part)."""
    return (F.tanh(from_x_NG + from_h_NG),)


def relu_step(from_x_NG: Any, from_h_NG: Any, state: State) -> State:
    """h' = max(x part + h part, 0)."""
    return (F.relu(from_x_NG + from_h_NG),)


def lstm_step(from_x_NG: Any, from_h_NG: Any, state: State) -> State:
    """c' = f c + i g; h' = o tanh(c').

    Source: Hochreiter & Schmidhuber, Neural Computation 9(8), 1997; the forget gate is Gers' 2000.
    """
    i, f, g, o = chunk(from_x_NG + from_h_NG, 4, -1)
    cell = F.sigmoid(f) * state[1] + F.sigmoid(i) * F.tanh(g)
    return F.sigmoid(o) * F.tanh(cell), cell


def gru_step(from_x_NG: Any, from_h_NG: Any, state: State) -> State:
    """n = tanh(x part + r * h part); h' = (1 - z) n + z h. Source: Cho et al., EMNLP 2014."""
    xr, xz, xn = chunk(from_x_NG, 3, -1)
    hr, hz, hn = chunk(from_h_NG, 3, -1)
    r, z = F.sigmoid(xr + hr), F.sigmoid(xz + hz)
    n = F.tanh(xn + r * hn)
    return (n + z * (state[0] - n),)


def step_for(nonlinearity: str) -> Step:
    """Return the plain step with this nonlinearity."""
    steps: dict[str, Step] = {"tanh": tanh_step, "relu": relu_step}
    if nonlinearity not in steps:
        raise ArgumentError(f"RNN: got nonlinearity {nonlinearity!r}, expected 'tanh' or 'relu'.")
    return steps[nonlinearity]


def draw(module: Module, hidden_size: int) -> None:
    """Set every parameter uniform within 1 / sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
    for param in module.parameters():
        init.uniform_(param, -bound, bound)


class _Cell(Module):
    """A step with weights of its own."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    step: Step
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        wide = self.gates * hidden_size
        self.weight_ih = empty_parameter((wide, input_size), device, dtype)
        self.weight_hh = empty_parameter((wide, hidden_size), device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, empty_parameter((wide,), device, dtype) if bias else None)
        draw(self, hidden_size)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        """Return the next state for an input (N, I) or (I,); without a state it is zeros."""
        if x.ndim not in (1, 2) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self._get_name()}: got input {x.shape}, expected (batch, {self.input_size}) or "
                f"({self.input_size},)."
            )
        if state is None:
            start = tensor(0.0, dtype=x.dtype, device=x.device).expand(
                *x.shape[:-1], self.hidden_size
            )
            state = (start,) * self.states
        held = state if isinstance(state, tuple) else (state,)
        from_x = F.linear(x, self.weight_ih, self.bias_ih)
        from_h = F.linear(held[0], self.weight_hh, self.bias_hh)
        after = self.step(from_x, from_h, held)
        return after if self.states > 1 else after[0]

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"{self.input_size}, {self.hidden_size}" + (
            "" if self.bias else f", bias={self.bias}"
        )


class RNNCell(_Cell):
    """One step of a plain recurrent network, with tanh or relu."""

    gates = 1

    def __init__(self, *sizes: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        if len(sizes) > 3:
            nonlinearity, sizes = sizes[3], (*sizes[:3], *sizes[4:])
        super().__init__(*sizes, **options)
        self.nonlinearity, self.step = nonlinearity, step_for(nonlinearity)


class LSTMCell(_Cell):
    """One step of an LSTM; the state is (hidden, cell)."""

    gates, states = 4, 2
    step = staticmethod(lstm_step)


class GRUCell(_Cell):
    """One step of a GRU."""

    gates = 3
    step = staticmethod(gru_step)
