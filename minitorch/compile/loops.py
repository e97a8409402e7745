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
inside are loaded and stored. Lanes outside hold zeros: with denormals a processor would compute a
hundred times slower.

May import: text, rows.
"""

from dataclasses import dataclass

from . import rows
from .rows import IDENTITY, Program, across, fold
from .text import KERNEL, Text

# bytes that are asked for ahead, eight cache lines: 3 % faster on arrays that no cache holds, as
# the processor does so itself but stops at the end of every page; 10 % slower on those in a cache
AHEAD = 512


@dataclass(frozen=True)
class Layout:
    """What a kernel is specialised to besides its program.

    Attributes:
        kinds: "c", "b" or "s" for each input, and last for the result.
        outer: how many axes there are above the row.
        past_caches: whether whole vectors of the result, which then lie at multiples of their size,
            are written to memory without being read into the caches first, and inputs asked for
            before they are needed.
    """

    kinds: str
    outer: int
    past_caches: bool = False


def kernel(program: Program, layout: Layout) -> str:
    """Return the LLVM module of a program for a layout, its function called `kernel`."""
    return _Loops(program, layout).text()


class _Loops:
    """The text of one kernel.

    Attributes:
        t: in the program's numbers.
        wide: writes into the same function, in double. Sums are kept so, to be as exact as NumPy's
            pairwise ones.
        total: of a reduction, the vector that a row is folded into.
    """

    def __init__(self, program: Program, layout: Layout) -> None:
        self.program, self.layout, self.reduction = program, layout, program.reduction
        self.t = t = Text(program.dtype)
        gives = "float" if program.reduction else rows.gives(program.steps[-1].row)
        self.masks = [kind == "bool" for kind in (*program.inputs, gives)]
        self.elements = ["i8" if mask else t.scalar for mask in self.masks]  # booleans are bytes
        self.item = [1 if mask else t.item for mask in self.masks]
        self.wide = t.beside("float64", t.width, "w")
        self.keep = self.wide if program.reduction == "sum" else t

    def text(self) -> str:
        """Return the module."""
        t = self.t
        self._head()
        if self.reduction:
            self.total = self.keep.variable()
            with t.loop("r", "%hi", start="%lo") as r:
                self._row(r, "0", self.n)
        else:
            first = t.emit(f"sdiv i64 %lo, {self.n}")
            column = t.emit(f"srem i64 %lo, {self.n}")
            last = t.emit(f"sdiv i64 {t.minus(t.plus('%hi', self.n), '1')}, {self.n}")
            with t.loop("r", last, start=first) as r:
                begun = t.emit(f"icmp eq i64 {r}, {first}")
                begin = t.emit(f"select i1 {begun}, i64 {column}, i64 0")
                end = t.least(t.minus("%hi", t.times(r, self.n)), self.n)
                self._row(r, begin, t.minus(end, begin))
        if self.layout.past_caches:
            t.do("fence seq_cst")  # other threads see them in order again
        return t.module(KERNEL) + "\n!0 = !{i32 1}\n"

    def _head(self) -> None:
        """Read the table."""
        t, outer = self.t, self.layout.outer
        count = len(self.layout.kinds)
        self.n, *self.sizes = t.fields("i64", 1 + outer)
        first = range(1 + outer, (1 + outer) * (1 + count), 1 + outer)
        self.strides = [t.fields("i64", 1 + outer, at) for at in first]
        self.bases = t.arrays(count, (1 + outer) * (1 + count))

    def _row(self, r: str, column: str, count: str) -> None:
        """Compute so many elements of row `r`, from `column` on."""
        t = self.t
        indices = [*self._indices(r), column]
        self.starts, self.ready = [], {}
        for k, kind in enumerate(self.layout.kinds):
            at = self.bases[k]
            for i, stride in zip(indices, self.strides[k], strict=True):
                at = t.at(at, t.times(i, stride))
            self.starts.append(at)
            if k < len(self.layout.kinds) - 1 and kind == "b":
                self.ready[k] = self._as_value(k, t.spread_from(at, self.elements[k]))
        self.last = t.minus(count, "1")
        if self.reduction:
            identity = self.keep.number(IDENTITY[self.reduction])
            self.keep.store(identity, self.total, how="align 64")
        t.each(self._vector, count)
        if self.reduction:
            self._store_total()

    def _indices(self, r: str) -> list[str]:
        """Return the index along each outer axis of row `r`."""
        indices: list[str] = []
        for size in self.sizes[:0:-1]:
            indices.append(self.t.emit(f"srem i64 {r}, {size}"))
            r = self.t.emit(f"sdiv i64 {r}, {size}")
        return [*[r] * bool(self.sizes), *indices[::-1]]

    def _vector(self, i: str, inside: str | None) -> None:
        """Compute one vector of a row, from element `i` on; of a mask only the lanes inside."""
        t, out = self.t, len(self.layout.kinds) - 1
        inputs = [self._input(k, i, inside) for k in range(out)]
        value = rows.write(t, self.program, inputs)
        if self.reduction:
            if inside:
                value = t.either(inside, value, t.number(IDENTITY[self.reduction]))
            if self.keep is self.wide and t.single:
                value = t.emit(f"fpext {t.vector} {value} to {self.wide.vector}")
            total = fold(self.keep, self.reduction, self.keep.load(self.total, align=64), value)
            self.keep.store(total, self.total, how="align 64")
            return
        if self.masks[out]:
            value = t.emit(f"zext {t.mask} {value} to {t.of('i8')}")
        at = t.at(self.starts[out], t.times(i, self.item[out]))
        how = "align 64, !nontemporal !0" if self.layout.past_caches else "align 1"
        t.store(value, at, inside, self.elements[out], how)

    def _store_total(self) -> None:
        """Fold the vector of a row into one element, and store that."""
        t, keep = self.t, self.keep
        folded = across(keep, self.reduction, keep.load(self.total, align=64))
        if keep is self.wide and t.single:
            folded = t.emit(f"fptrunc double {folded} to float")
        t.do(f"store {t.scalar} {folded}, ptr {self.starts[-1]}, align 1")

    # Operands

    def _input(self, k: int, i: str, inside: str | None) -> str:
        """Return the vector of operand `k` from element `i` of this row on."""
        t, kind, element = self.t, self.layout.kinds[k], self.elements[k]
        if kind == "b":
            return self.ready[k]
        if kind == "s":
            value = self._gather(k, i, inside)
        else:
            at = t.at(self.starts[k], t.times(i, self.item[k]))
            value = t.load(at, inside, element=element)
            if inside is None and self.layout.past_caches:
                t.prefetch(t.at(at, AHEAD))
        return self._as_value(k, value)

    def _as_value(self, k: int, value: str) -> str:
        """Return a vector as it was in memory as one to compute with: bytes as a mask."""
        if not self.masks[k]:
            return value
        return self.t.emit(f"icmp ne {self.t.of('i8')} {value}, zeroinitializer")

    def _gather(self, k: int, i: str, inside: str | None) -> str:
        """Load a vector of a strided operand; past the end, the last element again."""
        t, element, value = self.t, self.elements[k], "poison"
        for lane in range(t.width):
            index = t.plus(i, lane)
            if inside:
                index = t.least(index, self.last)
            at = t.at(self.starts[k], t.times(index, self.strides[k][-1]))
            number = t.emit(f"load {element}, ptr {at}, align 1")
            kind = t.of(element)
            value = t.emit(f"insertelement {kind} {value}, {element} {number}, i32 {lane}")
        return value
