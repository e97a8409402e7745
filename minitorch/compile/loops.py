"""The loops around a program: rows of elements, vectors along a row, a short last vector.

    void kernel(i64 lo, i64 hi, ptr table)

computes the elements lo to hi of the result, counted in rows, so that threads can share the work;
of a reduction it computes the rows lo to hi. The table holds, as 64-bit integers, the length of a
row; the sizes of the outer axes; then for each input and the result its address and its strides in
bytes, outer axes first. Along a row an operand is of one kind, which is part of the kernel:

    c  contiguous: a vector load          b  one element for the whole row: loaded once
    s  anything else: its elements are gathered one by one

The last, short vector of a row is copied to a buffer on the stack and computed whole.

May import: text, rows, program, folds.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import rows
from .folds import IDENTITY, across, fold, only_inside
from .program import Program
from .text import Text

AHEAD = 512
"""Bytes, eight cache lines: on arrays larger than the caches 12 % faster than not to ask, where 256
and 768 bytes brought 6 % and nothing."""


@dataclass(frozen=True)
class Layout:
    """What a kernel is specialised to besides its program.

    Attributes:
        kinds: "c", "b" or "s" for each input, and last for the result.
        outer: how many axes there are above the row.
    """

    kinds: str
    outer: int


def slots(layout: Layout) -> int:
    """Return how many integers the table of a kernel has."""
    return 1 + layout.outer + len(layout.kinds) * (2 + layout.outer)


class _Nest:
    """The state of one kernel's emission: its text, and where everything is."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self.program, self.layout = program, layout
        self.t = Text(program.dtype)
        self.result = rows.gives(program.steps[-1].row)
        self.types = [*program.inputs, "float" if program.reduction else self.result]
        self.wide = Text("float64", self.t.width, prefix="w")
        self.wide.lines, self.wide.declared = self.t.lines, self.t.declared

    def element(self, k: int) -> str:
        """Return the type in memory of operand k; booleans are bytes."""
        return "i8" if self.types[k] == "bool" else self.t.scalar

    def n_bytes(self, k: int) -> int:
        """Return the size of an element of operand k."""
        return 1 if self.types[k] == "bool" else (4 if self.t.single else 8)


def kernel(program: Program, layout: Layout) -> str:
    """Return the LLVM module of a program for a layout, its function called `kernel`."""
    nest = _Nest(program, layout)
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
    declared = "\n".join(sorted({*t.declared, memcpy}))
    return f"{declared}\n\ndefine void @kernel(i64 %lo, i64 %hi, ptr %table) {{\n{body}\n}}\n"


def _head(nest: _Nest) -> None:
    """Read the table, and find the first row."""
    t, layout = nest.t, nest.layout
    t.label("entry")
    for k in range(len(layout.kinds)):
        t.do(f"%scratch{k} = alloca {t.of(nest.element(k))}, align 64")
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
        load(f"base{k}", "ptr")
        for d in range(layout.outer + 1):
            load(f"stride{k}.{d}")
    if nest.program.reduction:
        t.do("%row0 = add i64 %lo, 0")
        t.do("%column0 = add i64 0, 0")
    else:
        t.do("%row0 = sdiv i64 %lo, %n")
        t.do("%column0 = srem i64 %lo, %n")
    t.do("%any = icmp slt i64 %lo, %hi")
    t.do("br i1 %any, label %row, label %done")


def _row_begin(nest: _Nest) -> None:
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
            _splat(nest, k)


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


def _splat(nest: _Nest, k: int) -> None:
    """Load the one element that operand k has in this row, into every lane."""
    t, element = nest.t, nest.element(k)
    one = t.emit(f"load {element}, ptr %start{k}, align {nest.n_bytes(k)}")
    kind = t.of(element)
    first = t.emit(f"insertelement {kind} poison, {element} {one}, i32 0")
    zeros = f"<{t.width} x i32> zeroinitializer"
    name = f"%all{k}" if nest.types[k] == "float" else f"%bytes{k}"
    t.do(f"{name} = shufflevector {kind} {first}, {kind} poison, {zeros}")
    if nest.types[k] == "bool":
        t.do(f"%all{k} = icmp ne {kind} %bytes{k}, zeroinitializer")


def _vector_begin(nest: _Nest, entry_phis: str = "") -> None:
    """Begin the loop over the vectors of a row; a short last one is copied to the stack first."""
    t, layout = nest.t, nest.layout
    t.do("%none = icmp sle i64 %count, 0")
    t.do("br i1 %none, label %row.end, label %vector")
    t.label("vector")
    t.do("%i = phi i64 [ 0, %row ], [ %i.next, %vector.end ]")
    if entry_phis:
        t.do(entry_phis)
    t.do("%remain = sub i64 %count, %i")
    t.do(f"%full = icmp sge i64 %remain, {t.width}")
    for k, kind in enumerate(layout.kinds):
        if kind == "c":
            t.do(f"%step{k} = mul i64 %i, {nest.n_bytes(k)}")
            t.do(f"%here{k} = getelementptr i8, ptr %start{k}, i64 %step{k}")
    _ask_ahead(nest)
    t.do("br i1 %full, label %compute, label %tail")
    t.label("tail")
    for k, kind in enumerate(layout.kinds[:-1]):
        if kind == "c":
            t.do(f"%length{k} = mul i64 %remain, {nest.n_bytes(k)}")
            t.do(
                f"call void @llvm.memcpy.p0.p0.i64(ptr %scratch{k}, ptr %here{k}, "
                f"i64 %length{k}, i1 false)"
            )
    t.do("br label %compute")
    t.label("compute")
    for k, kind in enumerate(layout.kinds):
        if kind == "c":
            t.do(f"%p{k} = phi ptr [ %here{k}, %vector ], [ %scratch{k}, %tail ]")


def _ask_ahead(nest: _Nest) -> None:
    """Ask the memory for what the loop will read soon; past the end of an array that is harmless.

    The processor does so itself, but stops at the end of every page.
    """
    t = nest.t
    t.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for k, kind in enumerate(nest.layout.kinds[:-1]):
        if kind == "c":
            soon = t.emit(f"getelementptr i8, ptr %here{k}, i64 {AHEAD}")
            t.do(f"call void @llvm.prefetch.p0(ptr {soon}, i32 0, i32 3, i32 1)")


def _inputs(nest: _Nest) -> list[str]:
    """Load the vectors of all inputs; return their names."""
    found = []
    for k, kind in enumerate(nest.layout.kinds[:-1]):
        if kind == "b":
            found.append(f"%all{k}")
            continue
        if kind == "s":
            _gather(nest, k)
        source = f"%p{k}" if kind == "c" else f"%scratch{k}"
        found.append(_loaded(nest, k, source))
    return found


def _loaded(nest: _Nest, k: int, source: str) -> str:
    t = nest.t
    kind = t.of(nest.element(k))
    value = t.emit(f"load {kind}, ptr {source}, align {nest.n_bytes(k)}")
    if nest.types[k] == "bool":
        value = t.emit(f"icmp ne {kind} {value}, zeroinitializer")
    return value


def _gather(nest: _Nest, k: int) -> None:
    """Copy the elements of a strided operand to the stack; past the end, the last one again."""
    t, element, stride = nest.t, nest.element(k), f"%stride{k}.{nest.layout.outer}"
    last = t.emit("sub i64 %remain, 1")
    for lane in range(t.width):
        inside = t.emit(f"icmp slt i64 {lane}, %remain")
        place = t.emit(f"select i1 {inside}, i64 {lane}, i64 {last}")
        step = t.emit(f"mul i64 {t.emit(f'add i64 %i, {place}')}, {stride}")
        source = t.emit(f"getelementptr i8, ptr %start{k}, i64 {step}")
        value = t.emit(f"load {element}, ptr {source}, align {nest.n_bytes(k)}")
        target = t.emit(f"getelementptr {element}, ptr %scratch{k}, i64 {lane}")
        t.do(f"store {element} {value}, ptr {target}, align {nest.n_bytes(k)}")


def _map_row(nest: _Nest) -> None:
    """Compute a row vector by vector and store it. The result is contiguous along the row."""
    t, out = nest.t, len(nest.layout.kinds) - 1
    _vector_begin(nest)
    value = rows.write(t, nest.program, _inputs(nest))
    kind = t.of(nest.element(out))
    if nest.result == "bool":
        value = t.emit(f"zext {t.mask} {value} to {kind}")
    t.do(f"store {kind} {value}, ptr %p{out}, align {nest.n_bytes(out)}")
    t.do("br i1 %full, label %vector.end, label %tail.end")
    t.label("tail.end")
    t.do(f"%stored = mul i64 %remain, {nest.n_bytes(out)}")
    t.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr %here{out}, ptr %scratch{out}, "
        "i64 %stored, i1 false)"
    )
    t.do("br label %vector.end")
    _vector_end(nest)


def _vector_end(nest: _Nest) -> None:
    t = nest.t
    t.label("vector.end")
    t.do(f"%i.next = add i64 %i, {t.width}")
    t.do("%more = icmp slt i64 %i.next, %count")
    t.do("br i1 %more, label %vector, label %row.end")


def _row_end(nest: _Nest) -> None:
    t = nest.t
    if not nest.program.reduction:
        t.label("row.end")
    t.do("%r.next = add i64 %r, 1")
    by = "1" if nest.program.reduction else "%count"
    t.do(f"%done.after = add i64 %done.before, {by}")
    t.do("%again = icmp slt i64 %done.after, %hi")
    t.do("br i1 %again, label %row, label %done")
    t.label("done")
    t.do("ret void")


def _reduce_row(nest: _Nest) -> None:
    """Fold a row into one vector, the vector into one element, and store that.

    Sums are kept in double, so that they are as exact as NumPy's pairwise ones.
    """
    t, out = nest.t, len(nest.layout.kinds) - 1
    keep = nest.wide if nest.program.reduction == "sum" else t
    start = keep.number(IDENTITY[nest.program.reduction])
    _vector_begin(
        nest, f"%total = phi {keep.vector} [ {start}, %row ], [ %total.next, %vector.end ]"
    )
    value = rows.write(t, nest.program, _inputs(nest))
    value = only_inside(t, nest.program.reduction, value)
    if keep is not t and t.single:
        value = t.emit(f"fpext {t.vector} {value} to {keep.vector}")
    folded = fold(keep, nest.program.reduction, "%total", value)
    t.do("br label %vector.end")
    t.label("vector.end")
    t.do(f"%total.next = phi {keep.vector} [ {folded}, %compute ]")
    t.do(f"%i.next = add i64 %i, {t.width}")
    t.do("%more = icmp slt i64 %i.next, %count")
    t.do("br i1 %more, label %vector, label %row.end")
    t.label("row.end")
    t.do(f"%row.total = phi {keep.vector} [ {start}, %row ], [ %total.next, %vector.end ]")
    one = across(keep, nest.program.reduction, "%row.total")
    if keep is not t and t.single:
        one = t.emit(f"fptrunc double {one} to float")
    t.do(f"store {t.scalar} {one}, ptr %start{out}, align {nest.n_bytes(out)}")
