"""The loops around the register block: tiles for the caches, and the copies that packing makes.

    void kernel(i64 lo, i64 hi, ptr table)

computes the tiles lo to hi of the outermost loop, counted in tiles, so that threads can share them.
The table holds, as 64-bit integers, where the addresses of A, B, C and the bias are written; the
strides in bytes of A (row, k) and B (k), whose columns lie side by side; and the addresses of the
buffers of packed A and B, of the slots and of the offsets (see `register_block`).

A tile is packed as soon as the loops over both of its axes are entered: the order of the loops says
how often that is done. Shapes are part of the code, so that an edge is a block of its own size.

May import: register_block, text.
"""

from __future__ import annotations

from contextlib import ExitStack

from .register_block import SLOT_BYTES, Block, Plan
from .text import KERNEL

PLACES = ("a", "b", "c", "bias")
STRIDES = ("a_row", "a_k", "b_k")
POINTERS = ("buffer_a", "buffer_b", "slots", "offsets")
"""Names in the table's order: places of addresses, numbers, and addresses."""


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
        t.do("ret void")
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
                    one = t.emit(f"load {t.scalar}, ptr {t.at(column, t.times(j, '%a_row'))}")
                    t.do(f"store {t.scalar} {one}, ptr {t.at(line, t.times(j, t.item))}")

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
            for height in self._sizes("m", s["rows"]):
                for width in self._sizes("n", s["vectors"]):
                    for masked in self._masks(width):
                        block = Block(self.plan, height, width, masked)
                        with t.when(*self._conditions(row, vector, block, masked)):
                            self._call(block, row, vector, i, j)

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

    def _conditions(self, row: str, vector: str, block: Block, masked: bool) -> list[str]:
        """Return the conditions under which the block that begins here is this one."""
        t, s = self.t, self.schedule
        found = []
        for first, axis, full, size in (
            (row, "m", s["rows"], block.rows),
            (vector, "n", s["vectors"], block.vectors),
        ):
            if len(self._sizes(axis, full)) > 1:
                how = "slt" if size == full else "sge"
                whole = self.sizes[axis] // full * full
                found.append(t.emit(f"icmp {how} i64 {first}, {whole}"))
        if len(self._masks(block.vectors)) == 2:
            how = "eq" if masked else "ne"
            last = t.plus(vector, block.vectors)
            found.append(t.emit(f"icmp {how} i64 {last}, {self.sizes['n']}"))
        return found

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
