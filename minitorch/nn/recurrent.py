"""Recurrent networks: one step, and whole sequences; plain, LSTM, GRU.

Legend: L length, N batch, I input, H hidden, G gates * H. A step takes the two products of weights
and values, one from the input and one from the state, both (N, G) with their biases, and gives the
next state. Layer k and direction d have weights of their own, under PyTorch's names
(`weight_ih_l0_reverse`). The product of the input with its weights does not depend on the state,
so it is taken for the whole sequence at once; what remains inside the loop is the state's. On
NumPy arrays that loop is one operator (`sequence`); elsewhere it is one operator after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init, sequence
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.nn.time_loops import GRULoop, Loop, LSTMLoop, PlainLoop
from minitorch.ops.shaping.joining import cat, chunk, stack, unbind
from minitorch.tensor.creation import zeros
from minitorch.tensor.tensor import Tensor, tensor

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
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"


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


def _steps(
    step: Step,
    backwards: bool,
    from_x_LNG: Any,
    w_hh: object,
    b_hh: object,
    *first: object,
) -> list[Any]:
    """Return the outputs (L, N, H) and the last states, step by step in the library's operators."""
    state: State = first
    inputs = list(unbind(from_x_LNG, 0))
    outputs = []
    for from_x in reversed(inputs) if backwards else inputs:
        state = step(from_x, F.linear(state[0], w_hh, b_hh), state)
        outputs.append(state[0])
    return [stack(outputs[::-1] if backwards else outputs), *state]


class _Recurrent(Module):
    """What RNN, LSTM and GRU share: weights, layers, directions, the loop over time."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    step: Step
    loop: Callable[[bool], Loop]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        if proj_size:
            raise ArgumentError(
                f"{type(self).__name__}: got proj_size {proj_size}, which is not here. Put a "
                "Linear behind the layer."
            )
        if hidden_size <= 0 or num_layers <= 0 or not 0.0 <= dropout <= 1.0:
            raise ArgumentError(
                f"{type(self).__name__}: got hidden_size {hidden_size}, num_layers {num_layers}, "
                f"dropout {dropout}, expected 1 or more, 1 or more, and one in [0, 1]."
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        for layer in range(num_layers):
            for suffix in self._suffixes(layer):
                self._add_weights(layer, suffix, device, dtype)
        self.reset_parameters()

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}", f"_l{layer}_reverse"][: 2 if self.bidirectional else 1]

    def _add_weights(self, layer: int, suffix: str, device: DeviceLike, dtype: DTypeLike) -> None:
        wide = self.gates * self.hidden_size
        below = self.hidden_size * (2 if self.bidirectional else 1)
        width = self.input_size if layer == 0 else below
        shapes = {"weight_ih": (wide, width), "weight_hh": (wide, self.hidden_size)}
        if self.bias:
            shapes |= {"bias_ih": (wide,), "bias_hh": (wide,)}  # type: ignore[dict-item]
        for name, shape in shapes.items():
            self.register_parameter(name + suffix, empty_parameter(shape, device, dtype))

    def reset_parameters(self) -> None:
        """Draw every parameter anew: uniform within 1 / sqrt(hidden_size)."""
        draw(self, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Do nothing: torch lays weights out for cuDNN so, which does not run here."""

    def forward(self, x: Tensor, hx: Any = None) -> Any:
        """Return the outputs of the last layer and the last state of every layer and direction.

        Args:
            x: (L, N, I), (N, L, I) with `batch_first`, or (L, I).
            hx: the first state, (layers * directions, N, H), for an LSTM a pair of them; zeros
                unless given.
        Returns: (L, N, directions * H) and the state, of the shapes that came in.
        Raises:
            ShapeError: input or state do not fit; says which.
        """
        if x.ndim not in (2, 3) or x.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self._get_name()}: got input {x.shape}, expected 2 or 3 axes, the last of size "
                f"{self.input_size}."
            )
        single = x.ndim == 2
        x_LNI = x.unsqueeze(1) if single else x.transpose(0, 1) if self.batch_first else x
        first = self._first_states(x_LNI, hx, single)
        y, last = self._layers(x_LNI, first)
        ends = tuple(stack([state[i] for state in last]) for i in range(self.states))
        if single:
            y, ends = y.squeeze(1), tuple(end.squeeze(1) for end in ends)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return y, ends if self.states > 1 else ends[0]

    def _first_states(self, x_LNI: Tensor, hx: object, single: bool) -> list[State]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, x_LNI.shape[1], self.hidden_size)] * self.states
        if hx is None:
            zero = tensor(0.0, dtype=x_LNI.dtype, device=x_LNI.device)
            return [tuple(zero.expand(*shape[1:]) for shape in shapes)] * count
        given = hx if isinstance(hx, tuple | list) else (hx,)
        parts = [h.unsqueeze(1) if single else h for h in given]
        if [p.shape for p in parts] != shapes:
            raise ShapeError(
                f"{self._get_name()}: got a state of shapes {[p.shape for p in parts]}, expected "
                f"{shapes}."
            )
        return [tuple(part[i] for part in parts) for i in range(count)]

    def _layers(self, x: Any, first: list[State]) -> tuple[Any, list[State]]:
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout, True)
            outputs = []
            for suffix in self._suffixes(layer):
                y, state = self._run(x, suffix, first[len(last)])
                outputs.append(y)
                last.append(state)
            x = cat(outputs, -1) if len(outputs) > 1 else outputs[0]
        return x, last

    def _run(self, x_LNI: Any, suffix: str, state: State) -> tuple[Any, State]:
        """Return the outputs (L, N, H) of one layer in one direction, and its last state."""
        own: Any = self._parameters
        w_hh, b_hh = own["weight_hh" + suffix], own.get("bias_hh" + suffix)
        from_x_LNG = F.linear(x_LNI, own["weight_ih" + suffix], own.get("bias_ih" + suffix))
        backwards = suffix.endswith("_reverse")
        if b_hh is None:
            b_hh = zeros(w_hh.shape[0], dtype=w_hh.dtype, device=w_hh.device)
        inputs = (from_x_LNG, w_hh, b_hh, *state)
        formula = partial(_steps, self.step, backwards)
        if len(from_x_LNG) and sequence.fits(inputs):
            y, *last = sequence.run(self.loop(backwards), formula, inputs)
        else:
            y, *last = formula(*inputs)
        return y, tuple(last)

    def extra_repr(self) -> str:
        """Return what differs from the defaults."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, default in (usual | {"bidirectional": False}).items():
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        return text


class RNN(_Recurrent):
    """h' = tanh(W x + b + U h + c), or relu: `nonlinearity`, which may stand fourth."""

    gates = 1

    def __init__(self, *sizes: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        if len(sizes) > 3:
            nonlinearity, sizes = sizes[3], (*sizes[:3], *sizes[4:])
        step = step_for(nonlinearity)  # refuses what there is not
        super().__init__(*sizes, **options)
        self.nonlinearity, self.step = nonlinearity, step
        self.loop = partial(PlainLoop, nonlinearity=nonlinearity)


class LSTM(_Recurrent):
    """Long short-term memory; the state is (hidden, cell). See `lstm_step`."""

    gates, states = 4, 2
    step, loop = staticmethod(lstm_step), LSTMLoop


class GRU(_Recurrent):
    """Gated recurrent unit. See `gru_step`."""

    gates = 3
    step, loop = staticmethod(gru_step), GRULoop
