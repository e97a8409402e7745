"""The loop over time of a recurrent layer on NumPy arrays, there and back.

Legend: L steps, N batch, I input, H hidden, G gates * H. The products of the inputs with their
weights are taken for all steps at once. A step is then one product and what follows it, in one
kernel (`compile.time_steps`), and a step back is so too.

What the way back needs, the trail, is one array of one axis, as are the gradients that it gives.
Their parts have the names that the kernels give them.

May import: arrays.allocator, arrays.library, ops.elementwise.compiled.
Source: Appleyard, Kocisky & Blunsom, arXiv:1604.01946, 2016.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...arrays.allocator import empty
from ...arrays.library import Array
from ..elementwise.compiled import run_steps

GATES = {"tanh": 1, "relu": 1, "lstm": 4, "gru": 3}
TRAIL = {"lstm": ("h", "gates", "c", "tanh_c"), "gru": ("h", "gates", "from_h")}
"""What is kept: h and c before and after all steps, what the gates came to, the h part of n. The
products of the inputs are written where the gates, or else the states, will be."""
GRADIENTS = {"lstm": ("d", "dh", "dc"), "gru": ("d", "d_x", "dh")}
"""By the state's products; by those of the inputs, where they are others; by the first states."""
FEW_STEPS = 2
"""Up to here NumPy is faster than a kernel, for which the weights are brought into order."""


class Parts:
    """How parts lie one behind another in an array of one axis.

    Attributes:
        shape: of the array.
    """

    def __init__(self, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        stop = 0
        self._places: list[tuple[str, slice, tuple[int, ...]]] = []
        for name, shape in shapes:
            start, stop = stop, stop + math.prod(shape)
            self._places.append((name, slice(start, stop), shape))
        self.shape = (stop,)

    def cut(self, flat: Any) -> dict[str, Any]:
        """Return the parts of a value of any kind."""
        return {name: flat[place].reshape(shape) for name, place, shape in self._places}


@dataclass(frozen=True)
class Loop:
    """A layer in one direction over sequences of one length.

    Attributes:
        kind: one of `GATES`.
        backwards: whether the last step is taken first.
    """

    kind: str
    backwards: bool
    length: int
    batch: int
    hidden: int

    def _lay_out(self, names: Iterable[str]) -> Parts:
        state, states = (self.batch, self.hidden), (self.length + 1, self.batch, self.hidden)
        gates = (self.length, self.batch, GATES[self.kind] * self.hidden)
        shapes = {"h": states, "c": states, "dh": state, "dc": state}
        shapes |= {"gates": gates, "d": gates, "d_x": gates}
        return Parts((name, shapes.get(name, self.states)) for name in names)

    @cached_property
    def trail(self) -> Parts:
        """What is left for the way back."""
        return self._lay_out(TRAIL.get(self.kind, ("h",)))

    @cached_property
    def gradients(self) -> Parts:
        """What the way back gives."""
        return self._lay_out(GRADIENTS.get(self.kind, ("d", "dh")))

    @property
    def states(self) -> tuple[int, ...]:
        """The shape of a state of each step."""
        return self.length, self.batch, self.hidden

    @property
    def results(self) -> tuple[int, ...]:
        """The shape of the outputs, and of an LSTM of the last cell behind them."""
        return self.length + (self.kind == "lstm"), self.batch, self.hidden

    @cached_property
    def order(self) -> range:
        """The steps in the order in which they are taken."""
        return range(self.length)[:: -1 if self.backwards else 1]

    def parts(self, trail: Array) -> dict[str, Array]:
        """Return the parts of a trail by name; of states what each step leaves, and starts from."""
        parts = self.trail.cut(trail)
        for name in "hc"[: 2 if self.kind == "lstm" else 1]:
            both = parts[name][1:], parts[name][:-1]
            parts[name], parts[f"{name}_before"] = both[::-1] if self.backwards else both
        return parts

    def forward(self, x_LNI: Array, w_ih: Array, w_hh: Array, *more: Array) -> Array:
        """Return the trail.

        Args:
            w_ih, w_hh: weights (G, I) of the inputs and (G, H) of the hidden state.
            more: both biases (G,), or none; then the first states (N, H).
        """
        trail = empty(self.trail.shape, x_LNI.dtype)
        parts = self.parts(trail)
        *biases, h = more[:-1] if self.kind == "lstm" else more
        parts["h_before"][self.order[0]] = h
        if self.kind == "lstm":
            parts["c_before"][self.order[0]] = more[-1]
        products = parts.get("gates", parts["h"]).reshape(-1, len(w_ih))
        np.matmul(x_LNI.reshape(-1, x_LNI.shape[-1]), w_ih.T, out=products)
        parts["b"] = self._bias(*biases) if biases else np.zeros(4 * self.hidden, trail.dtype)
        if self.length > FEW_STEPS:
            run_steps(self.kind, parts["h_before"], w_hh, self.order, parts)
        else:
            self._take_steps(w_hh, parts)
        return trail

    def _bias(self, b_ih: Array, b_hh: Array) -> Array:
        """Return what is added to the products of the state, and of a GRU then to the input's."""
        bias: Array = b_ih + b_hh
        if self.kind == "gru":
            rz = 2 * self.hidden
            bias = np.concatenate([bias[:rz], b_hh[rz:], b_ih[rz:]])
        return bias

    def _take_steps(self, w_hh: Array, parts: dict[str, Array]) -> None:
        """Do what a kernel does."""
        h, b, width = parts["h"], parts["b"], self.hidden
        for t in self.order:
            before = parts["h_before"][t]
            z = before @ w_hh.T
            z += b[: len(w_hh)]
            if self.kind == "lstm":
                z += parts["gates"][t]
                i, f, g, o = np.split(z, 4, -1)
                _squash(z[:, : 2 * width])
                np.tanh(g, out=g)
                _squash(o)
                parts["gates"][t], parts["c"][t] = z, f * parts["c_before"][t] + i * g
                h[t] = o * np.tanh(parts["c"][t], out=parts["tanh_c"][t])
            elif self.kind == "gru":
                r, update, n = np.split(parts["gates"][t], 3, -1)
                parts["gates"][t][:, : 2 * width] += z[:, : 2 * width]
                _squash(parts["gates"][t][:, : 2 * width])
                parts["from_h"][t] = z[:, 2 * width :]
                n += r * z[:, 2 * width :] + b[3 * width :]
                np.tanh(n, out=n)
                h[t] = n + update * (before - n)
            else:
                z += h[t]
                np.tanh(z, out=h[t]) if self.kind == "tanh" else np.maximum(z, 0, out=h[t])

    def outputs(self, trail: Array) -> Array:
        """Return the `results` of a trail."""
        parts, results = self.parts(trail), empty(self.results, trail.dtype)
        results[: self.length] = parts["h"]
        if self.kind == "lstm":
            results[self.length] = parts["c"][self.order[-1]]
        return results

    def backward(self, d_results: Array, trail: Array, w_hh: Array) -> Array:
        """Return the `gradients`, for those of the results."""
        flat = empty(self.gradients.shape, trail.dtype)
        gradients = self.gradients.cut(flat)
        d, dh = gradients["d"], gradients["dh"]
        dh[...] = 0  # a GRU's kernel carries there what does not go through its product
        if self.kind == "lstm":
            gradients["dc"][...] = d_results[self.length]
        arrays = self.parts(trail) | gradients | {"dy": np.ascontiguousarray(d_results)}
        run_steps(f"{self.kind} back", d, w_hh, self.order[::-1], arrays)
        dh += d[self.order[0]] @ w_hh
        return flat


def _squash(x: Array) -> None:
    """Make sigmoids of numbers: tanh(x / 2) / 2 + 1/2."""
    x *= 0.5
    np.tanh(x, out=x)
    x *= 0.5
    x += 0.5
