"""The code of products and convolutions: tiles for the caches, packing, and register blocks.

    void kernel(i64 lo, i64 hi, ptr table)

computes the tiles lo to hi of the outermost loop, counted in tiles, so that threads can share them.
The table holds, as 64-bit integers, where the addresses of A, B, C and the bias are written; the
strides in bytes of A (row, k) and B (k), whose columns lie side by side; and the addresses of the
buffers of packed A and B, of the slots and of the offsets.

A tile is packed as soon as the loops over both of its axes are entered: the order of the loops says
how often that is done. Shapes are part of the code, so that an edge is a block of its own size.

The register block is rows by vectors of C, kept in registers while k runs:

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

from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product

from .schedule import Schedule
from .text import KERNEL, Text

PLACES = ("a", "b", "c", "bias")
STRIDES = ("a_row", "a_k", "b_k")
POINTERS = ("buffer_a", "buffer_b", "slots", "offsets")
"""Names in the table's order: places of addresses, numbers, and addresses."""
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
        lines, line = self.schedule.task.lines
        return int(lines * -(-line // self.schedule["lanes"]))

    @property
    def ragged(self) -> bool:
        """Whether the last vector of a row has lanes outside."""
        return bool(self.schedule.task.lines[1] % self.schedule["lanes"])

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
        self.masked = masked
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
            slot = [t.at("%slots", v * SLOT_BYTES + 8 * field) for field in range(3)]
            fields = [t.emit(f"load i64, ptr {at}") for at in slot]
            self.starts.append(t.at("%b", fields[0]) if plan.direct else "")
            self.columns.append(t.at("%c", fields[1]))
            if plan.ragged:
                self.inside[v] = t.first_lanes(fields[2])
        if self.masked:
            rest = plan.schedule.task.axes[1] % t.width
            self.inside[self.vectors - 1] = t.first_lanes(str(rest))

    def _load_sums(self) -> list[str]:
        """Return the sums."""
        return [self.t.load(at, align=64) for at in self.sums]

    def _keep(self, sums: list[str]) -> None:
        for value, at in zip(sums, self.sums, strict=True):
            self.t.store(value, at, how="align 64")

    def _rounds(self, start: str, stop: str, step: int) -> None:
        """Write a loop over k that adds `step` terms a round."""
        t = self.t
        with t.loop("k", stop, step, start) as first:
            sums = self._load_sums()
            for u in range(step):
                sums = self._term(t.plus(first, u), sums)
            self._keep(sums)

    def _term(self, k: str, sums: list[str]) -> list[str]:
        """Add A[rows, k] · B[k, vectors] to the sums."""
        t = self.t
        row_of_b = self._row_of_b(k)
        a_at = t.times(k, self.rows * t.item if self.plan.schedule["pack_a"] else "%a_k")
        added = []
        for i in range(self.rows):
            number, at = t.spread_from(t.at(self.a_rows[i], a_at)), i * self.vectors
            added += [t.fma(number, row_of_b[v], sums[at + v]) for v in range(self.vectors)]
        return added

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
                self._keep([t.add(a, b) for a, b in zip(self._load_sums(), old, strict=True)])
        if self.plan.epilogue:
            with t.when(*["%last"] * split):
                self._keep(self._epilogue(self.plan.epilogue, self._load_sums()))
        for (at, mask), value in zip(places, self._load_sums(), strict=True):
            t.store(value, at, mask)

    def _epilogue(self, epilogue: str, sums: list[str]) -> list[str]:
        """Add the bias, one a column or one an output channel, and cut at zero."""
        t = self.t
        if "bias" in epilogue and self.plan.convolution:
            each = [t.spread_from(t.at("%bias", i * t.item)) for i in range(self.rows)]
            sums = [t.add(s, each[i]) for (i, _), s in zip(self.cells, sums, strict=True)]
        elif "bias" in epilogue:
            places = [t.at("%bias", v * self.plan.vector_bytes) for v in range(self.vectors)]
            each = [t.load(at, self.inside.get(v)) for v, at in enumerate(places)]
            sums = [t.add(s, each[v]) for (_, v), s in zip(self.cells, sums, strict=True)]
        if "relu" in epilogue:
            zero = t.number(0.0)
            sums = [t.either(t.compare("olt", s, zero), zero, s) for s in sums]  # NaN stays NaN
        return sums


class TiledLoops:
    """The text of one module."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.schedule = plan, plan.schedule
        self.t = plan.new_text()
        s = plan.schedule
        m, _, k = s.task.axes
        slots = plan.slots
        blocks = -(-slots // s["vectors"])
        wanted = -(-(s["tile_n"] or slots * s["lanes"]) // s.columns)
        self.sizes = {"m": m, "n": slots, "k": k}  # columns are counted in vectors
        self.tiles = {"m": s.tiles[0], "n": min(wanted, blocks) * s["vectors"], "k": s.tiles[2]}
        self.blocks: dict[str, Block] = {}

    @property
    def outer_tiles(self) -> int:
        """Tiles of the outermost loop."""
        axis = self.schedule["order"][0]
        return int(-(-self.sizes[axis] // self.tiles[axis]))

    @property
    def buffer_bytes(self) -> tuple[int, int]:
        """Bytes of a packed tile of A and of B."""
        s = self.schedule
        a = self.tiles["m"] * self.tiles["k"] if s["pack_a"] else 0
        b = self.tiles["n"] * s["lanes"] * self.tiles["k"] if s["pack_b"] else 0
        return a * self.t.item, b * self.t.item

    def text(self) -> str:
        """Return the module."""
        t = self.t
        for i, name in enumerate((*PLACES, *STRIDES, *POINTERS)):
            at = t.at("%table", 8 * i)
            if name in PLACES:
                at = t.emit(f"load ptr, ptr {at}")
            t.do(f"%{name} = load {'i64' if name in STRIDES else 'ptr'}, ptr {at}")
        self._tile_loops()
        functions = "\n".join(block.text() for block in self.blocks.values())
        t.declared.update(*(block.t.declared for block in self.blocks.values()))
        return t.module(KERNEL.replace("ptr", "ptr noalias"), functions)

    def _tile_loops(self) -> None:
        """Write the loops over tiles, the packing between them, and the loops over blocks."""
        t, s = self.t, self.schedule
        self.starts: dict[str, str] = {}
        self.extents: dict[str, str] = {}
        with ExitStack() as loops:
            for depth, axis in enumerate(s["order"]):
                stop = "%hi" if depth == 0 else str(-(-self.sizes[axis] // self.tiles[axis]))
                tile = loops.enter_context(t.loop(axis, stop, start="%lo" if depth == 0 else "0"))
                self.starts[axis] = t.times(tile, self.tiles[axis])
                left = t.minus(self.sizes[axis], self.starts[axis])
                self.extents[axis] = t.least(left, self.tiles[axis])
                if s["pack_a"] and axis in "mk" and {"m", "k"} <= set(self.starts):
                    self._pack_a()
                if s["pack_b"] and axis in "kn" and {"k", "n"} <= set(self.starts):
                    self._pack_b()
            self._block_loops()

    def _a_at(self, row: str, k: str) -> str:
        t = self.t
        return t.at(t.at("%a", t.times(row, "%a_row")), t.times(k, "%a_k"))

    def _pack_a(self) -> None:
        """Copy a tile of A: block after block of rows, and within it k after k."""
        t, rows = self.t, self.schedule["rows"]
        base = self._a_at(self.starts["m"], self.starts["k"])
        with t.loop("pa", self.extents["m"], rows) as i:
            height = t.least(t.minus(self.extents["m"], i), rows)
            into = t.at("%buffer_a", t.times(t.times(i, self.extents["k"]), t.item))
            source = t.at(base, t.times(i, "%a_row"))
            with t.loop("pak", self.extents["k"]) as k:
                line = t.at(into, t.times(t.times(k, height), t.item))
                column = t.at(source, t.times(k, "%a_k"))
                with t.loop("pai", height) as j:
                    element = t.emit(f"load {t.scalar}, ptr {t.at(column, t.times(j, '%a_row'))}")
                    t.do(f"store {t.scalar} {element}, ptr {t.at(line, t.times(j, t.item))}")

    def _pack_b(self) -> None:
        """Copy a tile of B: block after block of vectors, and within it k after k."""
        t, width, line_bytes = self.t, self.schedule["vectors"], self.plan.vector_bytes
        with t.loop("pb", self.extents["n"], width) as v:
            count = t.least(t.minus(self.extents["n"], v), width)
            into = t.at("%buffer_b", t.times(t.times(v, self.extents["k"]), line_bytes))
            first = t.plus(self.starts["n"], v)
            with t.loop("pbk", self.extents["k"]) as k:
                line = t.at(into, t.times(t.times(k, count), line_bytes))
                term = t.plus(self.starts["k"], k)
                with t.loop("pbv", count) as j:
                    vector = t.plus(first, j)
                    self._copy_vector(term, vector, t.at(line, t.times(j, line_bytes)))

    def _copy_vector(self, k: str, vector: str, into: str) -> None:
        """Copy one vector of B; the lanes outside are zeros, or what lies beside a window."""
        t, plan = self.t, self.plan
        if plan.convolution:
            slot = t.emit(f"load i64, ptr {t.at('%slots', t.times(vector, SLOT_BYTES))}")
            offset = t.emit(f"load i64, ptr {t.at('%offsets', t.times(k, 8))}")
            t.store(t.load(t.at(t.at("%b", slot), offset)), into)
            return
        row = t.at("%b", t.times(k, "%b_k"))
        first = t.times(vector, t.width)
        left = t.minus(self.schedule.task.axes[1], first)
        mask = t.first_lanes(left) if plan.ragged else None
        t.store(t.load(t.at(row, t.times(first, t.item)), mask), into)

    def _block_loops(self) -> None:
        """Write the loops over the register blocks of a tile; edges are blocks of their own."""
        t, s = self.t, self.schedule
        first = t.emit(f"icmp eq i64 {self.starts['k']}, 0")
        end = t.plus(self.starts["k"], self.extents["k"])
        self.state = (first, t.emit(f"icmp eq i64 {end}, {self.sizes['k']}"))
        columns, rows = (self.extents["n"], s["vectors"]), (self.extents["m"], s["rows"])
        with t.loop("j", *columns) as j, t.loop("i", *rows) as i:
            row, vector = t.plus(self.starts["m"], i), t.plus(self.starts["n"], j)
            ragged = self.plan.ragged and not self.plan.convolution
            for height, _, in_rows in self._cases(row, "m", s["rows"], False):
                for width, masked, in_columns in self._cases(vector, "n", s["vectors"], ragged):
                    block = Block(self.plan, height, width, masked)
                    with t.when(*in_rows, *in_columns):
                        self._call(block, row, vector, i, j)

    def _cases(
        self, first: str, axis: str, block: int, ragged: bool
    ) -> list[tuple[int, bool, list[str]]]:
        """Return which blocks begin at `first`: their size, whether they are masked, and when.

        All are whole but the last, which is smaller or, where the axis is ragged, masked.
        """
        t, size = self.t, self.sizes[axis]
        last = size % block or block * ragged
        if last in (0, size):
            return [(last or block, ragged, [])]
        end = size - last
        return [
            (block, False, [t.emit(f"icmp slt i64 {first}, {end}")]),
            (last, ragged, [t.emit(f"icmp sge i64 {first}, {end}")]),
        ]

    def _call(self, block: Block, row: str, vector: str, i: str, j: str) -> None:
        self.blocks.setdefault(block.name, block)
        t, s, depth = self.t, self.schedule, self.extents["k"]
        k, line_bytes = self.starts["k"], self.plan.vector_bytes
        if s["pack_a"]:
            a = t.at("%buffer_a", t.times(t.times(i, depth), t.item))
        else:
            a = self._a_at(row, k)
        b, c, bias, slots = "%b", "%c", "%bias", "%slots"
        if self.plan.convolution:
            slots = t.at("%slots", t.times(vector, SLOT_BYTES))
            bias = t.at("%bias", t.times(row, t.item))
        else:
            b = t.at(t.at("%b", t.times(k, "%b_k")), t.times(vector, line_bytes))
            c = t.at("%c", t.times(vector, line_bytes))
            bias = t.at("%bias", t.times(vector, line_bytes))
        if s["pack_b"]:
            b = t.at("%buffer_b", t.times(t.times(j, depth), line_bytes))
        c = t.at(c, t.times(row, self.plan.c_row))
        offsets = t.at("%offsets", t.times(k, 8))
        first, last = self.state
        t.do(
            f"call void @{block.name}(ptr {a}, i64 %a_row, i64 %a_k, ptr {b}, i64 %b_k, "
            f"ptr {slots}, ptr {offsets}, ptr {c}, ptr {bias}, i64 {depth}, "
            f"i1 {first}, i1 {last})"
        )
