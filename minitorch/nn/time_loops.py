"""The loops over time of recurrent layers on NumPy arrays, there and back.

Legend: L steps, N batch, H hidden, G gates * H. The product of the input with its weights is given
for all steps. A step is then one product and what follows it: one kernel (`compile.time_steps`), or
without a compiler a few passes in place. There the way back computes for all steps at once by what
factor the gradient of each gate follows from that of the state, so that its step is one product,
too. The gradient of the weights is one product at the end.

May import: arrays.allocator, ops.elementwise.compiled.
Source: Appleyard, Kocisky & Blunsom, arXiv:1604.01946, 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitorch.arrays.allocator import copy_of, empty, matrix_product
from minitorch.ops.elementwise.compiled import run_steps

Array = np.ndarray[Any, Any]
FEW_STEPS = 4
"""Up to here the products are faster than bringing the weights into the order they prefer."""


class Loop:
    """A layer in one direction over a sequence: `forward` once, then `backward` as often as wanted.

    Attributes:
        order: the steps in the order in which they are taken.
        before, after: the hidden state that each step starts from, and that it leaves, (L, N, H).
    """

    order: Sequence[int]
    before: Array
    after: Array
    w: Array

    def __init__(self, backwards: bool) -> None:
        self.backwards = backwards

    def forward(self, from_x_LNG: Array, w: Array, b: Array | None, *first: Array) -> list[Array]:
        """Return the outputs (L, N, H), and the last of each state (N, H)."""
        from_x_LNG = np.ascontiguousarray(from_x_LNG)
        self.order = range(len(from_x_LNG))[:: -1 if self.backwards else 1]
        self.w, self.before, self.after = w, *self._states(from_x_LNG, first[0])
        b = np.zeros(len(w), w.dtype) if b is None else b
        last = self._forward(from_x_LNG, b, *first[1:])
        return [copy_of(self.after), self.after[self.order[-1]].copy(), *last]

    def backward(self, dy_LNH: Array | None, *last: Array | None) -> tuple[Array, ...]:
        """Return the gradients of from_x, of the weights, of the bias and of the first states.

        Args:
            dy_LNH: gradient of the outputs; None for zeros, also below.
            last: gradients of the last states.
        """
        like = self.before[0]
        ends = [np.zeros_like(like) if end is None else end.copy() for end in last]
        d_x, d_h = self._backward(dy_LNH, *ends)
        rows = d_h.reshape(-1, d_h.shape[-1])
        dw = matrix_product(rows.T, self.before.reshape(-1, like.shape[-1]))
        return (d_x, dw, np.add.reduce(rows, axis=0), *ends)

    def _states(self, like: Array, first: Array) -> tuple[Array, Array]:
        """Return memory of a state before and after each step, with the first one filled in."""
        states = empty((len(like) + 1, *first.shape), like.dtype)
        before, after = states[:-1], states[1:]
        if self.backwards:
            before, after = after, before
        before[self.order[0]] = first
        return before, after

    def _forward(self, from_x_LNG: Array, b: Array, *first: Array) -> list[Array]:
        """Fill `after`; return the last of each state but the hidden one."""
        raise NotImplementedError

    def _turned_weights(self) -> Array:
        return self.w.T if len(self.order) <= FEW_STEPS else np.ascontiguousarray(self.w.T)

    def _compiled(self, name: str, *arrays: Array) -> bool:
        """Let a kernel take all steps forward, if it is worth it; tell whether it did."""
        return len(self.order) > FEW_STEPS and run_steps(
            name, self.before, self.w, self.order, arrays
        )

    def _compiled_back(
        self, name: str, d: Array, dy_LNH: Array | None, dh: Array, *arrays: Array
    ) -> bool:
        """Let a kernel take all steps back, and leave in `dh` what the first state's follows from.

        Args:
            d: what arrives at the product of each step, written.
            dh: the gradient of the last hidden state.
            arrays: what else is read and written; `d` is the last of it.
        """
        if len(self.order) <= FEW_STEPS:
            return False
        arriving = np.zeros_like(self.after) if dy_LNH is None else copy_of(dy_LNH)
        arriving[self.order[-1]] += dh
        back = self.order[::-1]
        if not run_steps(f"{name} back", d, self.w, back, (arriving, *arrays, d)):
            return False
        np.matmul(d[self.order[0]], self.w, out=dh)
        return True

    def _backward(self, dy_LNH: Array | None, *ends: Array) -> tuple[Array, Array]:
        """Return the gradients of the two products; turn `ends` into those of the first states."""
        raise NotImplementedError


class PlainLoop(Loop):
    """h' = tanh(x part + h part), or max(x part + h part, 0)."""

    def __init__(self, backwards: bool, nonlinearity: str) -> None:
        super().__init__(backwards)
        self.relu, self.kind = nonlinearity == "relu", nonlinearity

    def _forward(self, from_x_LNG: Array, b: Array, *first: Array) -> list[Array]:
        if self._compiled(self.kind, from_x_LNG, b, self.after):
            return []
        w_t = self._turned_weights()
        for t in self.order:
            h = np.matmul(self.before[t], w_t, out=self.after[t])
            h += from_x_LNG[t]
            h += b
            np.maximum(h, 0, out=h) if self.relu else np.tanh(h, out=h)
        return []

    def _backward(self, dy_LNH: Array | None, *ends: Array) -> tuple[Array, Array]:
        (dh,) = ends
        h = self.after
        d = empty(h.shape, h.dtype)
        if self._compiled_back(self.kind, d, dy_LNH, dh, h):
            return d, d
        if self.relu:
            np.greater(h, 0, out=d, casting="unsafe")
        else:
            np.subtract(1, np.multiply(h, h, out=d), out=d)
        for t in reversed(self.order):
            if dy_LNH is not None:
                dh += dy_LNH[t]
            d[t] *= dh
            np.matmul(d[t], self.w, out=dh)
        return d, d


class LSTMLoop(Loop):
    """c' = f c + i g; h' = o tanh c'; the gates lie in the order i, f, g, o.

    As σ(x) = tanh(x / 2) / 2 + 1/2, one tanh makes all four gates.
    """

    def _forward(self, from_x_LNG: Array, b: Array, *first: Array) -> list[Array]:
        self.gates = empty(from_x_LNG.shape, from_x_LNG.dtype)
        self.c_before, c_after = self._states(from_x_LNG, first[0])
        self.tanh_c = empty(c_after.shape, c_after.dtype)
        arrays = (self.gates, self.c_before, c_after, self.tanh_c, self.after)
        if not self._compiled("lstm", from_x_LNG, b, *arrays):
            self._steps(from_x_LNG, b, c_after)
        return [c_after[self.order[-1]].copy()]

    def _steps(self, from_x_LNG: Array, b: Array, c_after: Array) -> None:
        w_t = self._turned_weights()
        half = np.repeat(np.array([0.5, 0.5, 1, 0.5], w_t.dtype), len(w_t))
        rest = 1 - half
        i_LNH, f_LNH, g_LNH, o_LNH = np.split(self.gates, 4, -1)
        for t in self.order:
            z = np.matmul(self.before[t], w_t, out=self.gates[t])
            z += from_x_LNG[t]
            z += b
            z *= half
            np.tanh(z, out=z)
            z *= half
            z += rest
            c, tanh_c = c_after[t], self.tanh_c[t]
            np.multiply(i_LNH[t], g_LNH[t], out=c)
            c += np.multiply(f_LNH[t], self.c_before[t], out=tanh_c)
            np.multiply(o_LNH[t], np.tanh(c, out=tanh_c), out=self.after[t])

    def _backward(self, dy_LNH: Array | None, *ends: Array) -> tuple[Array, Array]:
        dh, dc = ends
        steps, n, width = self.tanh_c.shape
        d = empty(self.gates.shape, self.gates.dtype)
        arrays = (self.gates, self.c_before, self.tanh_c, dc)
        if self._compiled_back("lstm", d, dy_LNH, dh, *arrays):
            return d, d
        dc_of_dh = self._factors(d)
        d_LN4H = d.reshape(steps, n, 4, width)
        f_LNH = self.gates[..., width : 2 * width]
        part = np.empty_like(dh)
        for t in reversed(self.order):
            if dy_LNH is not None:
                dh += dy_LNH[t]
            dc += np.multiply(dh, dc_of_dh[t], out=part)
            d_LN4H[t, :, :3] *= dc[:, None]
            d_LN4H[t, :, 3] *= dh
            dc *= f_LNH[t]
            np.matmul(d[t], self.w, out=dh)
        return d, d

    def _factors(self, d: Array) -> Array:
        """Write dz / dc of the gates i, f, g and dz / dh of o into `d`; return dc / dh."""
        i, f, g, o = np.split(self.gates, 4, -1)
        d_i, d_f, d_g, d_o = np.split(d, 4, -1)
        np.subtract(1, self.gates, out=d)
        d *= self.gates
        d_i *= g
        d_f *= self.c_before
        d_o *= self.tanh_c
        np.subtract(1, np.multiply(g, g, out=d_g), out=d_g)
        d_g *= i
        dc_of_dh: Array = np.multiply(self.tanh_c, self.tanh_c, out=empty(f.shape, d.dtype))
        np.subtract(1, dc_of_dh, out=dc_of_dh)
        dc_of_dh *= o
        return dc_of_dh


class GRULoop(Loop):
    """n = tanh(x part + r * h part); h' = n + z (h - n); the gates lie in the order r, z, n."""

    def _forward(self, from_x_LNG: Array, b: Array, *first: Array) -> list[Array]:
        (steps, n, wide), width, dtype = from_x_LNG.shape, self.w.shape[1], from_x_LNG.dtype
        self.gates = empty((steps, n, 2 * width), dtype)
        self.new = empty((steps, n, width), dtype)
        self.from_h = empty((steps, n, width), dtype)  # the part of n
        arrays = (self.gates, self.from_h, self.new, self.before, self.after)
        if self._compiled("gru", from_x_LNG, b, *arrays):
            return []
        w_t = self._turned_weights()
        half = np.asarray(0.5, dtype)
        both = np.empty((n, wide), dtype)
        to_gates, to_new = both[:, : 2 * width], both[:, 2 * width :]
        for t in self.order:
            np.matmul(self.before[t], w_t, out=both)
            both += b
            self.from_h[t] = to_new
            gates = np.add(to_gates, from_x_LNG[t, :, : 2 * width], out=self.gates[t])
            gates *= half
            np.tanh(gates, out=gates)
            gates *= half
            gates += half
            new = np.multiply(gates[:, :width], to_new, out=self.new[t])
            new += from_x_LNG[t, :, 2 * width :]
            np.tanh(new, out=new)
            h = np.subtract(self.before[t], new, out=self.after[t])
            h *= gates[:, width:]
            h += new
        return []

    def _backward(self, dy_LNH: Array | None, *ends: Array) -> tuple[Array, Array]:
        (dh,) = ends
        steps, n, width = self.new.shape
        d_h, d_x = (empty((steps, n, 3 * width), dh.dtype) for _ in range(2))
        carried = np.zeros_like(dh)
        arrays = (self.gates, self.from_h, self.new, self.before, carried, d_x)
        if self._compiled_back("gru", d_h, dy_LNH, dh, *arrays):
            dh += carried
            return d_x, d_h
        d_new = self._factors(d_h)
        d_LN3H = d_h.reshape(steps, n, 3, width)
        z_LNH = self.gates[..., width:]
        part = np.empty_like(dh)
        for t in reversed(self.order):
            if dy_LNH is not None:
                dh += dy_LNH[t]
            d_LN3H[t] *= dh[:, None]
            d_new[t] *= dh
            np.matmul(d_h[t], self.w, out=part)
            dh *= z_LNH[t]
            dh += part
        d_x[..., : 2 * width] = d_h[..., : 2 * width]
        d_x[..., 2 * width :] = d_new
        return d_x, d_h

    def _factors(self, d_h: Array) -> Array:
        """Write by what dh is multiplied in the h part of r, z and n; return that of n's x part."""
        r, z = np.split(self.gates, 2, -1)
        d_r, d_z, d_n = np.split(d_h, 3, -1)
        d_new: Array = np.multiply(self.new, self.new, out=empty(self.new.shape, r.dtype))
        np.subtract(1, d_new, out=d_new)
        np.subtract(1, z, out=d_z)
        d_new *= d_z
        d_z *= z
        d_z *= np.subtract(self.before, self.new, out=d_n)
        np.multiply(d_new, r, out=d_n)
        np.subtract(1, r, out=d_r)
        d_r *= d_n
        d_r *= self.from_h
        return d_new
