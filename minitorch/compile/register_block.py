"""The register block: rows by vectors of C, kept in registers while k runs; the innermost loops.

    void block_R_V(ptr a, i64 a_row, i64 a_k, ptr b, i64 b_k, ptr slots, ptr offsets,
                   ptr c, ptr bias, i64 depth, i1 first, i1 last)

adds `depth` terms to a block of R rows and V vectors. Sums begin at zero in the first tile of k and
at what C holds in the others; after the last one the epilogue is applied. A is read an element at a
time, at any strides. Where a row of B and of C lies depends on the task:

    product         side by side; the last vector of an edge is masked
    convolution     each vector of places is a *slot*: where it begins in the image and in the
                    result, and how many of its lanes are inside; `offsets` says for each k how far
                    from there the element of the window lies
    packed          B lies side by side, whatever the task

May import: text, folds, schedule.
Source: Van Zee & van de Geijn, ACM Trans. Math. Softw. 41(3), 2015 (BLIS).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

from .folds import first_lanes
from .schedule import Schedule
from .text import Text

SLOT_BYTES = 24  # where it begins in the image, where in the result, how many lanes are inside


@dataclass(frozen=True)
class Plan:
    """What a module is made from.

    Attributes:
        schedule: with its task.
        epilogue: None, "bias", "relu" or "bias_relu".
        unit_columns: whether the columns of B lie side by side in memory.
    """

    schedule: Schedule
    epilogue: str | None = None
    unit_columns: bool = True

    @property
    def convolution(self) -> bool:
        """Whether places are found through slots."""
        return self.schedule.task.operator == "conv2d"

    @property
    def direct(self) -> bool:
        """Whether windows are read where they lie."""
        return self.convolution and not self.schedule["pack_b"]

    @property
    def slots(self) -> int:
        """Vectors in a row of C; those of a convolution's row of places are whole."""
        lanes = self.schedule["lanes"]
        if not self.convolution:
            return int(-(-self.schedule.task.axes[1] // lanes))
        lines, line = self.schedule.task.lines
        return int(lines * -(-line // lanes))

    @property
    def ragged(self) -> bool:
        """Whether the last vector of a row has lanes outside."""
        task = self.schedule.task
        row = task.lines[1] if self.convolution else task.axes[1]
        return bool(row % self.schedule["lanes"])

    @property
    def c_row(self) -> int:
        """Bytes from one row of C to the next; of one image's result, for a convolution."""
        task = self.schedule.task
        n = task.axes[1]
        if self.convolution and not task.samples_last:
            n //= task.sizes[0]
        return n * task.item_bytes


class Writer(Text):
    """Text with loops and addresses."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule.task.dtype, schedule["lanes"])
        self.item = schedule.task.item_bytes
        self._labels = 0

    def name(self, what: str) -> str:
        """Return a name that nothing else has."""
        self._labels += 1
        return f"{what}.{self._labels}"

    def at(self, base: str, offset: str | int) -> str:
        """Return an address so many bytes further."""
        return base if offset == 0 else self.emit(f"getelementptr i8, ptr {base}, i64 {offset}")

    def times(self, a: str, b: str | int) -> str:
        """Return a product of integers."""
        return a if b == 1 else self.emit(f"mul i64 {a}, {b}")

    def plain_load(self, at: str) -> str:
        """Return a vector of memory that is all there."""
        return self.emit(f"load {self.vector}, ptr {at}, align {self.item}")

    def plain_store(self, value: str, at: str) -> None:
        """Write a vector."""
        self.do(f"store {self.vector} {value}, ptr {at}, align {self.item}")

    def everywhere(self, scalar: str) -> str:
        """Return a number in every lane."""
        return scalar if self.width == 1 else self.spread(self.scalar, scalar)

    @contextmanager
    def loop(
        self, axis: str, stop: str | int, step: str | int = 1, start: str = "0"
    ) -> Iterator[str]:
        """Write a loop around what the caller writes; give its counter."""
        name = self.name(axis)
        self.do(f"br label %{name}.enter")
        self.label(f"{name}.enter")
        self.do(f"br label %{name}.head")
        self.label(f"{name}.head")
        self.do(f"%{name} = phi i64 [ {start}, %{name}.enter ], [ %{name}.next, %{name}.latch ]")
        self.do(f"%{name}.in = icmp slt i64 %{name}, {stop}")
        self.do(f"br i1 %{name}.in, label %{name}.body, label %{name}.end")
        self.label(f"{name}.body")
        yield f"%{name}"
        self.do(f"br label %{name}.latch")
        self.label(f"{name}.latch")
        self.do(f"%{name}.next = add i64 %{name}, {step}")
        self.do(f"br label %{name}.head")
        self.label(f"{name}.end")

    @contextmanager
    def when(self, conditions: Sequence[str]) -> Iterator[None]:
        """Write what is done only where all conditions hold."""
        if not conditions:
            yield
            return
        both = functools.reduce(lambda a, b: self.emit(f"and i1 {a}, {b}"), conditions)
        name = self.name("when")
        self.do(f"br i1 {both}, label %{name}, label %{name}.end")
        self.label(name)
        yield
        self.do(f"br label %{name}.end")
        self.label(f"{name}.end")


PARAMETERS = (
    "ptr %a, i64 %a_row, i64 %a_k, ptr %b, i64 %b_k, ptr %slots, ptr %offsets, ptr %c, ptr %bias, "
    "i64 %depth, i1 %first, i1 %last"
)


class Block:
    """The text of one register block.

    Args:
        rows, vectors: its size, smaller at an edge.
        masked: whether the last vector reaches outside (of a product; a slot always knows).
    """

    def __init__(self, plan: Plan, rows: int, vectors: int, masked: bool) -> None:
        self.plan, self.rows, self.vectors = plan, rows, vectors
        self.masked = masked and not plan.convolution
        self.t = Writer(plan.schedule)
        self.cells = list(product(range(rows), range(vectors)))

    @property
    def name(self) -> str:
        """Its function's name."""
        return f"block_{self.rows}_{self.vectors}" + "_masked" * self.masked

    def text(self) -> str:
        """Return the function."""
        t, s = self.t, self.plan.schedule
        self._prepare()
        unroll, depth = s["unroll"], s.tiles[2]
        sums = [t.number(0.0)] * len(self.cells)
        if unroll > 1:
            t.do(f"%whole = sub i64 %depth, {t.emit(f'srem i64 %depth, {unroll}')}")
            sums = self._rounds("main", sums, "0", "%whole", unroll)
        even = unroll > 1 and depth % unroll == 0 and s.task.axes[2] % unroll == 0
        if unroll == 1 or not even:
            start = "%whole" if unroll > 1 else "0"
            sums = self._rounds("rest", sums, start, "%depth", 1)
        self._finish(sums)
        t.do("ret void")
        body = "\n".join(t.lines)
        return f"define internal void @{self.name}({PARAMETERS}) {{\nentry:\n{body}\n}}"

    def _prepare(self) -> None:
        """Find where rows of A and vectors of C begin, and which lanes are inside."""
        t, plan = self.t, self.plan
        self.a_rows = [t.at("%a", t.times("%a_row", i) if i else 0) for i in range(self.rows)]
        if plan.schedule["pack_a"]:
            self.a_rows = [t.at("%a", i * t.item) for i in range(self.rows)]
        self.columns, self.starts, self.inside = [], [], {}
        for v in range(self.vectors):
            if not plan.convolution:
                self.columns.append(t.at("%c", v * t.width * t.item))
                continue
            fields = [self._field(v * SLOT_BYTES + 8 * f) for f in range(3)]
            self.starts.append(t.at("%b", fields[0]) if plan.direct else "")
            self.columns.append(t.at("%c", fields[1]))
            if plan.ragged:
                self.inside[v] = f"%inside{v}"
                first_lanes(t, f"%inside{v}", fields[2])
        if self.masked:
            n = plan.schedule.task.axes[1]
            self.inside[self.vectors - 1] = "%inside"
            first_lanes(t, "%inside", str(n % t.width))

    def _field(self, offset: int) -> str:
        return self.t.emit(f"load i64, ptr {self.t.at('%slots', offset)}")

    def _rounds(self, loop: str, sums: list[str], start: str, stop: str, step: int) -> list[str]:
        """Write a loop over k that adds `step` terms a round; return the names of the sums."""
        t = self.t
        enter, head, body, end = (f"{loop}.{part}" for part in ("enter", "head", "body", "end"))
        t.do(f"br label %{enter}")
        t.label(enter)
        t.do(f"br label %{head}")
        t.label(head)
        t.do(f"%{loop} = phi i64 [ {start}, %{enter} ], [ %{loop}.next, %{body} ]")
        names = [f"%{loop}.{i}.{v}" for i, v in self.cells]
        for name, value in zip(names, sums, strict=True):
            t.do(f"{name} = phi {t.vector} [ {value}, %{enter} ], [ {name}.next, %{body} ]")
        t.do(f"%{loop}.in = icmp slt i64 %{loop}, {stop}")
        t.do(f"br i1 %{loop}.in, label %{body}, label %{end}")
        t.label(body)
        totals = list(names)
        for u in range(step):
            k = t.emit(f"add i64 %{loop}, {u}") if u else f"%{loop}"
            totals = self._term(k, totals)
        for name, total in zip(names, totals, strict=True):
            t.do(f"{name}.next = bitcast {t.vector} {total} to {t.vector}")
        t.do(f"%{loop}.next = add i64 %{loop}, {step}")
        t.do(f"br label %{head}")
        t.label(end)
        return names

    def _term(self, k: str, sums: list[str]) -> list[str]:
        """Add A[rows, k] · B[k, vectors] to the sums."""
        t = self.t
        row_of_b = self._row_of_b(k)
        a_at = t.times(k, self.rows * t.item if self.plan.schedule["pack_a"] else "%a_k")
        found = []
        for i in range(self.rows):
            one = t.emit(f"load {t.scalar}, ptr {t.at(self.a_rows[i], a_at)}, align {t.item}")
            many = t.everywhere(one)
            at = i * self.vectors
            found += [t.fma(many, row_of_b[v], sums[at + v]) for v in range(self.vectors)]
        return found

    def _row_of_b(self, k: str) -> list[str]:
        t, plan = self.t, self.plan
        if plan.direct:
            offset = t.emit(f"load i64, ptr {t.at('%offsets', t.times(k, 8))}")
            return [t.plain_load(t.at(start, offset)) for start in self.starts]
        packed = plan.schedule["pack_b"]
        row = t.at("%b", t.times(k, self.vectors * t.width * t.item if packed else "%b_k"))
        places = [t.at(row, v * t.width * t.item) for v in range(self.vectors)]
        if not packed and self.masked:
            return [*map(t.plain_load, places[:-1]), t.load(places[-1], "%inside")]
        return [t.plain_load(at) for at in places]

    def _finish(self, sums: list[str]) -> None:
        """Add what C holds already, apply the epilogue after the last tile, and store."""
        t = self.t
        split = self.plan.schedule.tiles[2] < self.plan.schedule.task.axes[2]
        if split:
            sums = self._branch("%first", "old", sums, otherwise=self._plus_c)
        if self.plan.epilogue:
            done = self._epilogue
            sums = self._branch("%last", "end", sums, then=done) if split else done(sums)
        for (i, v), value in zip(self.cells, sums, strict=True):
            at = t.at(self.columns[v], i * self.plan.c_row)
            if v in self.inside:
                t.store(value, at, self.inside[v])
            else:
                t.plain_store(value, at)

    def _branch(
        self,
        condition: str,
        name: str,
        sums: list[str],
        then: Callable[[list[str]], list[str]] | None = None,
        otherwise: Callable[[list[str]], list[str]] | None = None,
    ) -> list[str]:
        """Write a change of the sums that is made only where the condition says so."""
        t = self.t
        t.do(f"br label %{name}.before")
        t.label(f"{name}.before")
        work, after = f"{name}.work", f"{name}.after"
        yes, no = (work, after) if then else (after, work)
        t.do(f"br i1 {condition}, label %{yes}, label %{no}")
        t.label(f"{name}.work")
        change = then or otherwise
        changed = change(sums) if change else sums
        t.do(f"br label %{name}.after")
        t.label(f"{name}.after")
        return [
            t.emit(f"phi {t.vector} [ {new}, %{name}.work ], [ {old}, %{name}.before ]")
            for new, old in zip(changed, sums, strict=True)
        ]

    def _plus_c(self, sums: list[str]) -> list[str]:
        t, found = self.t, []
        for (i, v), value in zip(self.cells, sums, strict=True):
            at = t.at(self.columns[v], i * self.plan.c_row)
            mask = self.inside.get(v)
            found.append(t.add(value, t.load(at, mask) if mask else t.plain_load(at)))
        return found

    def _epilogue(self, sums: list[str]) -> list[str]:
        """Add the bias, one a column or one an output channel, and cut at zero."""
        t, epilogue = self.t, self.plan.epilogue or ""
        if "bias" in epilogue and self.plan.convolution:
            given = [t.at("%bias", i * t.item) for i in range(self.rows)]
            each = [t.everywhere(t.emit(f"load {t.scalar}, ptr {at}")) for at in given]
            sums = [t.add(s, each[i]) for (i, _), s in zip(self.cells, sums, strict=True)]
        elif "bias" in epilogue:
            places = [t.at("%bias", v * t.width * t.item) for v in range(self.vectors)]
            masks = [self.inside.get(v) for v in range(self.vectors)]
            each = [
                t.load(at, mask) if mask else t.plain_load(at)
                for at, mask in zip(places, masks, strict=True)
            ]
            sums = [t.add(s, each[v]) for (_, v), s in zip(self.cells, sums, strict=True)]
        if "relu" in epilogue:
            zero = t.number(0.0)
            sums = [t.either(t.compare("olt", s, zero), zero, s) for s in sums]  # NaN stays NaN
        return sums
