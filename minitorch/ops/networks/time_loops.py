"""The loops over time of recurrent layers on NumPy arrays, there and back.

Legend: L steps, N batch, I input, H hidden, G gates * H. The products of the inputs with their
weights are taken for all steps at once. A step is then one product and what follows it: one kernel
(`compile.time_steps`), or without a compiler a few passes in place. There the way back computes for
all steps at once by what factor the gradient of each gate follows from that of the state, so that
its step is one product, too.

What a loop leaves for the way back, its trail, is one array of one axis, as are the gradients that
the way back gives; `cut` finds the parts.

May import: arrays.allocator, ops.elementwise.compiled.
Source: Appleyard, Kocisky & Blunsom, arXiv:1604.01946, 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...arrays.allocator import empty
from ..elementwise.compiled import run_steps

Array = np.ndarray[Any, Any]
Shapes = list[tuple[int, ...]]
FEW_STEPS = 4
"""Up to here the products are faster than bringing the weights into the order they prefer."""


def cut(flat: Any, shapes: Shapes) -> list[Any]:
    """Return the parts of a value of one axis, which lie one behind another, in their shapes."""
    parts, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        parts.append(flat[start:end].reshape(shape))
        start = end
    return parts


def joined(shapes: Shapes, like: Array) -> tuple[Array, list[Array]]:
    """Return new memory for parts of these shapes: all of it, and the parts."""
    flat = empty((sum(map(math.prod, shapes)),), like.dtype)
    return flat, cut(flat, shapes)


class Loop:
    """A layer in one direction over a sequence.

    Attributes:
        gates, states: how many there are; the first state is the hidden one.
        backwards: whether the last step is taken first.
    """

    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1

    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards

    def trail(self, length: int, batch: int, hidden: int) -> Shapes:
        """Return the shapes of what is kept; first the hidden states, before and after all steps.

        Those of other layers than plain ones are followed by the gates, into which the products of
        the inputs are written.
        """
        return [(length + 1, batch, hidden)]

    def gradients(self, length: int, batch: int, hidden: int) -> Shapes:
        """Return the shapes of the gradients by the state's products, and by the first states.

        Where those by the inputs' products are others, they stand between.
        """
        return [(length, batch, self.gates * hidden), *[(batch, hidden)] * self.states]

    def results(self, length: int, batch: int, hidden: int) -> tuple[int, ...]:
        """Return the shape of the outputs (L, N, H), and behind them the last state but hidden."""
        return length + self.states - 1, batch, hidden

    def order(self, length: int) -> range:
        """Return the steps in the order in which they are taken."""
        return range(length)[:: -1 if self.backwards else 1]

    def around(self, states: Any) -> tuple[Any, Any]:
        """Return of a state (L + 1, N, H) what each step starts from, and what it leaves."""
        before, after = states[:-1], states[1:]
        return (after, before) if self.backwards else (before, after)

    def forward(self, x_LNI: Array, w_ih: Array, w_hh: Array, *more: Array) -> Array:
        """Return the trail.

        Args:
            w_ih, w_hh: weights (G, I) of the inputs and (G, H) of the hidden state.
            more: both biases (G,), or none; then the first states (N, H).
        """
        biases, first = more[: -self.states], more[-self.states :]
        (length, batch, width), (wide, hidden) = x_LNI.shape, w_hh.shape
        flat, parts = joined(self.trail(length, batch, hidden), x_LNI)
        before, after = self.around(parts[0])
        before[self.order(length)[0]] = first[0]
        z = after if len(parts) == 1 else parts[1]
        np.matmul(x_LNI.reshape(-1, width), w_ih.T, out=z.reshape(-1, wide))
        b = self._bias(*biases) if biases else np.zeros(4 * hidden, w_hh.dtype)
        self._forward(w_hh, b, before, after, parts[1:], first[1:])
        return flat

    def outputs(self, trail: Array, shape: tuple[int, ...]) -> Array:
        """Return the `results` of a trail that is left by inputs (L, N, H)."""
        parts = cut(trail, self.trail(*shape))
        results = empty(self.results(*shape), trail.dtype)
        results[: shape[0]] = self.around(parts[0])[1]
        self._add_states(results[shape[0] :], parts)
        return results

    def backward(self, d_results: Array, trail: Array, w_hh: Array, length: int) -> Array:
        """Return the `gradients`, for those of the results."""
        shape = length, d_results.shape[1], w_hh.shape[1]
        states, *parts = cut(trail, self.trail(*shape))
        flat, gradients = joined(self.gradients(*shape), d_results)
        d_results = np.ascontiguousarray(d_results)
        self._backward(w_hh, d_results, *self.around(states), parts, gradients)
        return flat

    def _bias(self, b_ih: Array, b_hh: Array) -> Array:
        """Return what is added to the products of the state."""
        return b_ih + b_hh

    def _add_states(self, into: Array, parts: Sequence[Array]) -> None:
        """Write the last of each state but the hidden one."""

    def _forward(
        self,
        w: Array,
        b: Array,
        before: Array,
        after: Array,
        parts: Sequence[Array],
        first: Sequence[Array],
    ) -> None:
        """Fill `after`, and the parts of the trail that follow."""
        raise NotImplementedError

    def _backward(
        self,
        w: Array,
        d_results: Array,
        before: Array,
        after: Array,
        parts: Sequence[Array],
        gradients: Sequence[Array],
    ) -> None:
        """Fill the gradients."""
        raise NotImplementedError

    def _turned(self, w: Array, length: int) -> Array:
        return w.T if length <= FEW_STEPS else np.ascontiguousarray(w.T)

    def _compiled(self, name: str, before: Array, w: Array, *arrays: Array) -> bool:
        """Let a kernel take all steps forward, if it is worth it; tell whether it did."""
        length = len(before)
        return length > FEW_STEPS and run_steps(name, before, w, self.order(length), arrays)

    def _compiled_back(self, name: str, d: Array, w: Array, *arrays: Array) -> bool:
        """Let a kernel take all steps back, whose products get the gradients `d`."""
        length = len(d)
        if length <= FEW_STEPS:
            return False
        return run_steps(f"{name} back", d, w, self.order(length)[::-1], (*arrays, d))


class PlainLoop(Loop):
    """h' = tanh(x part + h part), or max(x part + h part, 0)."""

    def __init__(self, backwards: bool, nonlinearity: str = "tanh") -> None:
        super().__init__(backwards)
        self.relu, self.kind = nonlinearity == "relu", nonlinearity

    def _forward(self, w: Array, b: Array, before: Array, after: Array, *_: Any) -> None:
        if self._compiled(self.kind, before, w, b, after):
            return
        length, batch, hidden = after.shape
        w_t, part = self._turned(w, length), np.empty((batch, hidden), w.dtype)
        for t in self.order(length):
            h = after[t]
            h += np.matmul(before[t], w_t, out=part)
            h += b[:hidden]
            np.maximum(h, 0, out=h) if self.relu else np.tanh(h, out=h)

    def _backward(
        self, w: Array, dy_LNH: Array, before: Array, h: Array, _: Any, gradients: Sequence[Array]
    ) -> None:
        d, dh = gradients
        order = self.order(len(d))
        if self._compiled_back(self.kind, d, w, dy_LNH, h):
            np.matmul(d[order[0]], w, out=dh)
            return
        dh[...] = 0
        if self.relu:
            np.greater(h, 0, out=d, casting="unsafe")
        else:
            np.subtract(1, np.multiply(h, h, out=d), out=d)
        for t in reversed(order):
            dh += dy_LNH[t]
            d[t] *= dh
            np.matmul(d[t], w, out=dh)


class LSTMLoop(Loop):
    """c' = f c + i g; h' = o tanh c'; the gates lie in the order i, f, g, o.

    As σ(x) = tanh(x / 2) / 2 + 1/2, one tanh makes all four gates.
    """

    gates, states = 4, 2

    def trail(self, length: int, batch: int, hidden: int) -> Shapes:
        """Return the shapes of h, of the gates, of c and of tanh c."""
        h, *_ = super().trail(length, batch, hidden)
        return [h, (length, batch, 4 * hidden), h, (length, batch, hidden)]

    def _add_states(self, into: Array, parts: Sequence[Array]) -> None:
        into[0] = parts[2][0 if self.backwards else -1]

    def _forward(
        self,
        w: Array,
        b: Array,
        before: Array,
        after: Array,
        parts: Sequence[Array],
        first: Sequence[Array],
    ) -> None:
        gates, c, tanh_c = parts
        c_before, c_after = self.around(c)
        order = self.order(len(gates))
        c_before[order[0]] = first[0]
        arrays = (gates, c_before, c_after, tanh_c, after)
        if not self._compiled("lstm", before, w, b, *arrays):
            self._steps(w, b, before, *arrays)

    def _steps(self, w: Array, b: Array, before: Array, gates: Array, *states: Array) -> None:
        c_before, c_after, tanh_c, after = states
        w_t = self._turned(w, len(gates))
        half = np.repeat(np.array([0.5, 0.5, 1, 0.5], w_t.dtype), len(w_t))
        rest = 1 - half
        i_LNH, f_LNH, g_LNH, o_LNH = np.split(gates, 4, -1)
        part = np.empty_like(gates[0])
        for t in self.order(len(gates)):
            z, c = gates[t], c_after[t]
            z += np.matmul(before[t], w_t, out=part)
            z += b
            z *= half
            np.tanh(z, out=z)
            z *= half
            z += rest
            np.multiply(i_LNH[t], g_LNH[t], out=c)
            c += np.multiply(f_LNH[t], c_before[t], out=tanh_c[t])
            np.multiply(o_LNH[t], np.tanh(c, out=tanh_c[t]), out=after[t])

    def _backward(
        self,
        w: Array,
        d_results: Array,
        before: Array,
        after: Array,
        parts: Sequence[Array],
        gradients: Sequence[Array],
    ) -> None:
        gates, c, tanh_c = parts
        d, dh, dc = gradients
        steps, n, width = tanh_c.shape
        order, c_before = self.order(steps), self.around(c)[0]
        dc[...] = d_results[steps]
        if self._compiled_back("lstm", d, w, d_results, gates, c_before, tanh_c, dc):
            np.matmul(d[order[0]], w, out=dh)
            return
        dh[...] = 0
        dc_of_dh = _lstm_factors(gates, c_before, tanh_c, d)
        d_LN4H = d.reshape(steps, n, 4, width)
        f_LNH = gates[..., width : 2 * width]
        part = np.empty_like(dh)
        for t in reversed(order):
            dh += d_results[t]
            dc += np.multiply(dh, dc_of_dh[t], out=part)
            d_LN4H[t, :, :3] *= dc[:, None]
            d_LN4H[t, :, 3] *= dh
            dc *= f_LNH[t]
            np.matmul(d[t], w, out=dh)


def _lstm_factors(gates: Array, c_before: Array, tanh_c: Array, d: Array) -> Array:
    """Write dz / dc of the gates i, f, g and dz / dh of o into `d`; return dc / dh."""
    i, f, g, o = np.split(gates, 4, -1)
    d_i, d_f, d_g, d_o = np.split(d, 4, -1)
    np.subtract(1, gates, out=d)
    d *= gates
    d_i *= g
    d_f *= c_before
    d_o *= tanh_c
    np.subtract(1, np.multiply(g, g, out=d_g), out=d_g)
    d_g *= i
    dc_of_dh: Array = np.multiply(tanh_c, tanh_c, out=empty(f.shape, d.dtype))
    np.subtract(1, dc_of_dh, out=dc_of_dh)
    dc_of_dh *= o
    return dc_of_dh


class GRULoop(Loop):
    """n = tanh(x part + r * h part); h' = n + z (h - n); the gates lie in the order r, z, n."""

    gates = 3

    def trail(self, length: int, batch: int, hidden: int) -> Shapes:
        """Return the shapes of h, of the gates, and of the h part of n."""
        h, *_ = super().trail(length, batch, hidden)
        return [h, (length, batch, 3 * hidden), (length, batch, hidden)]

    def gradients(self, length: int, batch: int, hidden: int) -> Shapes:
        """Return as `Loop` does; that by the x part of n is another than that by the h part."""
        by_h, first = super().gradients(length, batch, hidden)
        return [by_h, by_h, first]

    def _bias(self, b_ih: Array, b_hh: Array) -> Array:
        """Return the bias of the h part, in r and z with that of the x part, and n's of that."""
        rz = len(b_ih) // 3 * 2
        return np.concatenate([b_hh[:rz] + b_ih[:rz], b_hh[rz:], b_ih[rz:]])

    def _forward(
        self, w: Array, b: Array, before: Array, after: Array, parts: Sequence[Array], _: Any
    ) -> None:
        gates, from_h = parts
        if self._compiled("gru", before, w, b, gates, from_h, before, after):
            return
        steps, n, width = after.shape
        w_t = self._turned(w, steps)
        half = np.asarray(0.5, w.dtype)
        both = np.empty((n, 3 * width), w.dtype)
        for t in self.order(steps):
            np.matmul(before[t], w_t, out=both)
            both += b[: 3 * width]
            from_h[t] = both[:, 2 * width :]
            rz, new = gates[t, :, : 2 * width], gates[t, :, 2 * width :]
            rz += both[:, : 2 * width]
            rz *= half
            np.tanh(rz, out=rz)
            rz *= half
            rz += half
            new += b[3 * width :]
            new += rz[:, :width] * from_h[t]
            np.tanh(new, out=new)
            h = np.subtract(before[t], new, out=after[t])
            h *= rz[:, width:]
            h += new

    def _backward(
        self,
        w: Array,
        dy_LNH: Array,
        before: Array,
        after: Array,
        parts: Sequence[Array],
        gradients: Sequence[Array],
    ) -> None:
        gates, from_h = parts
        d_h, d_x, dh = gradients
        steps, n, width = after.shape
        order, part = self.order(steps), np.empty_like(dh)
        dh[...] = 0
        if self._compiled_back("gru", d_h, w, dy_LNH, gates, from_h, before, dh, d_x):
            dh += np.matmul(d_h[order[0]], w, out=part)
            return
        d_new = _gru_factors(gates, from_h, before, d_h)
        d_LN3H = d_h.reshape(steps, n, 3, width)
        z_LNH = gates[..., width : 2 * width]
        for t in reversed(order):
            dh += dy_LNH[t]
            d_LN3H[t] *= dh[:, None]
            d_new[t] *= dh
            np.matmul(d_h[t], w, out=part)
            dh *= z_LNH[t]
            dh += part
        d_x[..., : 2 * width] = d_h[..., : 2 * width]
        d_x[..., 2 * width :] = d_new


def _gru_factors(gates: Array, from_h: Array, before: Array, d_h: Array) -> Array:
    """Write by what dh is multiplied in the h part of r, z and n; return that of n's x part."""
    r, z, new = np.split(gates, 3, -1)
    d_r, d_z, d_n = np.split(d_h, 3, -1)
    d_new: Array = np.multiply(new, new, out=empty(new.shape, r.dtype))
    np.subtract(1, d_new, out=d_new)
    np.subtract(1, z, out=d_z)
    d_new *= d_z
    d_z *= z
    d_z *= np.subtract(before, new, out=d_n)
    np.multiply(d_new, r, out=d_n)
    np.subtract(1, r, out=d_r)
    d_r *= d_n
    d_r *= from_h
    return d_new
