"""The gradient of softmax cross-entropy with class numbers, row by row in one kernel.

    out[r, c] = g[r] (softmax(x[r])[c] - [c is labels[r]])

NumPy needs a dozen calls for it, of which a small network's training step would mostly consist. A
row stays in registers from its logits to its gradient, so a kernel is made for a number of vectors
a row; the last one is read and written under a mask.

    void kernel(i64 lo, i64 hi, ptr table)    rows lo to hi; the table: classes, where the addresses
                                              of g, labels, x and out are written, g's stride

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


def class_gradient(g_N: _Array, labels_N: _Array, logits_NC: _Array) -> _Array | None:
    """Return g (softmax(logits) - one_hot(labels)); None where this kernel does not fit.

    A label that is no class changes nothing in its row, as a row of zeros for it would not.

    Args:
        g_N: of the logits' dtype; its stride may be 0.
        labels_N: integers.
        logits_NC: float32 or float64, in rows.
    """
    rows = logits_NC.shape[:1]
    if logits_NC.ndim != 2 or not rows == labels_N.shape == g_N.shape:
        return None
    function = _function(g_N.dtype, labels_N.dtype, logits_NC.dtype, logits_NC.shape[1])
    if function is None or not (logits_NC.flags.c_contiguous and labels_N.flags.c_contiguous):
        return None
    out = np.empty(logits_NC.shape, logits_NC.dtype)
    held, places = kernels.places_of((g_N, labels_N, logits_NC, out))
    function.call(0, rows[0], _PACK(logits_NC.shape[1], *places, g_N.strides[0]))
    del held  # until here
    return out


@functools.cache
def _function(g: Any, labels: Any, logits: Any, classes: int) -> Function | None:
    """Return the kernel for arrays of these dtypes and so many classes; None if there is none."""
    name = logits.name
    width = LANES.get(name, 0)
    if not (available() and g == logits and labels.name in LABELS and 0 < classes <= MOST * width):
        return None
    return _compiled(name, LABELS[labels.name], -(-classes // width))


@functools.cache
def _compiled(dtype: str, label: str, vectors: int) -> Function:
    return Function(module(dtype, label, vectors))


def module(dtype: str, label: str, vectors: int) -> str:
    """Return the LLVM module for logits of `dtype` in rows of so many vectors.

    Args:
        label: the type of a label, "i32" or "i64".
    """
    t = Text(dtype)
    _head(t)
    lanes, masks = _lanes(t, vectors)
    _row_begin(t, label)
    _row(t, lanes, masks)
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
    wide, classes = t.of("i64"), spread(t, "i64", "%n")
    lanes = [
        "<" + ", ".join(f"i64 {v * t.width + i}" for i in range(t.width)) + ">"
        for v in range(vectors)
    ]
    return lanes, [t.emit(f"icmp slt {wide} {lane}, {classes}") for lane in lanes]


def _row_begin(t: Text, label: str) -> None:
    """Begin the loop over rows: where the row is, its g and its label."""
    t.do("%any = icmp slt i64 %lo, %hi")
    t.do("br i1 %any, label %row, label %done")
    t.label("row")
    t.do("%r = phi i64 [ %lo, %entry ], [ %r.next, %row ]")
    t.do("%first = mul i64 %r, %n")
    t.do("%g.step = mul i64 %r, %step")
    t.do("%g.at = getelementptr i8, ptr %base.g, i64 %g.step")
    t.do(f"%g = load {t.scalar}, ptr %g.at, align 1")
    t.do(f"%label.at = getelementptr {label}, ptr %base.labels, i64 %r")
    t.do(f"%label.raw = load {label}, ptr %label.at, align 1")
    t.do(
        "%label = " + ("add i64 %label.raw, 0" if label == "i64" else "sext i32 %label.raw to i64")
    )


def _row(t: Text, lanes: list[str], masks: list[str]) -> None:
    """Compute one row, and store it."""
    places = [t.emit(f"add i64 %first, {v * t.width}") for v in range(len(lanes))]
    low = t.number(-float("inf"))
    x = [_load(t, at, mask, low) for at, mask in zip(places, masks, strict=True)]
    largest = spread(t, t.scalar, across(t, "amax", _folded(t, "amax", x)))
    # past the end e^0, and not e^-inf, as arithmetic on denormals takes long
    near = [t.either(mask, a, largest) for a, mask in zip(x, masks, strict=True)]
    powers = [functions.exp(t, t.sub(a, largest)) for a in near]
    zero = t.number(0.0)
    inside = [t.either(mask, p, zero) for p, mask in zip(powers, masks, strict=True)]
    total = across(t, "sum", _folded(t, "sum", inside))
    factor = spread(t, t.scalar, t.emit(f"fdiv {t.scalar} %g, {total}"))
    g, label = spread(t, t.scalar, "%g"), spread(t, "i64", "%label")
    for at, mask, lane, power in zip(places, masks, lanes, powers, strict=True):
        hit = t.emit(f"icmp eq {t.of('i64')} {lane}, {label}")
        out = t.sub(t.mul(power, factor), t.either(hit, g, zero))
        _store(t, out, at, mask)


def _folded(t: Text, reduction: str, vectors: list[str]) -> str:
    return functools.reduce(lambda a, b: fold(t, reduction, a, b), vectors)


def _row_end(t: Text) -> None:
    t.do("%r.next = add i64 %r, 1")
    t.do("%again = icmp slt i64 %r.next, %hi")
    t.do("br i1 %again, label %row, label %done")
    t.label("done")
    t.do("ret void")


def spread(t: Text, element: str, value: str) -> str:
    """Return one value in every lane."""
    kind = t.of(element)
    one = t.emit(f"insertelement {kind} poison, {element} {value}, i32 0")
    zeros = f"<{t.width} x i32> zeroinitializer"
    return t.emit(f"shufflevector {kind} {one}, {kind} poison, {zeros}")


def _load(t: Text, place: str, mask: str, otherwise: str) -> str:
    at = t.emit(f"getelementptr {t.scalar}, ptr %base.x, i64 {place}")
    name = f"llvm.masked.load.v{t.width}{'f32' if t.single else 'f64'}.p0"
    t.declared.add(f"declare {t.vector} @{name}(ptr, i32, {t.mask}, {t.vector})")
    given = f"ptr {at}, i32 1, {t.mask} {mask}, {t.vector} {otherwise}"
    return t.emit(f"call {t.vector} @{name}({given})")


def _store(t: Text, value: str, place: str, mask: str) -> None:
    at = t.emit(f"getelementptr {t.scalar}, ptr %base.out, i64 {place}")
    name = f"llvm.masked.store.v{t.width}{'f32' if t.single else 'f64'}.p0"
    t.declared.add(f"declare void @{name}({t.vector}, ptr, i32, {t.mask})")
    t.do(f"call void @{name}({t.vector} {value}, ptr {at}, i32 1, {t.mask} {mask})")
