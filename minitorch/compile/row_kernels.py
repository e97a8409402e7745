"""Softmax, layer norm, their gradients, Adam: a kernel each that reads and writes memory once.

A row is short enough to stay in the nearest cache from its first number to its result, so what
takes several sweeps over it takes memory's time once. Arrays are contiguous, rows of `n` numbers.

    void kernel(i64 lo, i64 hi, ptr table)   rows lo to hi; the table: three integers, n first,
                                             where the arrays' objects are, one number

May import: text, row_text, index_kernels, functions, engine, pool.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import functions, pool
from .engine import Function
from .index_kernels import add_rows, gather, scatter_add
from .row_text import Each, RowText
from .text import KERNEL

PIECE = 2**12  # numbers of a flat array that count as a row
_Array = np.ndarray[Any, Any]


def _softmax(k: RowText) -> None:
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


def _log_softmax(k: RowText) -> None:
    """x, out: the logarithm of softmax."""
    t, n = k.t, k.integers[0]
    most, total = _powers(k, lambda v, mask, power: power)
    less = t.add(most, functions.log(t, total))
    k.each(lambda v, mask: k.store(1, t.sub(k.load(0, v, mask), less), v, mask), n)


def _log_softmax_gradient(k: RowText) -> None:
    """g, y, out: g - exp(y) Σ g."""
    t, n = k.t, k.integers[0]
    (total,) = k.fold(n, ("sum", lambda v, mask: k.load(0, v, mask)))

    def share(v: str, mask: str | None) -> str:
        part = t.mul(functions.exp(t, k.load(1, v, mask)), total)
        return k.store(2, t.sub(k.load(0, v, mask), part), v, mask)

    k.each(share, n)


def _class_loss(k: RowText) -> None:
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


def _class_gradient(k: RowText) -> None:
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


def _label(k: RowText) -> tuple[str, str, str]:
    """Return the row's label, whether it is a class that counts, and whether it is `first`."""
    t = k.t
    n, _, ignored = k.integers
    label = t.emit(f"load i64, ptr {t.at(k.bases[1], k.row, 'i64')}, align 1")
    is_ignored = t.emit(f"icmp eq i64 {label}, {ignored}")
    is_class = t.emit(f"icmp ult i64 {label}, {n}")  # negative ones are huge
    return label, t.emit(f"select i1 {is_ignored}, i1 false, i1 {is_class}"), is_ignored


def _powers(k: RowText, use: Callable[[str, str | None, str], str]) -> tuple[str, str]:
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


def _softmax_gradient(k: RowText) -> None:
    """g, y, out: number · y (g - Σ g y), over the first elements of each row; 0 behind them."""
    t, stop = k.t, _reach(k)
    (along,) = k.fold(stop, ("sum", lambda v, m: t.mul(k.load(0, v, m), k.load(1, v, m))))

    def share(v: str, mask: str | None) -> str:
        y = t.mul(k.load(1, v, mask), k.number)
        return k.store(2, t.mul(y, t.sub(k.load(0, v, mask), along)), v, mask)

    k.each(share, stop)
    k.each(lambda v, mask: k.store(2, t.number(0.0), v, mask), k.integers[0], stop)


def _reach(k: RowText) -> str:
    """Return how many elements of a row count: one more with each row of a matrix, n at most."""
    n, rows, first = k.integers
    row = k.t.emit(f"urem i64 {k.row}, {rows}")
    return k.t.least(n, k.t.plus(row, first))


def _standardized(k: RowText, x: int) -> tuple[Each, str]:
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


def _layer_norm(k: RowText) -> None:
    """x, weight, bias, out: each row standardized, scaled and shifted; number is epsilon."""
    t = k.t
    y, _ = _standardized(k, 0)

    def result(v: str, mask: str | None) -> str:
        scaled = t.mul(y(v, mask), k.load(1, v, mask, True))
        return k.store(3, t.add(scaled, k.load(2, v, mask, True)), v, mask)

    k.each(result, k.integers[0])


def _layer_norm_gradient(k: RowText) -> None:
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


def _adam(k: RowText) -> None:
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


_KERNELS: dict[str, tuple[int, Callable[[RowText], None]]] = {
    "softmax": (2, _softmax),
    "softmax_gradient": (3, _softmax_gradient),
    "class_loss": (4, _class_loss),
    "class_gradient": (4, _class_gradient),
    "log_softmax": (2, _log_softmax),
    "log_softmax_gradient": (3, _log_softmax_gradient),
    "layer_norm": (4, _layer_norm),
    "layer_norm_gradient": (6, _layer_norm_gradient),
    "adam": (5, _adam),
    "add_rows": (3, add_rows),
    "gather": (4, gather),
    "scatter_add": (4, scatter_add),
}


def module(name: str, dtype: str) -> str:
    """Return the LLVM module of a kernel, one of `_KERNELS`."""
    count, body = _KERNELS[name]
    k = RowText(dtype, count)
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
    name: str, arrays: Sequence[_Array], number: float, rows: int = 1, first: int | None = None,
    n: int = 0,
) -> None:  # fmt: skip
    """Run a kernel on contiguous arrays of one dtype; the last ones are written.

    Args:
        name: one of `_KERNELS`, whose docstrings say what the arrays and the number are.
        rows, first: of a causal softmax, the rows of a matrix, and how many elements count in its
            first row; all of them unless given. Of layer norm's gradient, the rows a sum is over.
        n: elements of a row, those of the first array's last axis unless given.
    """
    leading = arrays[0]
    n, size = n or leading.shape[-1], leading.size
    if name == "adam":
        n, first = min(n, PIECE), n
    function, pack = _function(name, leading.dtype)
    reach = n if first is None else first
    table = pack(n, rows, reach, *map(id, arrays), number)  # see `kernels.places_of`
    grain = rows if name == "layer_norm_gradient" else -(-pool.GRAIN // n)
    if name == "add_rows":  # the work is in the values, not in what they are added to
        grain = max(1, size * pool.GRAIN // (rows * n * n))
    pool.share(function.call, -(-size // n), grain, table)
