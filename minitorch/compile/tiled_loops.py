"""The loops around the register block: tiles for the caches, and the copies that packing makes.

    void kernel(i64 lo, i64 hi, ptr table)

computes the tiles lo to hi of the outermost loop, counted in tiles, so that threads can share them.
The table holds, as 64-bit integers, where the addresses of A, B, C and the bias are written; the
strides in bytes of A (row, k) and B (k, column); and the addresses of the buffers of packed A and
B, of the slots and of the offsets (see `register_block`).

A tile is packed as soon as the loops over both of its axes are entered: the order of the loops says
how often that is done. Shapes are part of the code, so that an edge is a block of its own size.

May import: register_block, schedule, text.
"""

from __future__ import annotations

from contextlib import ExitStack

from .folds import first_lanes
from .register_block import SLOT_BYTES, Block, Plan, Writer

FIELDS = (
    ("a", True), ("b", True), ("c", True), ("bias", True),
    ("a_row", False), ("a_k", False), ("b_k", False), ("b_column", False),
    ("buffer_a", False), ("buffer_b", False), ("slots", False), ("offsets", False),
)  # fmt: skip
"""Names in the table's order, and whether an entry is the place of an address."""


class TiledLoops:
    """The text of one module."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.schedule = plan, plan.schedule
        self.t = Writer(plan.schedule)
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
        for i, (name, place) in enumerate(FIELDS):
            kind = "i64" if name in ("a_row", "a_k", "b_k", "b_column") else "ptr"
            at = t.at("%table", 8 * i)
            if place:
                t.do(f"%{name}.place = load ptr, ptr {at}")
                at = f"%{name}.place"
            t.do(f"%{name} = load {kind}, ptr {at}")
        self._tile_loops()
        t.do("ret void")
        body = "\n".join(t.lines)
        functions = [block.text() for block in self.blocks.values()]
        declared = t.declared.union(*(block.t.declared for block in self.blocks.values()))
        head = "define void @kernel(i64 %lo, i64 %hi, ptr noalias %table) {\nentry:"
        return "\n".join([*sorted(declared), *functions, f"{head}\n{body}\n}}"])

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
                left = t.emit(f"sub i64 {self.sizes[axis]}, {self.starts[axis]}")
                more = t.emit(f"icmp slt i64 {left}, {self.tiles[axis]}")
                cut = f"select i1 {more}, i64 {left}, i64 {self.tiles[axis]}"
                self.extents[axis] = t.emit(cut)
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
            left = t.emit(f"sub i64 {self.extents['m']}, {i}")
            more = t.emit(f"icmp slt i64 {left}, {rows}")
            height = t.emit(f"select i1 {more}, i64 {left}, i64 {rows}")
            into = t.at("%buffer_a", t.times(t.times(i, self.extents["k"]), t.item))
            source = t.at(base, t.times(i, "%a_row"))
            with t.loop("pak", self.extents["k"]) as k:
                line = t.at(into, t.times(t.times(k, height), t.item))
                column = t.at(source, t.times(k, "%a_k"))
                with t.loop("pai", height) as j:
                    one = t.emit(f"load {t.scalar}, ptr {t.at(column, t.times(j, '%a_row'))}")
                    t.do(f"store {t.scalar} {one}, ptr {t.at(line, t.times(j, t.item))}")

    def _pack_b(self) -> None:
        """Copy a tile of B: block after block of vectors, and within it k after k."""
        t, width = self.t, self.schedule["vectors"]
        with t.loop("pb", self.extents["n"], width) as v:
            left = t.emit(f"sub i64 {self.extents['n']}, {v}")
            more = t.emit(f"icmp slt i64 {left}, {width}")
            count = t.emit(f"select i1 {more}, i64 {left}, i64 {width}")
            line_bytes = t.width * t.item
            into = t.at("%buffer_b", t.times(t.times(v, self.extents["k"]), line_bytes))
            first = t.emit(f"add i64 {self.starts['n']}, {v}")
            with t.loop("pbk", self.extents["k"]) as k:
                line = t.at(into, t.times(t.times(k, count), line_bytes))
                term = t.emit(f"add i64 {self.starts['k']}, {k}")
                with t.loop("pbv", count) as j:
                    vector = t.emit(f"add i64 {first}, {j}")
                    self._copy_vector(term, vector, t.at(line, t.times(j, line_bytes)))

    def _copy_vector(self, k: str, vector: str, into: str) -> None:
        """Copy one vector of B; the lanes outside are zeros, or what lies beside a window."""
        t, plan = self.t, self.plan
        if plan.convolution:
            slot = t.emit(f"load i64, ptr {t.at('%slots', t.times(vector, SLOT_BYTES))}")
            offset = t.emit(f"load i64, ptr {t.at('%offsets', t.times(k, 8))}")
            t.plain_store(t.plain_load(t.at(t.at("%b", slot), offset)), into)
            return
        row = t.at("%b", t.times(k, "%b_k"))
        first = t.times(vector, t.width)
        left = t.emit(f"sub i64 {self.schedule.task.axes[1]}, {first}")
        if plan.unit_columns:
            at = t.at(row, t.times(first, t.item))
            if not plan.ragged:
                t.plain_store(t.plain_load(at), into)
                return
            mask = t.name("%lanes")
            first_lanes(t, mask, left)
            t.plain_store(t.load(at, mask), into)
            return
        if plan.ragged:
            t.plain_store(t.number(0.0), into)
        more = t.emit(f"icmp slt i64 {left}, {t.width}")
        count = t.emit(f"select i1 {more}, i64 {left}, i64 {t.width}")
        with t.loop("pbl", count) as lane:
            column = t.times(t.emit(f"add i64 {first}, {lane}"), "%b_column")
            one = t.emit(f"load {t.scalar}, ptr {t.at(row, column)}")
            t.do(f"store {t.scalar} {one}, ptr {t.at(into, t.times(lane, t.item))}")

    def _block_loops(self) -> None:
        """Write the loops over the register blocks of a tile; edges are blocks of their own."""
        t, s = self.t, self.schedule
        k_first = t.emit(f"icmp eq i64 {self.starts['k']}, 0")
        k_end = t.emit(f"add i64 {self.starts['k']}, {self.extents['k']}")
        k_last = t.emit(f"icmp eq i64 {k_end}, {self.sizes['k']}")
        self.state = (k_first, k_last)
        columns, rows = (self.extents["n"], s["vectors"]), (self.extents["m"], s["rows"])
        with t.loop("j", *columns) as j, t.loop("i", *rows) as i:
            self._edges(i, j)

    def _edges(self, i: str, j: str) -> None:
        """Choose among the sizes that a block can have: whole, or what is left at an edge."""
        t, s = self.t, self.schedule
        row = t.emit(f"add i64 {self.starts['m']}, {i}")
        vector = t.emit(f"add i64 {self.starts['n']}, {j}")
        done = t.name("done")
        heights = self._sizes("m", s["rows"])
        widths = self._sizes("n", s["vectors"])
        for height in heights:
            for width in widths:
                for mask in self._masks(width):
                    self._case(row, vector, i, j, (height, width, mask), done)
        t.do(f"br label %{done}")
        t.label(done)

    def _masks(self, width: int) -> tuple[bool, ...]:
        """Tell whether blocks of so many vectors are masked: never, all, or the last alone."""
        if self.plan.convolution or not self.plan.ragged:
            return (False,)
        rest = self.sizes["n"] % self.schedule["vectors"]
        if rest:
            return (width == rest,)
        return (True, False)

    def _sizes(self, axis: str, block: int) -> list[int]:
        """Return the sizes of blocks along an axis: tiles are whole blocks, so one edge at most."""
        whole, rest = divmod(self.sizes[axis], block)
        return [block] * (whole > 0) + [rest] * (rest > 0)

    def _case(
        self, row: str, vector: str, i: str, j: str, case: tuple[int, int, bool], done: str
    ) -> None:
        """Call the block of one size where that is the size of this one."""
        t, s = self.t, self.schedule
        height, width, masked = case
        conditions = [
            self._is(row, "m", s["rows"], height),
            self._is(vector, "n", s["vectors"], width),
        ]
        if len(self._masks(width)) == 2:
            last = t.emit(f"add i64 {vector}, {width}")
            how = "eq" if masked else "ne"
            conditions.append(t.emit(f"icmp {how} i64 {last}, {self.sizes['n']}"))
        fits = conditions[0]
        for condition in conditions[1:]:
            fits = t.emit(f"and i1 {fits}, {condition}")
        here, other = t.name("case"), t.name("other")
        t.do(f"br i1 {fits}, label %{here}, label %{other}")
        t.label(here)
        block = Block(self.plan, height, width, masked)
        self.blocks.setdefault(block.name, block)
        self._call(block, row, vector, i, j)
        t.do(f"br label %{done}")
        t.label(other)

    def _is(self, first: str, axis: str, block: int, size: int) -> str:
        """Return whether the block that begins at `first` has this size."""
        whole = self.sizes[axis] // block * block
        how = "slt" if size == block else "sge"
        return self.t.emit(f"icmp {how} i64 {first}, {whole}")

    def _call(self, block: Block, row: str, vector: str, i: str, j: str) -> None:
        t, s, depth = self.t, self.schedule, self.extents["k"]
        k = self.starts["k"]
        if s["pack_a"]:
            a = t.at("%buffer_a", t.times(t.times(i, depth), t.item))
        else:
            a = self._a_at(row, k)
        b, c, bias, slots = "%b", "%c", "%bias", "%slots"
        line_bytes = t.width * t.item
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
