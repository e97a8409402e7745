"""Operands of a kernel: what is known of each, and how its vectors are read and written.

Along a row an operand is contiguous, one element, or strided; see `loops`.

May import: text, rows, program.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import rows
from .program import Program
from .text import Text

AHEAD = 512  # bytes, eight cache lines; on arrays larger than the caches 3 % faster than not to ask


@dataclass(frozen=True)
class Layout:
    """What a kernel is specialised to besides its program.

    Attributes:
        kinds: "c", "b" or "s" for each input, and last for the result.
        outer: how many axes there are above the row.
        past_caches: whether whole vectors of the result, which then lie at multiples of their size,
            are written to memory without being read into the caches first.
    """

    kinds: str
    outer: int
    past_caches: bool = False


class Emission:
    """The state of one kernel's emission: its text, and where everything is."""

    def __init__(self, program: Program, layout: Layout) -> None:
        self.program, self.layout = program, layout
        self.t = Text(program.dtype)
        self.result = rows.gives(program.steps[-1].row)
        self.types = [*program.inputs, "float" if program.reduction else self.result]
        self.wide = Text("float64", self.t.width, prefix="w")
        self.wide.lines, self.wide.declared = self.t.lines, self.t.declared
        self.wide.defined = self.t.defined

    def element(self, k: int) -> str:
        """Return the type in memory of operand k; booleans are bytes."""
        return "i8" if self.types[k] == "bool" else self.t.scalar

    def through_buffer(self, k: int) -> bool:
        """Tell whether the end of a row of operand k is copied: bytes, which lie in a row."""
        return self.types[k] == "bool" and self.layout.kinds[k] == "c"

    def n_bytes(self, k: int) -> int:
        """Return the size of an element of operand k."""
        return 1 if self.types[k] == "bool" else (4 if self.t.single else 8)


def splat(nest: Emission, k: int) -> None:
    """Load the one element that operand k has in this row, into every lane."""
    t, element = nest.t, nest.element(k)
    one = t.emit(f"load {element}, ptr %start{k}, align 1")
    kind = t.of(element)
    first = t.emit(f"insertelement {kind} poison, {element} {one}, i32 0")
    zeros = f"<{t.width} x i32> zeroinitializer"
    name = f"%all{k}" if nest.types[k] == "float" else f"%bytes{k}"
    t.do(f"{name} = shufflevector {kind} {first}, {kind} poison, {zeros}")
    if nest.types[k] == "bool":
        t.do(f"%all{k} = icmp ne {kind} %bytes{k}, zeroinitializer")


def place(nest: Emission, k: int, name: str, i: str) -> None:
    """Find element i of this row of operand k, which is contiguous."""
    t = nest.t
    step = t.emit(f"mul i64 {i}, {nest.n_bytes(k)}")
    t.do(f"%{name}{k} = getelementptr i8, ptr %start{k}, i64 {step}")


def copied(nest: Emission, to: str, source: str) -> None:
    """Copy what is left of a row of bytes."""
    memcpy = "call void @llvm.memcpy.p0.p0.i64"
    nest.t.do(f"{memcpy}(ptr {to}, ptr {source}, i64 %remain, i1 false)")


def ask_ahead(nest: Emission) -> None:
    """Ask the memory for what the loop will read soon; past the end of an array that is harmless.

    The processor does so itself, but stops at the end of every page.
    """
    t = nest.t
    t.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for k, kind in enumerate(nest.layout.kinds[:-1]):
        if kind == "c":
            soon = t.emit(f"getelementptr i8, ptr %here{k}, i64 {AHEAD}")
            t.do(f"call void @llvm.prefetch.p0(ptr {soon}, i32 0, i32 3, i32 1)")


def inputs(nest: Emission, whole: bool) -> list[str]:
    """Load the vectors of all inputs, of a whole vector or of what is left; return their names."""
    found = []
    for k, kind in enumerate(nest.layout.kinds[:-1]):
        if kind == "b":
            found.append(f"%all{k}")
        elif kind == "c":
            found.append(_loaded(nest, k, f"%here{k}") if whole else _loaded_rest(nest, k))
        else:
            found.append(_gathered(nest, k) if whole else _gathered_rest(nest, k))
    return found


def _loaded(nest: Emission, k: int, source: str) -> str:
    value = nest.t.emit(f"load {nest.t.of(nest.element(k))}, ptr {source}, align 1")
    return _as_value(nest, k, value)


def _loaded_rest(nest: Emission, k: int) -> str:
    """Load the lanes that are inside; zeros in the others."""
    if nest.through_buffer(k):
        return _loaded(nest, k, f"%scratch{k}")
    return nest.t.load(f"%last{k}", "%inside")


def _as_value(nest: Emission, k: int, value: str) -> str:
    """Return a vector as it was in memory as one to compute with: bytes as a mask."""
    t = nest.t
    if nest.types[k] == "bool":
        value = t.emit(f"icmp ne {t.of(nest.element(k))} {value}, zeroinitializer")
    return value


def _gathered(nest: Emission, k: int) -> str:
    """Load a whole vector of a strided operand, element by element."""
    t, element = nest.t, nest.element(k)
    value = "poison"
    for lane in range(t.width):
        one = _strided(nest, k, t.emit(f"add i64 %i, {lane}"))
        value = t.emit(f"insertelement {t.of(element)} {value}, {element} {one}, i32 {lane}")
    return _as_value(nest, k, value)


def _gathered_rest(nest: Emission, k: int) -> str:
    """Load what is left of a strided operand's row; past the end, the last element again."""
    t, element = nest.t, nest.element(k)
    last = t.emit("sub i64 %remain, 1")
    value = "poison"
    for lane in range(t.width):
        inside = t.emit(f"icmp slt i64 {lane}, %remain")
        place = t.emit(f"select i1 {inside}, i64 {lane}, i64 {last}")
        one = _strided(nest, k, t.emit(f"add i64 %whole, {place}"))
        value = t.emit(f"insertelement {t.of(element)} {value}, {element} {one}, i32 {lane}")
    return _as_value(nest, k, value)


def _strided(nest: Emission, k: int, i: str) -> str:
    """Load element i of this row of operand k."""
    t = nest.t
    step = t.emit(f"mul i64 {i}, %stride{k}.{nest.layout.outer}")
    source = t.emit(f"getelementptr i8, ptr %start{k}, i64 {step}")
    return t.emit(f"load {nest.element(k)}, ptr {source}, align 1")


def store(nest: Emission, value: str, to: str, how: str = "align 1") -> None:
    """Store a vector of the result."""
    t = nest.t
    kind = t.of(nest.element(len(nest.layout.kinds) - 1))
    if nest.result == "bool":
        value = t.emit(f"zext {t.mask} {value} to {kind}")
    t.do(f"store {kind} {value}, ptr {to}, {how}")


def store_rest(nest: Emission, value: str) -> None:
    """Store the lanes of the result that are inside."""
    t, out = nest.t, len(nest.layout.kinds) - 1
    if nest.through_buffer(out):
        store(nest, value, f"%scratch{out}")
        copied(nest, f"%last{out}", f"%scratch{out}")
        return
    t.store(value, f"%last{out}", "%inside")
