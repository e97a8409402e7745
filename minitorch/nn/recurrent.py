"""Recurrent networks: one step, and whole sequences; plain, LSTM, GRU.

Legend: L length, N batch, I input, H hidden, G gates * H. Layer k and direction d have weights of
their own, under PyTorch's names (`weight_ih_l0_reverse`). What a step computes, and how all steps
of a layer are one operator, is in `ops.networks.recurrence`.
"""

import math
from itertools import accumulate, groupby
from typing import Any, ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError, ShapeError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.nn.utils.rnn import PackedSequence
from minitorch.ops.networks.recurrence import STEPS, State, recurrence
from minitorch.ops.shaping.joining import cat, stack
from minitorch.tensor.tensor import Tensor, tensor


def draw(module: Module, hidden_size: int) -> None:
    """Set every parameter uniform within 1 / sqrt(hidden_size)."""
    bound = 1.0 / math.sqrt(hidden_size) if hidden_size > 0 else 0.0
    for param in module.parameters():
        init.uniform_(param, -bound, bound)


class _Cell(Module):
    """A step with weights of its own."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    kind: str
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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew: uniform within 1 / sqrt(hidden_size)."""
        draw(self, self.hidden_size)

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Return the next state for an input (N, I) or (I,); without a state it is zeros."""
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self._get_name()}: got input {input.shape}, expected (batch, {self.input_size}) "
                f"or ({self.input_size},)."
            )
        if hx is None:
            start = tensor(0.0, dtype=input.dtype, device=input.device).expand(
                *input.shape[:-1], self.hidden_size
            )
            hx = (start,) * self.states
        held = hx if isinstance(hx, tuple) else (hx,)
        expected = [(*input.shape[:-1], self.hidden_size)] * self.states
        if [h.shape for h in held] != expected:
            raise ShapeError(
                f"{self._get_name()}: got a state of shapes {[h.shape for h in held]}, expected "
                f"{expected}."
            )
        from_x = F.linear(input, self.weight_ih, self.bias_ih)
        from_h = F.linear(held[0], self.weight_hh, self.bias_hh)
        after = STEPS[self.kind](from_x, from_h, held)
        return after if self.states > 1 else after[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        return text if self.bias else f"{text}, bias={self.bias}"


class _Plain(Module):
    """What a plain layer and its step share: tanh or relu, a `nonlinearity`, may stand fourth."""

    gates = 1

    def __init__(self, *sizes: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        if len(sizes) > 3:
            nonlinearity, sizes = sizes[3], (*sizes[:3], *sizes[4:])
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(
                f"RNN: got nonlinearity {nonlinearity!r}, expected 'tanh' or 'relu'."
            )
        super().__init__(*sizes, **options)
        self.nonlinearity = self.kind = nonlinearity


class RNNCell(_Plain, _Cell):
    """One step of a plain recurrent network, with tanh or relu."""


class LSTMCell(_Cell):
    """One step of an LSTM; the state is (hidden, cell)."""

    gates, states, kind = 4, 2, "lstm"


class GRUCell(_Cell):
    """One step of a GRU."""

    gates, kind = 3, "gru"


class _Recurrent(Module):
    """What RNN, LSTM and GRU share: weights, layers, directions, the loop over time."""

    gates: ClassVar[int]
    states: ClassVar[int] = 1
    kind: str

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

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """Return the outputs of the last layer and the last state of every layer and direction.

        Args:
            input: (L, N, I), (N, L, I) with `batch_first`, or (L, I); or packed, and so are then
                the outputs.
            hx: the first state, (layers * directions, N, H), for an LSTM a pair of them; zeros
                unless given.
        Returns: (L, N, directions * H) and the state, of the shapes that came in.
        Raises:
            ShapeError: input or state do not fit; says which.
        """
        data = input.data if isinstance(input, PackedSequence) else input
        if data.ndim not in (2, 3) or data.shape[-1] != self.input_size:
            raise ShapeError(
                f"{self._get_name()}: got input {data.shape}, expected 2 or 3 axes, the last of "
                f"size {self.input_size}."
            )
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        single = input.ndim == 2
        if single:
            x_LNI = input.unsqueeze(1)
        else:
            x_LNI = input.transpose(0, 1) if self.batch_first else input
        if x_LNI.shape[0] == 0:
            raise ShapeError(f"{self._get_name()}: got a sequence of no steps, expected 1 or more.")
        first = self._first_states(x_LNI, hx, single)
        y, last = self._layers(x_LNI, first)
        ends = tuple(stack([state[i] for state in last]) for i in range(self.states))
        if single:
            y, ends = y.squeeze(1), tuple(end.squeeze(1) for end in ends)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return y, ends if self.states > 1 else ends[0]

    def _forward_packed(self, x: PackedSequence, hx: object) -> tuple[object, object]:
        """Return the packed outputs, and the state of each sequence at its own end."""
        parts = hx if isinstance(hx, tuple | list) or hx is None else (hx,)
        held = None if parts is None else tuple(x.sort(part) for part in parts)
        sizes = x.batch_sizes.tolist()
        runs = [(len(list(run)), size) for size, run in groupby(sizes)]
        one_step = x.data[: sizes[0]].unsqueeze(0)
        y, last = self._layers(x.data, self._first_states(one_step, held, False), runs)
        whole: list[Any] = [stack([state[i] for state in last]) for i in range(self.states)]
        ends = tuple(x.unsort(part) for part in whole)
        return PackedSequence(y, *x[1:]), ends if self.states > 1 else ends[0]

    def _first_states(self, x_LNI: Tensor, hx: object, single: bool) -> list[State]:
        count = self.num_layers * (2 if self.bidirectional else 1)
        shapes = [(count, x_LNI.shape[1], self.hidden_size)] * self.states
        if hx is None:
            zero = tensor(0.0, dtype=x_LNI.dtype, device=x_LNI.device)
            return [tuple(zero.expand(*shape[1:]) for shape in shapes)] * count
        states = hx if isinstance(hx, tuple | list) else (hx,)
        parts = [h.unsqueeze(1) if single else h for h in states]
        if [p.shape for p in parts] != shapes:
            raise ShapeError(
                f"{self._get_name()}: got a state of shapes {[p.shape for p in parts]}, expected "
                f"{shapes}."
            )
        return [tuple(part[i] for part in parts) for i in range(count)]

    def _layers(
        self, x: Any, first: list[State], runs: list[tuple[int, int]] | None = None
    ) -> tuple[Any, list[State]]:
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout, True)
            outputs = []
            for suffix in self._suffixes(layer):
                if runs is None:
                    y, state = self._run(x, suffix, first[len(last)])
                else:
                    y, state = self._run_packed(x, runs, suffix, first[len(last)])
                outputs.append(y)
                last.append(state)
            x = cat(outputs, -1) if len(outputs) > 1 else outputs[0]
        return x, last

    def _run(self, x_LNI: Any, suffix: str, first: State) -> tuple[Any, State]:
        """Return the outputs (L, N, H) of one layer in one direction, and its last state."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")[: 4 if self.bias else 2]
        weights: Any = [getattr(self, name + suffix) for name in names]
        backwards = suffix.endswith("_reverse")
        results = recurrence(self.kind, backwards, x_LNI, weights, first)
        length = len(x_LNI)
        last = results[0 if backwards else length - 1]
        if self.states == 1:
            return results, (last,)
        return results[:length], (last, results[length])

    def _run_packed(
        self, data: Tensor, runs: list[tuple[int, int]], suffix: str, first: State
    ) -> tuple[Tensor, State]:
        """Return what `_run` does of packed data: runs of steps that have as many sequences.

        Forward, those that end leave the state behind; backward, they join it at their ends.
        """
        starts = accumulate((length * size for length, size in runs), initial=0)
        pieces = [
            (data[start : start + length * size].reshape(length, size, data.shape[-1]), size)
            for start, (length, size) in zip(starts, runs, strict=False)
        ]
        backwards = suffix.endswith("_reverse")
        outputs, ended = [], []
        state: Any = tuple(part[:0] for part in first) if backwards else first
        for x_LNI, size in reversed(pieces) if backwards else pieces:
            if backwards:
                joined = zip(state, first, strict=True)
                state = tuple(cat([part, new[len(part) : size]]) for part, new in joined)
            else:
                ended.append(tuple(part[size:] for part in state))
                state = tuple(part[:size] for part in state)
            y, state = self._run(x_LNI, suffix, state)
            outputs.append(y.reshape(-1, self.hidden_size))
        parts = zip(state, *reversed(ended), strict=True)
        return cat(outputs[::-1] if backwards else outputs), tuple(cat(part) for part in parts)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0}
        for name, default in (usual | {"bidirectional": False}).items():
            value = getattr(self, name)
            text += "" if value == default else f", {name}={value}"
        return text


class RNN(_Plain, _Recurrent):
    """h' = tanh(W x + b + U h + c), or relu: `nonlinearity`, which may stand fourth."""


class LSTM(_Recurrent):
    """Long short-term memory; the state is (hidden, cell). Its step: `lstm_step`."""

    gates, states, kind = 4, 2, "lstm"


class GRU(_Recurrent):
    """Gated recurrent unit. Its step: `gru_step`."""

    gates, kind = 3, "gru"
