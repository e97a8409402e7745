"""A recurrent layer in one direction: the step of each kind, and all of them as one operator.

Legend: L steps, N batch, I input, H hidden, G gates * H. A step takes two products of weights and
values, one from the input and one from the state, both (N, G) with their biases, and gives the next
state, of which the hidden one is first.

On the CPU the loops of `time_loops` take all steps: `TimeSteps` leaves a trail, `Recurrence` has
its results from there, and its gradient comes from the trail by `TimeStepsBack`. Gradients of
gradients go through the formula: the same steps, one by one, in the library's operators. What is
computed from the trail is computed from all that led to it, and there its gradients go.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from ...arrays.library import Array, Namespace, asarray, device_of, to_numpy
from ...op import Flat, Gradients, Kind, Methods, Op, Spec, apply
from ...vjp import pull_back
from ..elementwise.casting import clone, own_copy
from ..elementwise.compiled import compiles
from ..elementwise.unary import relu, sigmoid, tanh, zeros_like
from ..products.linalg import linear, matmul
from ..reducing.reduction import sum
from ..shaping.joining import cat, chunk, stack, unbind
from ..shaping.movement import insert_axes, reshape
from .time_loops import Loop

State = tuple[Methods, ...]
Step = Callable[[Methods, Methods, State], State]


def tanh_step(from_x_NG: Methods, from_h_NG: Methods, state: State) -> State:
    """h' = tanh(x part + h part)."""
    return (tanh(from_x_NG + from_h_NG),)


def relu_step(from_x_NG: Methods, from_h_NG: Methods, state: State) -> State:
    """h' = max(x part + h part, 0)."""
    return (relu(from_x_NG + from_h_NG),)


def lstm_step(from_x_NG: Methods, from_h_NG: Methods, state: State) -> State:
    """c' = f c + i g; h' = o tanh(c').

    Source: Hochreiter & Schmidhuber, Neural Computation 9(8), 1997; the forget gate is Gers' 2000.
    """
    i, f, g, o = chunk(from_x_NG + from_h_NG, 4, -1)
    cell = sigmoid(f) * state[1] + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(cell), cell


def gru_step(from_x_NG: Methods, from_h_NG: Methods, state: State) -> State:
    """n = tanh(x part + r * h part); h' = (1 - z) n + z h. Source: Cho et al., EMNLP 2014."""
    xr, xz, xn = chunk(from_x_NG, 3, -1)
    hr, hz, hn = chunk(from_h_NG, 3, -1)
    r, z = sigmoid(xr + hr), sigmoid(xz + hz)
    n = tanh(xn + r * hn)
    return (n + z * (state[0] - n),)


STEPS: dict[str, Step] = {
    "tanh": tanh_step,
    "relu": relu_step,
    "lstm": lstm_step,
    "gru": gru_step,
}


_loop = lru_cache(64)(Loop)


def recurrence(
    kind: str, backwards: bool, x_LNI: Kind, weights: Sequence[Methods], first: State
) -> Kind:
    """Return the outputs (L, N, H) of a layer in one direction; of an LSTM then the last cell.

    Args:
        kind: one of `STEPS`.
        backwards: whether the last step is taken first.
        weights: (G, I) of the input and (G, H) of the state; perhaps a bias (G,) of each.
        first: the states (N, H) that the first step starts from.
    """
    inputs = (*weights, *first)
    if not _fit(x_LNI, *inputs):
        from_x_LNG = linear(x_LNI, *weights[:1], *weights[2:3])
        return by_steps(kind, backwards, from_x_LNG, weights[1], weights[3:], first)
    trail = apply(TimeSteps(kind, backwards), x_LNI, *inputs)
    return apply(Recurrence(kind, backwards), trail, x_LNI, *inputs)


def _fit(*inputs: Any) -> bool:
    """Tell whether the loop takes these: on the CPU, none empty, of one dtype that has kernels."""
    dtype = inputs[0].dtype
    alike = (value.dtype == dtype and value.device.type == "cpu" for value in inputs)
    return all(all(value.shape) for value in inputs) and all(alike) and compiles(dtype)


def by_steps(
    kind: str,
    backwards: bool,
    from_x_LNG: Kind,
    w_hh: Methods,
    bias: Sequence[Methods],
    state: State,
    bias_LNG: Methods | None = None,
) -> Kind:
    """Return the results of a layer step by step, in the library's operators.

    Args:
        bias: of the state's products, (G,), or nothing.
        bias_LNG: instead of it, one of the shape of all products.
    """
    from_x: Sequence[Any] = unbind(from_x_LNG, 0)
    each = None if bias_LNG is None else unbind(bias_LNG, 0)
    outputs: list[Any] = [state[0]] * len(from_x)
    for t in range(len(from_x))[:: -1 if backwards else 1]:
        from_h = linear(state[0], w_hh, *bias) if each is None else linear(state[0], w_hh) + each[t]
        state = STEPS[kind](from_x[t], from_h, state)
        outputs[t] = state[0]
    results: Kind = stack([*outputs, *state[1:]])
    return results


class _OfLayer(Op):
    """What the operators of a layer share; the last of their inputs are those of the layer."""

    on_arrays = True
    reads_output = False
    before: ClassVar[int] = 0
    """How many inputs come first."""
    shape: ClassVar["attrgetter[tuple[int, ...]]"]
    """Of the result, for a loop."""

    def __init__(self, kind: str, backwards: bool) -> None:
        self.kind, self.backwards = kind, backwards

    def loop(self, inputs: Sequence[Any]) -> Loop:
        """Return the loop there and back over what a layer is given."""
        length, batch, _ = inputs[0].shape
        return _loop(self.kind, self.backwards, length, batch, inputs[2].shape[1])

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        if xp is np:
            return self._run(*arrays)
        return asarray(self._run(*map(to_numpy, arrays)), place=device_of(arrays[0]))

    def _run(self, *arrays: Array) -> Array:
        raise NotImplementedError

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self.shape(self.loop(specs[self.before :])), specs[0].dtype)

    def _results(
        self, from_x_LNG: Methods, inputs: Sequence[Methods], *bias_LNG: Methods
    ) -> Methods:
        """Return the results of a layer step by step, in the library's operators."""
        w_hh, bias, first = inputs[2], _biases(inputs)[1:], tuple(_first(inputs))
        return by_steps(self.kind, self.backwards, from_x_LNG, w_hh, bias, first, *bias_LNG)


class TimeSteps(Flat, _OfLayer):
    """The trail of a layer, from x, the weights, the biases and the first states."""

    name = "time_steps"
    shape = attrgetter("trail.shape")

    def _run(self, *inputs: Array) -> Array:
        return self.loop(inputs).forward(*inputs)


class Recurrence(_OfLayer):
    """The results of a layer, from its trail and all that led to the trail."""

    name = "recurrence"
    before = 1
    shape = attrgetter("results")

    def _run(self, *arrays: Array) -> Array:
        trail, *inputs = arrays
        return self.loop(inputs).outputs(trail)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return what the way back gives; where it is recorded, that of the steps one by one."""
        trail, *inputs = node.inputs
        if getattr(out_grad, "array", None) is not None:  # a tensor, which records
            own = [clone(value) for value in inputs]  # no path between them but the steps
            results = self._results(linear(*own[:2], *_biases(own)[:1]), own)
            return None, *pull_back(results, out_grad, own)
        back = apply(TimeStepsBack(self.kind, self.backwards), out_grad, trail, *inputs)
        before = apply(StatesBefore(self.kind, self.backwards), trail, *inputs)
        return None, *self._shares(back, before, inputs, node.wants[1:])

    def _shares(
        self, back: Methods, before: Methods, inputs: list[Methods], wants: Sequence[bool]
    ) -> list[Methods | None]:
        """Return the gradients of the inputs that are wanted, from those of the products."""
        x, w_ih, *_ = inputs
        parts = self.loop(inputs).gradients.cut(back)
        d = parts["d"], parts.get("d_x", parts["d"]), before, x
        by_h, by_x, before, x_rows = (v.reshape(-1, v.shape[-1]) for v in d)
        shares: list[Callable[[], Methods]] = [
            lambda: matmul(by_x, w_ih).reshape(tuple(x.shape)),
            lambda: matmul(by_x.T, x_rows),
            lambda: matmul(by_h.T, before),
        ]
        if _biases(inputs):
            total = sum(by_h, 0)
            other = (lambda: sum(by_x, 0)) if "d_x" in parts else partial(clone, total)
            shares += [other, lambda: total]
        shares += [partial(parts.__getitem__, name) for name in ("dh", "dc") if name in parts]
        return [share() if wanted else None for share, wanted in zip(shares, wants, strict=True)]


class StatesBefore(_OfLayer):
    """The hidden state that each step starts from, from the trail and all that led to it."""

    name = "states_before"
    before = 1
    shape = attrgetter("states")

    def _run(self, *arrays: Array) -> Array:
        trail, *inputs = arrays
        return self.loop(inputs).parts(trail)["h_before"]

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return that of the first state and of all outputs but the last."""
        trail, *inputs = node.inputs
        own = [own_copy(value) for value in inputs]
        y = apply(Recurrence(self.kind, self.backwards), trail, *own)[: inputs[0].shape[0]]
        first = insert_axes(_first(own)[0], (0,))
        before = cat([y[1:], first] if self.backwards else [first, y[:-1]])
        return None, *pull_back(before, out_grad, own)


class TimeStepsBack(_OfLayer):
    """The gradients by the products and by the first states, from that of the results.

    Inputs are it, the trail, and all that led to the trail.
    """

    name = "time_steps_back"
    before = 2
    shape = attrgetter("gradients.shape")

    def _run(self, *arrays: Array) -> Array:
        d_results, trail, *inputs = arrays
        return self.loop(inputs).backward(d_results, trail, inputs[2])

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Differentiate the gradient of the steps one by one."""
        d_results, _, *inputs = node.inputs
        own = [own_copy(value) for value in (d_results, *inputs)]
        by_result, *shares = pull_back(self._by_steps(*own), out_grad, own)
        return by_result, None, *shares

    def _by_steps(self, d_results: Methods, *inputs: Methods) -> Methods:
        """Return the same gradients in the library's operators."""
        biases = _biases(inputs)
        from_x = own_copy(linear(*inputs[:2], *biases[:1]))
        bias = zeros_like(from_x)
        bias = own_copy(bias + biases[1] if biases else bias)
        results = self._results(from_x, inputs, bias)
        by = [bias, from_x] if self.kind == "gru" else [bias]
        gradients = pull_back(results, d_results, [*by, *_first(inputs)])
        flat: Methods = cat([reshape(value, -1) for value in gradients])
        return flat


def _biases(inputs: Sequence[Methods]) -> list[Methods]:
    """Return the biases of a layer's inputs: two, or none."""
    return [value for value in inputs[3:] if len(value.shape) == 1]


def _first(inputs: Sequence[Methods]) -> list[Methods]:
    """Return the first states of a layer's inputs."""
    return [value for value in inputs[3:] if len(value.shape) == 2]
