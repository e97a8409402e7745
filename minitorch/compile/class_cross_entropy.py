"""Softmax cross-entropy with class numbers, and its gradient, row by row in a kernel each.

    loss[r]   = log sum_c exp(x[r, c]) - x[r, labels[r]]
    out[r, c] = g[r] (softmax(x[r])[c] - [c is labels[r]])

NumPy needs a dozen calls for either, of which a small network's training step would mostly
consist. A row stays in registers from its logits to its gradient, so a kernel is made for a number
of vectors a row; the last one is read and written under a mask.

    void kernel(i64 lo, i64 hi, ptr table)    rows lo to hi; the table: classes, where the addresses
                                              of g, labels, x and out are written, g's stride

For the loss g is an integer in memory, to which the rows are added whose label is no class.

May import: text, rows, functions, engine, kernels.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from . import functions, kernels
from .engine import Function, available
from .rows import across, fold
from .text import KERNEL, LANES, Text

MOST = 8  # vectors a row: more would not stay in registers, and long rows NumPy does as fast
_PACK = struct.Struct("6q").pack
_Array = np.ndarray[Any, Any]


def class_loss(labels_N: _Array, logits_NC: _Array) -> _Array | None:
    """Return each row's loss; None where this kernel does not fit, or a label is no class.

    Args:
        labels_N: integers.
        logits_NC: float32 or float64, in rows.
    """
    wrong = np.zeros(1, np.int64)
    out = np.empty(logits_NC.shape[:1], logits_NC.dtype)
    if not _ran("loss", logits_NC.dtype, wrong, labels_N, logits_NC, out) or wrong[0]:
        return None
    return out


def class_gradient(g_N: _Array, labels_N: _Array, logits_NC: _Array) -> _Array | None:
    """Return g (softmax(logits) - one_hot(labels)); None where this kernel does not fit.

    A label that is no class changes nothing in its row, as a row of zeros for it would not.

    Args:
        g_N: of the logits' dtype; its stride may be 0.
        labels_N: integers.
        logits_NC: float32 or float64, in rows.
    """
    if g_N.shape != logits_NC.shape[:1]:
        return None
    out = np.empty(logits_NC.shape, logits_NC.dtype)
    return out if _ran("gradient", g_N.dtype, g_N, labels_N, logits_NC, out) else None


def _ran(what: str, of: object, g: _Array, labels: _Array, x: _Array, out: _Array) -> bool:
    """Run a kernel over all rows, where there is one for such arrays; tell whether there was."""
    if x.ndim != 2 or labels.shape != x.shape[:1]:
        return False
    function = _function(what, of, labels.dtype, x.dtype, x.shape[1])
    if function is None or not (x.flags.c_contiguous and labels.flags.c_contiguous):
        return False
    labels = labels.astype(np.int64, copy=False)
    places = kernels.places_of((g, labels, x, out))
    function.call(0, x.shape[0], _PACK(x.shape[1], *places, g.strides[0]))
    return True


@functools.cache
def _function(what: str, g: Any, labels: Any, logits: Any, classes: int) -> Function | None:
    """Return the kernel for arrays of these dtypes and so many classes; None if there is none."""
    width = LANES.get(logits.name, 0)
    if not (available() and g == logits and labels.kind in "iu" and 0 < classes <= MOST * width):
        return None
    return Function(module(what, logits.name, -(-classes // width)))


def module(what: str, dtype: str, vectors: int) -> str:
    """Return the LLVM module for logits of `dtype` in rows of so many vectors.

    Args:
        what: "loss" or "gradient".
    """
    t = Text(dtype)
    places = [t.at("%table", 8 * i) for i in range(6)]
    n, step = (t.emit(f"load i64, ptr {places[i]}, align 8") for i in (0, 5))
    bases = [t.emit(f"load ptr, ptr {t.emit(f'load ptr, ptr {at}')}") for at in places[1:5]]
    classes = t.spread("i64", n)
    lanes = [t.counted(v * t.width) for v in range(vectors)]
    masks = [t.emit(f"icmp slt {t.of('i64')} {lane}, {classes}") for lane in lanes]
    with t.loop("r", "%hi", start="%lo") as r:
        row = _Row(t, r, t.times(r, n), bases, masks)
        chosen = t.emit(f"load i64, ptr {t.at(row.labels, r, 'i64')}, align 1")
        if what == "loss":
            row.loss(chosen, t.emit(f"icmp ult i64 {chosen}, {n}"))  # negative ones are huge
        else:
            row.gradient(chosen, lanes, t.at(row.g, t.times(r, step)))
    t.do("ret void")
    return t.module(KERNEL)


class _Row:
    """The code of one row: what its softmax is made of, and one of two results.

    Attributes:
        places: where its vectors begin in x and in the result.
        largest: its largest number, in every lane.
        powers: e^(x - largest), a vector each.
        total: their sum.
    """

    def __init__(self, t: Text, r: str, first: str, bases: list[str], masks: list[str]) -> None:
        self.t, self.r, self.first, self.masks = t, r, first, masks
        self.g, self.labels, self.x, self.out = bases
        self.places = [t.plus(first, v * t.width) for v in range(len(masks))]
        low, zero = t.number(-float("inf")), t.number(0.0)
        parts = list(zip(self.places, masks, strict=True))
        x = [t.load(t.at(self.x, place, t.scalar), mask, low) for place, mask in parts]
        self.largest = t.spread(t.scalar, self._across("amax", x))
        # past the end e^0, and not e^-inf, as arithmetic on denormals takes long
        near = [t.either(mask, a, self.largest) for a, mask in zip(x, masks, strict=True)]
        self.powers = [functions.exp(t, t.sub(a, self.largest)) for a in near]
        inside = [t.either(mask, p, zero) for p, mask in zip(self.powers, masks, strict=True)]
        self.total = self._across("sum", inside)

    def _across(self, reduction: str, vectors: list[str]) -> str:
        one = functools.reduce(lambda a, b: fold(self.t, reduction, a, b), vectors)
        return across(self.t, reduction, one)

    def loss(self, label: str, is_class: str) -> None:
        """Store log(total) - (x at the label - largest); count the row if its label is no class."""
        t = self.t
        place = t.plus(self.first, t.emit(f"select i1 {is_class}, i64 {label}, i64 0"))
        one = t.emit(f"load {t.scalar}, ptr {t.at(self.x, place, t.scalar)}, align 1")
        logs = functions.log(t, t.spread(t.scalar, self.total))
        loss = t.sub(logs, t.sub(t.spread(t.scalar, one), self.largest))
        first = t.emit(f"extractelement {t.vector} {loss}, i32 0")
        t.do(f"store {t.scalar} {first}, ptr {t.at(self.out, self.r, t.scalar)}, align 1")
        wrong = t.emit(f"zext i1 {t.emit(f'xor i1 {is_class}, true')} to i64")
        count = t.plus(t.emit(f"load i64, ptr {self.g}, align 8"), wrong)
        t.do(f"store i64 {count}, ptr {self.g}, align 8")

    def gradient(self, label: str, lanes: list[str], g_at: str) -> None:
        """Store g (power / total - [the lane is the label's])."""
        t = self.t
        one = t.emit(f"load {t.scalar}, ptr {g_at}, align 1")
        factor = t.spread(t.scalar, t.emit(f"fdiv {t.scalar} {one}, {self.total}"))
        g, label, zero = t.spread(t.scalar, one), t.spread("i64", label), t.number(0.0)
        for place, mask, lane, power in zip(
            self.places, self.masks, lanes, self.powers, strict=True
        ):
            hit = t.emit(f"icmp eq {t.of('i64')} {lane}, {label}")
            out = t.sub(t.mul(power, factor), t.either(hit, g, zero))
            t.store(out, t.at(self.out, place, t.scalar), mask)
