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

May import: text, schedule.
Source: Van Zee & van de Geijn, ACM Trans. Math. Softw. 41(3), 2015 (BLIS).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from .schedule import Schedule
from .text import Text

SLOT_BYTES = 24  # where it begins in the image, where in the result, how many lanes are inside


@dataclass(frozen=True)
class Plan:
    """What a module is made from.

    Attributes:
        schedule: with its task.
        epilogue: None, "bias", "relu" or "bias_relu".
    """

    schedule: Schedule
    epilogue: str | None = None

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
    def vector_bytes(self) -> int:
        """Bytes of a vector."""
        return int(self.schedule["lanes"] * self.schedule.task.item_bytes)

    @property
    def c_row(self) -> int:
        """Bytes from one row of C to the next; of one image's result, for a convolution."""
        task = self.schedule.task
        n = task.axes[1]
        if self.convolution and not task.samples_last:
            n //= task.sizes[0]
        return n * task.item_bytes

    def new_text(self) -> Text:
        """Return the body of a function, nothing written yet."""
        return Text(self.schedule.task.dtype, self.schedule["lanes"])


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
        self.t = plan.new_text()
        self.cells = list(product(range(rows), range(vectors)))

    @property
    def name(self) -> str:
        """Its function's name."""
        return f"block_{self.rows}_{self.vectors}" + "_masked" * self.masked

    def text(self) -> str:
        """Return the function."""
        t, s = self.t, self.plan.schedule
        self.sums = [t.variable() for _ in self.cells]
        self._keep([t.number(0.0)] * len(self.cells))
        self._prepare()
        unroll, whole = s["unroll"], "0"
        if unroll > 1:
            whole = t.minus("%depth", t.emit(f"srem i64 %depth, {unroll}"))
            self._rounds("0", whole, unroll)
        if unroll == 1 or s.tiles[2] % unroll or s.task.axes[2] % unroll:
            self._rounds(whole, "%depth", 1)
        self._finish()
        t.do("ret void")
        body = "\n".join(t.lines)
        return f"define internal void @{self.name}({PARAMETERS}) {{\nentry:\n{body}\n}}"

    def _prepare(self) -> None:
        """Find where rows of A and vectors of C begin, and which lanes are inside."""
        t, plan = self.t, self.plan
        row = t.item if plan.schedule["pack_a"] else "%a_row"
        self.a_rows = [t.at("%a", t.times(str(i), row) if i else 0) for i in range(self.rows)]
        self.columns, self.starts, self.inside = [], [], dict[int, str]()
        for v in range(self.vectors):
            if not plan.convolution:
                self.columns.append(t.at("%c", v * plan.vector_bytes))
                continue
            fields = [self._field(v * SLOT_BYTES + 8 * f) for f in range(3)]
            self.starts.append(t.at("%b", fields[0]) if plan.direct else "")
            self.columns.append(t.at("%c", fields[1]))
            if plan.ragged:
                self.inside[v] = t.first_lanes(fields[2])
        if self.masked:
            rest = plan.schedule.task.axes[1] % t.width
            self.inside[self.vectors - 1] = t.first_lanes(str(rest))

    def _field(self, offset: int) -> str:
        return self.t.emit(f"load i64, ptr {self.t.at('%slots', offset)}")

    def _kept(self) -> list[str]:
        """Return the sums."""
        return [self.t.load(at, align=64) for at in self.sums]

    def _keep(self, sums: list[str]) -> None:
        for value, at in zip(sums, self.sums, strict=True):
            self.t.store(value, at, how="align 64")

    def _rounds(self, start: str, stop: str, step: int) -> None:
        """Write a loop over k that adds `step` terms a round."""
        t = self.t
        with t.loop("k", stop, step, start) as first:
            sums = self._kept()
            for u in range(step):
                sums = self._term(t.plus(first, u), sums)
            self._keep(sums)

    def _term(self, k: str, sums: list[str]) -> list[str]:
        """Add A[rows, k] · B[k, vectors] to the sums."""
        t = self.t
        row_of_b = self._row_of_b(k)
        a_at = t.times(k, self.rows * t.item if self.plan.schedule["pack_a"] else "%a_k")
        found = []
        for i in range(self.rows):
            one = t.emit(f"load {t.scalar}, ptr {t.at(self.a_rows[i], a_at)}, align {t.item}")
            many = t.spread(t.scalar, one)
            at = i * self.vectors
            found += [t.fma(many, row_of_b[v], sums[at + v]) for v in range(self.vectors)]
        return found

    def _row_of_b(self, k: str) -> list[str]:
        t, plan = self.t, self.plan
        if plan.direct:
            offset = t.emit(f"load i64, ptr {t.at('%offsets', t.times(k, 8))}")
            return [t.load(t.at(start, offset)) for start in self.starts]
        packed = plan.schedule["pack_b"]
        row = t.at("%b", t.times(k, self.vectors * plan.vector_bytes if packed else "%b_k"))
        places = [t.at(row, v * plan.vector_bytes) for v in range(self.vectors)]
        return [t.load(at, None if packed else self.inside.get(v)) for v, at in enumerate(places)]

    def _finish(self) -> None:
        """Add what C holds already, apply the epilogue after the last tile, and store."""
        t, s = self.t, self.plan.schedule
        split = s.tiles[2] < s.task.axes[2]
        places = [
            (t.at(self.columns[v], i * self.plan.c_row), self.inside.get(v)) for i, v in self.cells
        ]
        if split:
            with t.when(t.emit("xor i1 %first, true")):
                old = [t.load(at, mask) for at, mask in places]
                self._keep([t.add(a, b) for a, b in zip(self._kept(), old, strict=True)])
        if self.plan.epilogue:
            with t.when(*["%last"] * split):
                self._keep(self._epilogue(self.plan.epilogue, self._kept()))
        for (at, mask), value in zip(places, self._kept(), strict=True):
            t.store(value, at, mask)

    def _epilogue(self, epilogue: str, sums: list[str]) -> list[str]:
        """Add the bias, one a column or one an output channel, and cut at zero."""
        t = self.t
        if "bias" in epilogue and self.plan.convolution:
            given = [t.at("%bias", i * t.item) for i in range(self.rows)]
            each = [t.spread(t.scalar, t.emit(f"load {t.scalar}, ptr {at}")) for at in given]
            sums = [t.add(s, each[i]) for (i, _), s in zip(self.cells, sums, strict=True)]
        elif "bias" in epilogue:
            places = [t.at("%bias", v * self.plan.vector_bytes) for v in range(self.vectors)]
            each = [t.load(at, self.inside.get(v)) for v, at in enumerate(places)]
            sums = [t.add(s, each[v]) for (_, v), s in zip(self.cells, sums, strict=True)]
        if "relu" in epilogue:
            zero = t.number(0.0)
            sums = [t.either(t.compare("olt", s, zero), zero, s) for s in sums]  # NaN stays NaN
        return sums
