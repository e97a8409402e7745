"""Softmax cross-entropy with class numbers, and its gradient, row by row in a kernel each.

    loss[r]   = log sum_c exp(x[r, c]) - x[r, labels[r]]
    out[r, c] = g[r] (softmax(x[r])[c] - [c is labels[r]])

NumPy needs a dozen calls for either, of which a small network's training step would mostly
consist. A row stays in registers from its logits to its gradient, so a kernel is made for a number
of vectors a row; the last one is read and written under a mask.

    void kernel(i64 lo, i64 hi, ptr table)    rows lo to hi; the table: classes, where the addresses
                                              of g, labels, x and out are written, g's stride

For the loss g is an integer in memory, to which the rows are added whose label is no class.

May import: text, folds, functions, engine, kernels.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np

from . import functions, kernels
from .engine import Function, available
from .folds import across, fold
from .text import LANES, Text

LABELS = {"int32": "i32", "int64": "i64"}
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
    held, places = kernels.places_of((g, labels, x, out))
    function.call(0, x.shape[0], _PACK(x.shape[1], *places, g.strides[0]))
    del held  # until here
    return True


@functools.cache
def _function(what: str, g: Any, labels: Any, logits: Any, classes: int) -> Function | None:
    """Return the kernel for arrays of these dtypes and so many classes; None if there is none."""
    name = logits.name
    width = LANES.get(name, 0)
    if not (available() and g == logits and labels.name in LABELS and 0 < classes <= MOST * width):
        return None
    return _compiled(what, name, LABELS[labels.name], -(-classes // width))


@functools.cache
def _compiled(what: str, dtype: str, label: str, vectors: int) -> Function:
    return Function(module(what, dtype, label, vectors))


def module(what: str, dtype: str, label: str, vectors: int) -> str:
    """Return the LLVM module for logits of `dtype` in rows of so many vectors.

    Args:
        what: "loss" or "gradient".
        label: the type of a label, "i32" or "i64".
    """
    t = Text(dtype)
    _head(t)
    lanes, masks = _lanes(t, vectors)
    _row_begin(t, label)
    places = [t.emit(f"add i64 %first, {v * t.width}") for v in range(vectors)]
    largest, powers, total = _softmax(t, places, masks)
    if what == "loss":
        _loss(t, largest, total)
    else:
        _gradient(t, places, lanes, masks, powers, total)
    _row_end(t)
    body, head = "\n".join(t.lines), "\n".join(sorted(t.declared))
    return f"{head}\n\ndefine void @kernel(i64 %lo, i64 %hi, ptr %table) {{\n{body}\n}}\n"


def _head(t: Text) -> None:
    """Read the table."""
    t.label("entry")
    for i, name in enumerate(("n", "g", "labels", "x", "out", "step")):
        t.do(f"%at.{name} = getelementptr i64, ptr %table, i64 {i}")
        if name in ("n", "step"):
            t.do(f"%{name} = load i64, ptr %at.{name}, align 8")
        else:
            t.do(f"%of.{name} = load ptr, ptr %at.{name}, align 8")
            t.do(f"%base.{name} = load ptr, ptr %of.{name}, align 8")


def _lanes(t: Text, vectors: int) -> tuple[list[str], list[str]]:
    """Return for each vector of a row the classes in its lanes, and the mask of those there are."""
    wide, classes = t.of("i64"), t.spread("i64", "%n")
    lanes = [
        "<" + ", ".join(f"i64 {v * t.width + i}" for i in range(t.width)) + ">"
        for v in range(vectors)
    ]
    return lanes, [t.emit(f"icmp slt {wide} {lane}, {classes}") for lane in lanes]


def _row_begin(t: Text, label: str) -> None:
    """Begin the loop over rows: where the row is, and its label."""
    t.do("%any = icmp slt i64 %lo, %hi")
    t.do("br i1 %any, label %row, label %done")
    t.label("row")
    t.do("%r = phi i64 [ %lo, %entry ], [ %r.next, %row ]")
    t.do("%first = mul i64 %r, %n")
    t.do(f"%label.at = getelementptr {label}, ptr %base.labels, i64 %r")
    t.do(f"%label.raw = load {label}, ptr %label.at, align 1")
    t.do(
        "%label = " + ("add i64 %label.raw, 0" if label == "i64" else "sext i32 %label.raw to i64")
    )


def _softmax(t: Text, places: list[str], masks: list[str]) -> tuple[str, list[str], str]:
    """Load one row; return its largest number, in every lane, e^(x - largest), and their sum."""
    low, zero = t.number(-float("inf")), t.number(0.0)
    x = [_load(t, at, mask, low) for at, mask in zip(places, masks, strict=True)]
    largest = t.spread(t.scalar, across(t, "amax", _folded(t, "amax", x)))
    # past the end e^0, and not e^-inf, as arithmetic on denormals takes long
    near = [t.either(mask, a, largest) for a, mask in zip(x, masks, strict=True)]
    powers = [functions.exp(t, t.sub(a, largest)) for a in near]
    inside = [t.either(mask, p, zero) for p, mask in zip(powers, masks, strict=True)]
    return largest, powers, across(t, "sum", _folded(t, "sum", inside))


def _loss(t: Text, largest: str, total: str) -> None:
    """Store log(total) - (x at the label - largest), and count the row if its label is no class."""
    t.do("%is.class = icmp ult i64 %label, %n")  # a negative one is huge without its sign
    place = t.emit("add i64 %first, " + t.emit("select i1 %is.class, i64 %label, i64 0"))
    at = t.emit(f"getelementptr {t.scalar}, ptr %base.x, i64 {place}")
    chosen = t.spread(t.scalar, t.emit(f"load {t.scalar}, ptr {at}, align 1"))
    loss = t.sub(functions.log(t, t.spread(t.scalar, total)), t.sub(chosen, largest))
    to = t.emit(f"getelementptr {t.scalar}, ptr %base.out, i64 %r")
    t.do(
        f"store {t.scalar} {t.emit(f'extractelement {t.vector} {loss}, i32 0')}, ptr {to}, align 1"
    )
    wrong = t.emit(f"zext i1 {t.emit('xor i1 %is.class, true')} to i64")
    t.do(f"%wrong = add i64 {t.emit('load i64, ptr %base.g, align 8')}, {wrong}")
    t.do("store i64 %wrong, ptr %base.g, align 8")


def _gradient(
    t: Text, places: list[str], lanes: list[str], masks: list[str], powers: list[str], total: str
) -> None:
    """Store g (power / total - [the lane is the label's])."""
    step = t.emit("mul i64 %r, %step")
    at = t.emit(f"getelementptr i8, ptr %base.g, i64 {step}")
    one = t.emit(f"load {t.scalar}, ptr {at}, align 1")
    factor = t.spread(t.scalar, t.emit(f"fdiv {t.scalar} {one}, {total}"))
    g, label, zero = t.spread(t.scalar, one), t.spread("i64", "%label"), t.number(0.0)
    for place, mask, lane, power in zip(places, masks, lanes, powers, strict=True):
        hit = t.emit(f"icmp eq {t.of('i64')} {lane}, {label}")
        out = t.sub(t.mul(power, factor), t.either(hit, g, zero))
        _store(t, out, place, mask)


def _folded(t: Text, reduction: str, vectors: list[str]) -> str:
    return functools.reduce(lambda a, b: fold(t, reduction, a, b), vectors)


def _row_end(t: Text) -> None:
    t.do("%r.next = add i64 %r, 1")
    t.do("%again = icmp slt i64 %r.next, %hi")
    t.do("br i1 %again, label %row, label %done")
    t.label("done")
    t.do("ret void")


def _load(t: Text, place: str, mask: str, otherwise: str) -> str:
    at = t.emit(f"getelementptr {t.scalar}, ptr %base.x, i64 {place}")
    return t.load(at, mask, otherwise)


def _store(t: Text, value: str, place: str, mask: str) -> None:
    at = t.emit(f"getelementptr {t.scalar}, ptr %base.out, i64 {place}")
    t.store(value, at, mask)
