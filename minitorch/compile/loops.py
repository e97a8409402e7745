"""The loops around a program: rows of elements, vectors along a row, a short last vector.

    void kernel(i64 lo, i64 hi, ptr table)

computes the elements lo to hi of the result, counted in rows, so that threads can share the work;
of a reduction it computes the rows lo to hi. The table holds, as 64-bit integers, the length of a
row; the sizes of the outer axes; for each input and the result its strides in bytes, outer axes
first; then for each of them where its address is written. Along a row an operand is of one kind,
which is part of the kernel:

    c  contiguous: a vector load          b  one element for the whole row: loaded once
    s  anything else: its elements are gathered one by one

What is left of a row after its whole vectors is computed as one more, of which only the lanes
inside are loaded and stored; that is code of its own, so that the loop over whole vectors is short.
Lanes outside hold zeros: with denormals a processor would compute a hundred times slower. Booleans,
which are bytes, go through a buffer on the stack instead.

May import: text, rows, program, folds, operands.
"""

from __future__ import annotations

from . import operands, rows
from .folds import IDENTITY, across, first_lanes, fold, only_inside
from .operands import Emission, Layout
from .program import Program
from .text import Text


def kernel(program: Program, layout: Layout) -> str:
    """Return the LLVM module of a program for a layout, its function called `kernel`."""
    nest = Emission(program, layout)
    t = nest.t
    _head(nest)
    _row_begin(nest)
    if program.reduction:
        _reduce_row(nest)
    else:
        _map_row(nest)
    _row_end(nest)
    body = "\n".join(t.lines)
    memcpy = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    declared = "\n".join([*sorted({*t.declared, memcpy}), *t.defined.values()])
    head = "define void @kernel(i64 %lo, i64 %hi, ptr %table)"
    return f"{declared}\n\n{head} {{\n{body}\n}}\n\n!0 = !{{i32 1}}\n"


def _head(nest: Emission) -> None:
    """Read the table, and find the first row."""
    t, layout = nest.t, nest.layout
    t.label("entry")
    for k in filter(nest.through_buffer, range(len(layout.kinds))):
        kind = t.of(nest.element(k))
        t.do(f"%scratch{k} = alloca {kind}, align 64")
        t.do(f"store {kind} zeroinitializer, ptr %scratch{k}, align 64")
    place = 0

    def load(name: str, kind: str = "i64") -> None:
        nonlocal place
        t.do(f"%at.{name} = getelementptr i64, ptr %table, i64 {place}")
        t.do(f"%{name} = load {kind}, ptr %at.{name}, align 8")
        place += 1

    load("n")
    for d in range(layout.outer):
        load(f"size{d}")
    for k in range(len(layout.kinds)):
        for d in range(layout.outer + 1):
            load(f"stride{k}.{d}")
    for k in range(len(layout.kinds)):
        load(f"object{k}", "ptr")
        t.do(f"%base{k} = load ptr, ptr %object{k}, align 8")
    if nest.program.reduction:
        t.do("%row0 = add i64 %lo, 0")
        t.do("%column0 = add i64 0, 0")
    else:
        t.do("%row0 = sdiv i64 %lo, %n")
        t.do("%column0 = srem i64 %lo, %n")
    t.do("%any = icmp slt i64 %lo, %hi")
    t.do("br i1 %any, label %row, label %done")


def _row_begin(nest: Emission) -> None:
    """Find where the operands' rows begin, and how many elements of this row are wanted."""
    t, layout = nest.t, nest.layout
    t.label("row")
    t.do("%r = phi i64 [ %row0, %entry ], [ %r.next, %row.end ]")
    t.do("%column = phi i64 [ %column0, %entry ], [ 0, %row.end ]")
    t.do("%done.before = phi i64 [ %lo, %entry ], [ %done.after, %row.end ]")
    t.do("%left = sub i64 %hi, %done.before")
    t.do("%rest = sub i64 %n, %column")
    t.do("%short = icmp slt i64 %left, %rest")
    if nest.program.reduction:
        t.do("%count = add i64 %n, 0")
    else:
        t.do("%count = select i1 %short, i64 %left, i64 %rest")
    index = _indices(t, layout.outer)
    for k in range(len(layout.kinds)):
        at = f"%base{k}"
        for d, i in enumerate(index):
            step = t.emit(f"mul i64 {i}, %stride{k}.{d}")
            at = t.emit(f"getelementptr i8, ptr {at}, i64 {step}")
        step = t.emit(f"mul i64 %column, %stride{k}.{layout.outer}")
        t.do(f"%start{k} = getelementptr i8, ptr {at}, i64 {step}")
    for k, kind in enumerate(layout.kinds[:-1]):
        if kind == "b":
            operands.splat(nest, k)


def _indices(t: Text, outer: int) -> list[str]:
    """Return the index along each outer axis of row %r."""
    found: list[str] = []
    rest = "%r"
    for d in reversed(range(outer)):
        if d == 0:
            found.append(rest)
        else:
            found.append(t.emit(f"srem i64 {rest}, %size{d}"))
            rest = t.emit(f"sdiv i64 {rest}, %size{d}")
    return found[::-1]


def _vectors(nest: Emission, phi: str = "") -> None:
    """Begin the loop over the whole vectors of a row; `phi` is what it carries along."""
    t, layout = nest.t, nest.layout
    t.do(f"%whole = and i64 %count, {-t.width}")
    t.do("%some = icmp sgt i64 %whole, 0")
    t.do("br i1 %some, label %vector, label %after")
    t.label("vector")
    t.do("%i = phi i64 [ 0, %row ], [ %i.next, %vector ]")
    if phi:
        t.do(phi)
    for k, kind in enumerate(layout.kinds):
        if kind == "c":
            operands.place(nest, k, "here", "%i")
    operands.ask_ahead(nest)


def _vectors_end(nest: Emission) -> None:
    t = nest.t
    t.do(f"%i.next = add i64 %i, {t.width}")
    t.do("%more = icmp slt i64 %i.next, %whole")
    t.do("br i1 %more, label %vector, label %after")


def _rest(nest: Emission, phi: str = "") -> None:
    """Begin what is left of a row: find which lanes are inside, and where its elements are."""
    t, layout = nest.t, nest.layout
    t.label("after")
    if phi:
        t.do(phi)
    t.do("%remain = sub i64 %count, %whole")
    t.do("%ragged = icmp sgt i64 %remain, 0")
    t.do("br i1 %ragged, label %tail, label %row.end")
    t.label("tail")
    first_lanes(t, "%inside", "%remain")
    for k, kind in enumerate(layout.kinds):
        if kind == "c":
            operands.place(nest, k, "last", "%whole")
    for k in filter(nest.through_buffer, range(len(layout.kinds) - 1)):
        operands.copied(nest, f"%scratch{k}", f"%last{k}")


def _map_row(nest: Emission) -> None:
    """Compute a row vector by vector and store it. The result is contiguous along the row."""
    t, out = nest.t, len(nest.layout.kinds) - 1
    _vectors(nest)
    value = rows.write(t, nest.program, operands.inputs(nest, whole=True))
    how = "align 64, !nontemporal !0" if nest.layout.past_caches else "align 1"
    operands.store(nest, value, f"%here{out}", how)
    _vectors_end(nest)
    _rest(nest)
    value = rows.write(t, nest.program, operands.inputs(nest, whole=False))
    operands.store_rest(nest, value)
    t.do("br label %row.end")


def _row_end(nest: Emission) -> None:
    t = nest.t
    if not nest.program.reduction:
        t.label("row.end")
    t.do("%r.next = add i64 %r, 1")
    by = "1" if nest.program.reduction else "%count"
    t.do(f"%done.after = add i64 %done.before, {by}")
    t.do("%again = icmp slt i64 %done.after, %hi")
    t.do("br i1 %again, label %row, label %done")
    t.label("done")
    if nest.layout.past_caches:
        t.do("fence seq_cst")  # other threads see them in order again
    t.do("ret void")


def _reduce_row(nest: Emission) -> None:
    """Fold a row into one vector, the vector into one element, and store that.

    Sums are kept in double, so that they are as exact as NumPy's pairwise ones.
    """
    t, out, reduction = nest.t, len(nest.layout.kinds) - 1, nest.program.reduction
    keep = nest.wide if reduction == "sum" else t
    start = keep.number(IDENTITY[reduction])
    _vectors(nest, f"%total = phi {keep.vector} [ {start}, %row ], [ %total.next, %vector ]")
    value = rows.write(t, nest.program, operands.inputs(nest, whole=True))
    t.do(f"%total.next = {_folded(nest, keep, '%total', value)}")
    _vectors_end(nest)
    _rest(nest, f"%so.far = phi {keep.vector} [ {start}, %row ], [ %total.next, %vector ]")
    value = rows.write(t, nest.program, operands.inputs(nest, whole=False))
    value = only_inside(t, reduction, value)
    t.do(f"%total.last = {_folded(nest, keep, '%so.far', value)}")
    t.do("br label %row.end")
    t.label("row.end")
    t.do(f"%row.total = phi {keep.vector} [ %so.far, %after ], [ %total.last, %tail ]")
    one = across(keep, reduction, "%row.total")
    if keep is not t and t.single:
        one = t.emit(f"fptrunc double {one} to float")
    t.do(f"store {t.scalar} {one}, ptr %start{out}, align 1")


def _folded(nest: Emission, keep: Text, total: str, value: str) -> str:
    """Fold a vector into the total; return the instruction that gives the new total."""
    t = nest.t
    if keep is not t and t.single:
        value = t.emit(f"fpext {t.vector} {value} to {keep.vector}")
    folded = fold(keep, nest.program.reduction, total, value)
    return f"bitcast {keep.vector} {folded} to {keep.vector}"  # the same under the caller's name
