"""The steps of recurrent layers: a step's product and all that follows it, as one kernel.

Legend: N batch, H hidden, K terms of a sum. A kernel computes panels of the result of
`a @ weights`: a panel is a vector of units, on the way forward for each gate. Sums of some rows
stay in registers while the terms are added, and what becomes of them is written at once, so that a
step goes over memory once. The weights are packed before the first step, as the panels read them.
Threads share the panels.

    void kernel(i64 lo, i64 hi, ptr table)   panels lo to hi; the table: six integers (`_Kernel`),
                                             where the arrays' addresses are written

May import: text, functions, engine, pool, kernels, panels.
Source: Appleyard, Kocisky & Blunsom, arXiv:1604.01946, 2016.
"""

import functools
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import engine, functions, kernels, panels, pool
from .text import KERNEL, Text

_Array = np.ndarray[Any, Any]
FEW_REGISTERS, MOST_ROWS = 16, 7
"""Rows of a block where vector registers are few: of more, LLVM keeps sums in memory."""


class _Cell(NamedTuple):
    """A vector of units in one row: the rows of this step's matrix and of the batch, and which."""

    row: str
    of_batch: str
    unit: str
    inside: str


class _Kernel:
    """The code of one step.

    Attributes:
        depth: terms of a sum, the length of a row of `a`.
        hidden: H.
        whole: rows in whole blocks.
        source, first: where this step's rows of `a` and of the other arrays begin.
        width: of a row of `a`; `depth` may be 0.
    """

    def __init__(self, step: "_Step", dtype: str) -> None:
        self.step = step
        self.t = t = Text(dtype, panels.lanes(dtype))
        numbers = t.fields("i64", 6)
        self.depth, self.hidden, self.whole, self.source, self.first, self.width = numbers
        self.weights, self.a, *bases = t.arrays(2 + len(step.arrays), 6)
        self.bases = dict(zip(step.arrays, bases, strict=True))

    def text(self, rows: int, rest: int) -> str:
        """Return the module: blocks of `rows` rows, then one of `rest`."""
        t, vectors = self.t, self.step.vectors
        self.sums = [t.variable() for _ in range(rows * vectors)]
        self.done = t.emit(f"alloca [{rows * vectors} x {t.vector}], align 64")
        with t.loop("p", "%hi", start="%lo") as panel:
            self.panel = panel
            offset = t.times(t.times(panel, self.depth), vectors * t.width)
            self.columns = t.at(self.weights, offset, t.scalar)
            with t.loop("i", self.whole, rows) as i:
                self._block(i, rows)
            if rest:
                self._block(self.whole, rest)
        return t.module(KERNEL)

    def _block(self, first: str, rows: int) -> None:
        t, vectors = self.t, self.step.vectors
        numbers = [t.plus(first, i) for i in range(rows)]
        starts = [t.times(t.plus(self.source, row), self.width) for row in numbers]
        lines = [t.at(self.a, start, t.scalar) for start in starts]
        columns = [t.at(self.columns, v * t.width, t.scalar) for v in range(vectors)]
        self._prefetch(numbers)
        panels.add_terms(t, lines, columns, self.depth, vectors * t.width, self.sums)
        for i in range(rows * vectors):
            t.store(t.load(self.sums[i], align=64), t.at(self.done, i, t.vector), how="align 64")
        with t.loop("r", str(rows)) as r:
            self._finish(t.plus(first, r), t.at(self.done, t.times(r, vectors), t.vector))

    def _prefetch(self, rows: Sequence[str]) -> None:
        """Ask for what these rows read from memory that is far."""
        t, unit = self.t, self.t.times(self.panel, self.t.width)
        for row, name in itertools.product(rows, self.step.far):
            cell = _Cell(t.plus(self.first, row), row, unit, "")
            gates = self.step.gates if name == "gates" else 1
            for gate in range(gates):
                t.prefetch(self._at(name, cell, cell.row, gate, gates))

    def _finish(self, of_batch: str, done: str) -> None:
        """Write what becomes of a row's sums."""
        t = self.t
        sums = [t.load(t.at(done, v, t.vector), align=64) for v in range(self.step.vectors)]
        unit = t.times(self.panel, t.width)
        inside = t.first_lanes(t.minus(self.hidden, unit))
        self.step.finish(self, _Cell(t.plus(self.first, of_batch), of_batch, unit, inside), sums)

    def _at(self, name: str, cell: _Cell, row: str | None, gate: int, gates: int) -> str:
        t = self.t
        line = str(gate) if row is None else t.plus(t.times(row, gates), gate)
        return t.at(self.bases[name], t.plus(t.times(line, self.hidden), cell.unit), t.scalar)

    def load(self, name: str, cell: _Cell, gate: int = 0, gates: int = 1) -> str:
        """Return a vector of an array of steps, of one of its gates."""
        return self.t.load(self._at(name, cell, cell.row, gate, gates), cell.inside)

    def store(self, value: str, name: str, cell: _Cell, gate: int = 0, gates: int = 1) -> str:
        """Write one; return it."""
        self.t.store_inside(value, self._at(name, cell, cell.row, gate, gates), cell.inside)
        return value

    def bias(self, cell: _Cell, gate: int = 0) -> str:
        """Return a vector of the bias, which all rows share."""
        return self.t.load(self._at("b", cell, None, gate, 1), cell.inside)

    def load_carried(self, name: str, cell: _Cell) -> str:
        """Return a vector of what one step leaves for the next, an array without steps."""
        return self.t.load(self._at(name, cell, cell.of_batch, 0, 1), cell.inside)

    def carry(self, value: str, name: str, cell: _Cell) -> None:
        """Leave one for the next step."""
        self.t.store_inside(value, self._at(name, cell, cell.of_batch, 0, 1), cell.inside)

    def sigmoid(self, x: str) -> str:
        """Return tanh(x / 2) / 2 + 1/2."""
        t, half = self.t, self.t.number(0.5)
        return t.fma(functions.tanh_of_gate(t, t.mul(x, half)), half, half)

    def slope(self, y: str) -> str:
        """Return 1 - y², the derivative of tanh where it is y."""
        return self.t.sub(self.t.number(1.0), self.t.mul(y, y))

    def sigmoid_slope(self, y: str) -> str:
        """Return y (1 - y), the derivative of the sigmoid where it is y."""
        return self.t.mul(y, self.t.sub(self.t.number(1.0), y))


def _plain(relu: bool, k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    """h' = tanh(x part + h part), or max(x part + h part, 0)."""
    t = k.t
    z = t.add(t.add(sums[0], k.load("h", cell)), k.bias(cell))
    if relu:
        zero = t.number(0.0)
        k.store(t.either(t.compare("olt", z, zero), zero, z), "h", cell)  # NaN stays NaN
    else:
        k.store(functions.tanh_of_gate(t, z), "h", cell)


def _plain_gradient(relu: bool, k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    t, h = k.t, k.load("h", cell)
    dh = t.add(sums[0], k.load("dy", cell))
    zero = t.number(0.0)
    slope = t.either(t.compare("ogt", h, zero), t.number(1.0), zero) if relu else k.slope(h)
    k.store(t.mul(dh, slope), "d", cell)


def _lstm(k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    """c' = f c + i g; h' = o tanh c'; the gates lie in the order i, f, g, o."""
    t = k.t
    z = [t.add(t.add(s, k.load("gates", cell, n, 4)), k.bias(cell, n)) for n, s in enumerate(sums)]
    gates = [functions.tanh_of_gate(t, x) if n == 2 else k.sigmoid(x) for n, x in enumerate(z)]
    i, f, g, o = (k.store(gate, "gates", cell, n, 4) for n, gate in enumerate(gates))
    c = k.store(t.fma(f, k.load("c_before", cell), t.mul(i, g)), "c", cell)
    k.store(t.mul(o, k.store(functions.tanh_of_gate(t, c), "tanh_c", cell)), "h", cell)


def _lstm_gradient(k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    t = k.t
    i, f, g, o = (k.load("gates", cell, n, 4) for n in range(4))
    tanh_c = k.load("tanh_c", cell)
    dh = t.add(sums[0], k.load("dy", cell))
    dc = t.fma(t.mul(dh, o), k.slope(tanh_c), k.load_carried("dc", cell))
    before = k.load("c_before", cell)
    k.store(t.mul(dc, t.mul(g, k.sigmoid_slope(i))), "d", cell, 0, 4)
    k.store(t.mul(dc, t.mul(before, k.sigmoid_slope(f))), "d", cell, 1, 4)
    k.store(t.mul(dc, t.mul(i, k.slope(g))), "d", cell, 2, 4)
    k.store(t.mul(dh, t.mul(tanh_c, k.sigmoid_slope(o))), "d", cell, 3, 4)
    k.carry(t.mul(dc, f), "dc", cell)


def _gru(k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    """n = tanh(x part + r * h part); h' = n + z (h - n); the gates lie in the order r, z, n."""
    t = k.t
    from_h = [t.add(s, k.bias(cell, n)) for n, s in enumerate(sums)]
    from_x = [k.load("gates", cell, n, 3) for n in range(3)]
    r, z = (k.sigmoid(t.add(from_h[n], from_x[n])) for n in range(2))
    part = k.store(from_h[2], "from_h", cell)
    n = functions.tanh_of_gate(t, t.fma(r, part, t.add(from_x[2], k.bias(cell, 3))))
    for number, gate in enumerate((r, z, n)):
        k.store(gate, "gates", cell, number, 3)
    k.store(t.fma(z, t.sub(k.load("h_before", cell), n), n), "h", cell)


def _gru_gradient(k: _Kernel, cell: _Cell, sums: Sequence[str]) -> None:
    t = k.t
    r, z, n = (k.load("gates", cell, number, 3) for number in range(3))
    dh = t.add(t.add(sums[0], k.load("dy", cell)), k.load_carried("dh", cell))
    d_n = k.store(t.mul(t.mul(dh, t.sub(t.number(1.0), z)), k.slope(n)), "d_x", cell, 2, 3)
    away = t.sub(k.load("h_before", cell), n)
    d_z = t.mul(dh, t.mul(away, k.sigmoid_slope(z)))
    d_r = t.mul(t.mul(d_n, k.load("from_h", cell)), k.sigmoid_slope(r))
    for at, d in enumerate((d_r, d_z)):
        k.store(k.store(d, "d_x", cell, at, 3), "d", cell, at, 3)
    k.store(t.mul(d_n, r), "d", cell, 2, 3)
    k.carry(t.mul(dh, z), "dh", cell)


_Finish = Callable[[_Kernel, _Cell, Sequence[str]], None]


class _Step(NamedTuple):
    """What becomes of the sums, and the arrays it reads and writes.

    Attributes:
        vectors: of sums in a row of a panel, one a gate; on the way back there is one.
        gates: of the array of this name.
        far: arrays that it reads and that the step before has not just written.
    """

    vectors: int
    gates: int
    far: tuple[str, ...]
    near: tuple[str, ...]
    finish: _Finish

    @property
    def arrays(self) -> tuple[str, ...]:
        """All that it reads and writes."""
        return self.far + self.near


_STEPS = {
    "tanh": _Step(1, 1, ("h",), ("b",), functools.partial(_plain, False)),
    "relu": _Step(1, 1, ("h",), ("b",), functools.partial(_plain, True)),
    "lstm": _Step(4, 4, ("gates",), ("b", "c_before", "c", "tanh_c", "h"), _lstm),
    "gru": _Step(3, 3, ("gates",), ("b", "from_h", "h_before", "h"), _gru),
}
_BACK: dict[str, tuple[int, tuple[str, ...], tuple[str, ...], _Finish]] = {
    "tanh": (1, ("dy", "h"), ("d",), functools.partial(_plain_gradient, False)),
    "relu": (1, ("dy", "h"), ("d",), functools.partial(_plain_gradient, True)),
    "lstm": (4, ("dy", "gates", "c_before", "tanh_c"), ("dc", "d"), _lstm_gradient),
    "gru": (3, ("dy", "gates", "from_h", "h_before"), ("dh", "d_x", "d"), _gru_gradient),
}
_STEPS |= {f"{name} back": _Step(1, *step) for name, step in _BACK.items()}


def _blocks(batch: int, vectors: int) -> tuple[int, int]:
    """Return how many rows a block has whose sums stay in registers, and those that are left."""
    registers, _ = engine.vector_registers()
    most = max((registers - vectors - 1) // vectors, 1)
    most = most if registers > FEW_REGISTERS else min(most, MOST_ROWS)
    rows = -(-batch // -(-batch // most))
    return rows, batch % rows


def module(name: str, dtype: str, rows: int, rest: int) -> str:
    """Return the LLVM module of a step, one of `_STEPS`."""
    return _Kernel(_STEPS[name], dtype).text(rows, rest)


@functools.cache
def _function(
    name: str, dtype: str, rows: int, rest: int
) -> tuple[engine.Function, Callable[..., bytes]]:
    count = 6 + 2 + len(_STEPS[name].arrays)
    text = module(name, dtype, rows, rest)
    return engine.Function(text), struct.Struct(f"{count}q").pack


def run(
    name: str, a: _Array, w: _Array, order: Sequence[int], arrays: Mapping[str, _Array]
) -> None:
    """Take steps one after the other.

    Args:
        name: one of `_STEPS`, which says what arrays it reads and writes, all contiguous and of one
            dtype; of those of all steps, such as h, a step takes its own.
        a: (steps, N, K): the step's own part is multiplied by the weights; on the way back that of
            the step before in `order`, and nothing at the first.
        w: (gates * H, H); on the way back K is gates * H.
        order: the numbers of the steps.
    """
    step = _STEPS[name]
    back = name.endswith("back")
    _, batch, width = a.shape
    in_panels = w.T[None] if back else w.reshape(step.vectors, -1, width)
    if back and len(order) == 1:
        in_panels = in_panels[..., :0]  # there is no product
    weights = panels.pack_weights(in_panels)
    rows, rest = _blocks(batch, step.vectors)
    function, pack = _function(name, a.dtype.name, rows, rest)
    places = kernels.places_of((weights, a, *(arrays[part] for part in step.arrays)))
    grain = -(-panels.GRAIN // (batch * max(weights[0].size, 1)))
    before = -1
    for number in order:
        source, depth = (max(before, 0), width if before >= 0 else 0) if back else (number, width)
        ints = (depth, w.shape[1], batch - rest, batch * source, batch * number, width)
        pool.share(function.call, len(weights), grain, pack(*ints, *places))
        before = number
