"""Softmax, layer norm, their gradients, Adam: a kernel each that reads and writes memory once.

A row is short enough to stay in the nearest cache from its first number to its result, so what
takes several sweeps over it takes memory's time once. Arrays are contiguous, rows of `n` numbers.

    void kernel(i64 lo, i64 hi, ptr table)   rows lo to hi; the table: three integers, n first,
                                             where the arrays' objects are, one number

May import: text, rows, functions, engine, pool, kernels.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import functions, kernels, pool
from .engine import Function
from .rows import IDENTITY, across, fold
from .text import KERNEL, Text

PIECE = 2**12  # numbers of a flat array that count as a row
_Array = np.ndarray[Any, Any]
Each = Callable[[str, str | None], str]


class _Rows:
    """The code of a kernel over rows.

    Attributes:
        integers: the table's; `integers[0]` is a row's length.
        number: the table's, in every lane.
    """

    def __init__(self, dtype: str, arrays: int) -> None:
        self.t = t = Text(dtype)
        places = [t.at("%table", 8 * i) for i in range(4 + arrays)]
        self.integers = [t.emit(f"load i64, ptr {at}, align 8") for at in places[:3]]
        objects = [t.emit(f"load ptr, ptr {at}") for at in places[3:-1]]
        self.bases = [t.emit(f"load ptr, ptr {t.at(o, kernels.HEAD)}") for o in objects]
        number = t.emit(f"load double, ptr {places[-1]}, align 8")
        if t.single:
            number = t.emit(f"fptrunc double {number} to float")
        self.number = t.spread(t.scalar, number)
        self.sums = [t.variable() for _ in range(2)]
        self.first = self.row = "0"

    def at(self, array: int, place: str, shared: bool = False) -> str:
        """Return the address of an element of the row; of the only row where it is shared."""
        return self.t.at(self.bases[array], place if shared else self.t.plus(self.first, place),
                         self.t.scalar)  # fmt: skip

    def load(self, array: int, place: str, mask: str | None, shared: bool = False) -> str:
        """Return a vector of the row."""
        return self.t.load(self.at(array, place, shared), mask)

    def store(
        self, array: int, value: str, place: str, mask: str | None, shared: bool = False
    ) -> str:
        """Write a vector of the row; return it."""
        self.t.store(value, self.at(array, place, shared), mask)
        return value

    def each(self, body: Callable[[str, str | None], Any], stop: str, start: str = "0") -> None:
        """Write a loop over the row's whole vectors, and what is left under a mask."""
        t = self.t
        length = t.minus(stop, start) if start != "0" else stop
        whole = t.plus(start, t.emit(f"and i64 {length}, {-t.width}"))
        with t.loop("v", whole, t.width, start) as v:
            body(v, None)
        rest = t.minus(stop, whole)
        with t.when(t.emit(f"icmp sgt i64 {rest}, 0")):
            body(whole, t.first_lanes(rest))

    def fold(self, stop: str, *folds: tuple[str, Each]) -> list[str]:
        """Return what some values of the row's elements add up to, each in every lane."""
        t = self.t
        for (how, _), total in zip(folds, self.sums, strict=False):
            t.store(t.number(IDENTITY[how]), total)

        def body(v: str, mask: str | None) -> None:
            for (how, value_at), total in zip(folds, self.sums, strict=False):
                value = value_at(v, mask)
                if mask is not None:
                    value = t.either(mask, value, t.number(IDENTITY[how]))
                t.store(fold(t, how, t.load(total), value), total)

        self.each(body, stop)
        return [
            t.spread(t.scalar, across(t, how, t.load(total)))
            for (how, _), total in zip(folds, self.sums, strict=False)
        ]

    def mean(self, *values: Each) -> list[str]:
        """Return the means of some values over the row."""
        t, n = self.t, self.integers[0]
        count = t.spread(t.scalar, t.emit(f"sitofp i64 {n} to {t.scalar}"))
        return [t.div(s, count) for s in self.fold(n, *(("sum", value) for value in values))]


def _softmax(k: _Rows) -> None:
    """x, out: softmax of number · x, over the first elements of each row; 0 behind them."""
    t, stop = k.t, _reach(k)

    def scaled(v: str, mask: str | None) -> str:
        return t.mul(k.load(0, v, mask), k.number)

    (most,) = k.fold(stop, ("amax", scaled))

    def power(v: str, mask: str | None) -> str:
        away = t.sub(scaled(v, mask), most)
        none = t.compare("olt", away, t.number(functions.EXP_RANGE[t.single][0]))
        near = t.either(none, t.number(0.0), away)  # arithmetic on denormals takes long
        return k.store(1, t.either(none, t.number(0.0), functions.exp(t, near)), v, mask)

    (total,) = k.fold(stop, ("sum", power))
    part = t.div(t.number(1.0), total)
    k.each(lambda v, mask: k.store(1, t.mul(k.load(1, v, mask), part), v, mask), stop)
    k.each(lambda v, mask: k.store(1, t.number(0.0), v, mask), k.integers[0], stop)


def _log_softmax(k: _Rows) -> None:
    """x, out: the logarithm of softmax."""
    t, n = k.t, k.integers[0]
    most, total = _powers(k, lambda v, mask, power: power)
    less = t.add(most, functions.log(t, total))
    k.each(lambda v, mask: k.store(1, t.sub(k.load(0, v, mask), less), v, mask), n)


def _log_softmax_gradient(k: _Rows) -> None:
    """g, y, out: g - exp(y) Σ g."""
    t, n = k.t, k.integers[0]
    (total,) = k.fold(n, ("sum", lambda v, mask: k.load(0, v, mask)))

    def share(v: str, mask: str | None) -> str:
        part = t.mul(functions.exp(t, k.load(1, v, mask)), total)
        return k.store(2, t.sub(k.load(0, v, mask), part), v, mask)

    k.each(share, n)


def _class_loss(k: _Rows) -> None:
    """x, labels, flags, out: log Σ exp x - x[label]; 0 for the label `first`.

    Of the flags, two integers, the first is set where a label is no class, and the second where one
    is `first`.
    """
    t, label, counts, is_ignored = k.t, *_label(k)
    most, total = _powers(k, lambda v, mask, power: power)
    place = t.emit(f"select i1 {counts}, i64 {label}, i64 0")
    picked = t.spread(t.scalar, t.emit(f"load {t.scalar}, ptr {k.at(0, place)}, align 1"))
    loss = t.sub(functions.log(t, total), t.sub(picked, most))
    value = t.emit(f"select i1 {counts}, {t.vector} {loss}, {t.vector} zeroinitializer")
    first = t.emit(f"extractelement {t.vector} {value}, i32 0")
    t.do(f"store {t.scalar} {first}, ptr {t.at(k.bases[3], k.row, t.scalar)}, align 1")
    is_known = t.emit(f"or i1 {counts}, {is_ignored}")
    for i, is_so in enumerate((t.emit(f"xor i1 {is_known}, true"), is_ignored)):
        with t.when(is_so):
            t.do(f"store i64 1, ptr {t.at(k.bases[2], i, 'i64')}, align 8")


def _class_gradient(k: _Rows) -> None:
    """x, labels, g, out: g (softmax x - [the element is the label's]); 0 for the label `first`.

    `rows` is the stride of g in bytes. A label that is no class has no element.
    """
    t, label, counts, is_ignored = k.t, *_label(k)
    n, stride, _ = k.integers
    _, total = _powers(k, lambda v, mask, power: k.store(3, power, v, mask))
    at = t.at(k.bases[2], t.times(k.row, stride))
    g = t.emit(f"load {t.scalar}, ptr {at}, align 1")
    factor = t.div(t.spread(t.scalar, g), total)
    stays = t.spread("i1", t.emit(f"xor i1 {is_ignored}, true"))

    def share(v: str, mask: str | None) -> None:
        part = t.mul(k.load(3, v, mask), factor)
        k.store(3, t.either(stays, part, t.number(0.0)), v, mask)

    k.each(share, n)
    with t.when(counts):
        place = k.at(3, label)
        part = t.emit(f"load {t.scalar}, ptr {place}, align 1")
        t.do(f"store {t.scalar} {t.emit(f'fsub {t.scalar} {part}, {g}')}, ptr {place}, align 1")


def _label(k: _Rows) -> tuple[str, str, str]:
    """Return the row's label, whether it is a class that counts, and whether it is `first`."""
    t = k.t
    n, _, ignored = k.integers
    label = t.emit(f"load i64, ptr {t.at(k.bases[1], k.row, 'i64')}, align 1")
    is_ignored = t.emit(f"icmp eq i64 {label}, {ignored}")
    is_class = t.emit(f"icmp ult i64 {label}, {n}")  # negative ones are huge
    return label, t.emit(f"select i1 {is_ignored}, i1 false, i1 {is_class}"), is_ignored


def _powers(k: _Rows, use: Callable[[str, str | None, str], str]) -> tuple[str, str]:
    """Return a row's largest element, and the sum of what `use` returns for e^(element - largest).

    What is far below is 0: arithmetic on denormals takes long.
    """
    t, n = k.t, k.integers[0]
    (most,) = k.fold(n, ("amax", lambda v, mask: k.load(0, v, mask)))

    def power(v: str, mask: str | None) -> str:
        away = t.sub(k.load(0, v, mask), most)
        none = t.compare("olt", away, t.number(functions.EXP_RANGE[t.single][0]))
        near = t.either(none, t.number(0.0), away)
        return use(v, mask, t.either(none, t.number(0.0), functions.exp(t, near)))

    (total,) = k.fold(n, ("sum", power))
    return most, total


def _softmax_gradient(k: _Rows) -> None:
    """g, y, out: number · y (g - Σ g y), over the first elements of each row; 0 behind them."""
    t, stop = k.t, _reach(k)
    (along,) = k.fold(stop, ("sum", lambda v, m: t.mul(k.load(0, v, m), k.load(1, v, m))))

    def share(v: str, mask: str | None) -> str:
        y = t.mul(k.load(1, v, mask), k.number)
        return k.store(2, t.mul(y, t.sub(k.load(0, v, mask), along)), v, mask)

    k.each(share, stop)
    k.each(lambda v, mask: k.store(2, t.number(0.0), v, mask), k.integers[0], stop)


def _reach(k: _Rows) -> str:
    """Return how many elements of a row count: one more with each row of a matrix, n at most."""
    n, rows, first = k.integers
    row = k.t.emit(f"urem i64 {k.row}, {rows}")
    return k.t.least(n, k.t.plus(row, first))


def _standardized(k: _Rows, x: int) -> tuple[Each, str]:
    """Return what gives a row's elements with mean 0 and variance 1, and 1 / their deviation."""
    t = k.t
    (middle,) = k.mean(lambda v, mask: k.load(x, v, mask))

    def away(v: str, mask: str | None) -> str:
        return t.sub(k.load(x, v, mask), middle)

    def square(v: str, mask: str | None) -> str:
        a = away(v, mask)
        return t.mul(a, a)

    (spread,) = k.mean(square)
    scale = t.div(t.number(1.0), t.intrinsic("sqrt", t.add(spread, k.number)))
    return lambda v, mask: t.mul(away(v, mask), scale), scale


def _layer_norm(k: _Rows) -> None:
    """x, weight, bias, out: each row standardized, scaled and shifted; number is epsilon."""
    t = k.t
    y, _ = _standardized(k, 0)

    def result(v: str, mask: str | None) -> str:
        scaled = t.mul(y(v, mask), k.load(1, v, mask, True))
        return k.store(3, t.add(scaled, k.load(2, v, mask, True)), v, mask)

    k.each(result, k.integers[0])


def _layer_norm_gradient(k: _Rows) -> None:
    """g, x, weight, dx, dweight, dbias: the gradients; the last two a row for each `rows` rows."""
    t = k.t
    n, rows, _ = k.integers
    part = t.times(t.emit(f"sdiv i64 {k.row}, {rows}"), n)
    y, scale = _standardized(k, 1)

    def flow(v: str, mask: str | None) -> str:
        return t.mul(k.load(0, v, mask), k.load(2, v, mask, True))

    middle, along = k.mean(flow, lambda v, mask: t.mul(flow(v, mask), y(v, mask)))

    def share(v: str, mask: str | None) -> None:
        g, standard = k.load(0, v, mask), y(v, mask)
        inner = t.sub(t.sub(flow(v, mask), middle), t.mul(standard, along))
        k.store(3, t.mul(inner, scale), v, mask)
        total = t.plus(part, v)
        k.store(4, t.add(k.load(4, total, mask, True), t.mul(g, standard)), total, mask, True)
        k.store(5, t.add(k.load(5, total, mask, True), g), total, mask, True)

    k.each(share, n)


def _adam(k: _Rows) -> None:
    """w, g, m, v, numbers: a step of Adam; see `optim.adam`, whose numbers and order these are.

    Rows are pieces of flat arrays; `first` is how many numbers these have.
    """
    t = k.t
    n, _, size = k.integers

    def number(i: int) -> str:
        at = t.at(k.bases[4], i, t.scalar)
        return t.spread(t.scalar, t.emit(f"load {t.scalar}, ptr {at}, align 1"))

    keep, new, old_square, new_square, root_scale, eps, step = (number(i) for i in range(7))

    def update(v: str, mask: str | None) -> None:
        w, g, m, square = (k.load(i, v, mask) for i in range(4))
        m = k.store(2, t.add(m, t.mul(new, t.sub(g, m))), v, mask)
        square = t.add(t.mul(square, old_square), t.mul(new_square, t.mul(g, g)))
        k.store(3, square, v, mask)
        root = t.add(t.mul(t.intrinsic("sqrt", square), root_scale), eps)
        k.store(0, t.sub(t.mul(w, keep), t.div(t.mul(step, m), root)), v, mask)

    k.each(update, t.least(n, t.minus(size, k.first)))


def _add_rows(k: _Rows) -> None:
    """out, numbers, values: to each row of `out` are added those of the `rows` values that say it.

    A thread looks at all numbers and adds to its own rows, each in the order of the values.
    """
    t = k.t
    n, count, _ = k.integers
    with t.loop("i", count) as i:
        row = t.emit(f"load i64, ptr {t.at(k.bases[1], i, 'i64')}, align 8")
        after, before = t.emit(f"icmp sge i64 {row}, %lo"), t.emit(f"icmp slt i64 {row}, %hi")
        with t.when(t.emit(f"and i1 {after}, {before}")):
            into, source = t.times(row, n), t.times(i, n)

            def add(v: str, mask: str | None) -> None:
                place = t.plus(into, v)
                value = k.load(2, t.plus(source, v), mask, True)
                k.store(0, t.add(k.load(0, place, mask, True), value), place, mask, True)

            k.each(add, n)


_KERNELS: dict[str, tuple[int, Callable[[_Rows], None]]] = {
    "softmax": (2, _softmax),
    "softmax_gradient": (3, _softmax_gradient),
    "class_loss": (4, _class_loss),
    "class_gradient": (4, _class_gradient),
    "log_softmax": (2, _log_softmax),
    "log_softmax_gradient": (3, _log_softmax_gradient),
    "layer_norm": (4, _layer_norm),
    "layer_norm_gradient": (6, _layer_norm_gradient),
    "adam": (5, _adam),
    "add_rows": (3, _add_rows),
}


def module(name: str, dtype: str) -> str:
    """Return the LLVM module of a kernel, one of `_KERNELS`."""
    count, body = _KERNELS[name]
    k = _Rows(dtype, count)
    if name == "add_rows":
        body(k)
    else:
        with k.t.loop("r", "%hi", start="%lo") as r:
            k.first = k.t.times(r, k.integers[0])
            k.row = r
            body(k)
    k.t.do("ret void")
    return k.t.module(KERNEL)


@functools.cache
def _function(name: str, dtype: Any) -> tuple[Function, Callable[..., bytes]]:
    return Function(module(name, dtype.name)), struct.Struct(f"{3 + _KERNELS[name][0]}qd").pack


def run(
    name: str, arrays: Sequence[_Array], number: float, rows: int = 1, first: int | None = None
) -> None:
    """Run a kernel on contiguous arrays of one dtype; the last ones are written.

    Args:
        name: one of `_KERNELS`, whose docstrings say what the arrays and the number are.
        rows, first: of a causal softmax, the rows of a matrix, and how many elements count in its
            first row; all of them unless given. Of layer norm's gradient, the rows a sum is over.
    """
    leading = arrays[0]
    n, size = leading.shape[-1], leading.size
    if name == "adam":
        n, first = min(n, PIECE), n
    function, pack = _function(name, leading.dtype)
    reach = n if first is None else first
    table = pack(n, rows, reach, *map(id, arrays), number)  # see `kernels.places_of`
    grain = rows if name == "layer_norm_gradient" else -(-pool.GRAIN // n)
    if name == "add_rows":  # the work is in the values, not in what they are added to
        grain = max(1, size * pool.GRAIN // (rows * n * n))
    pool.share(function.call, -(-size // n), grain, table)
