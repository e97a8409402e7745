"""A product as thread blocks: a tile of C each, in phases that all threads of a block end together.

    block         a tile of C, of one matrix of the batch
      round       tile_k terms
        phase     each thread copies its share of the tiles of A and B into shared memory
        phase     each thread adds the round's terms to its register block
      phase       each thread applies the epilogue and writes what lies inside C

What a thread keeps from phase to phase lies in its `registers`. A `Target` says what a block, a
phase and registers are: on a `Device` special registers number block and thread, and a barrier ends
a phase; a target that runs blocks and threads as loops gives the same kernel to the processor.

Tiles reach beyond edges: there the last row, column or term inside is read again, terms end with
k, and nothing is written.

May import: errors, register_block, device_schedule, engine, ptx.
Source: Kirk & Hwu, Programming Massively Parallel Processors, 4th ed. 2022, chapters 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Protocol

from .device_schedule import ALIGNED, PAD, DeviceSchedule, shared_bytes
from .ptx import SPECIAL, TRIPLE
from .register_block import Writer

POINTERS = ("a", "b", "c", "bias", "places", "offsets")
NUMBERS = ("a_batch", "b_batch", "a_row", "a_k", "b_k", "b_column")
"""The kernel's arguments: addresses, and strides in bytes. `places` has two numbers for each column
of a convolution: where its window begins in the image, and where it lies in the result; `offsets`
has for each term how far from there it lies."""


@dataclass(frozen=True)
class BlockPlan:
    """What a kernel is made from.

    Attributes:
        schedule: with its task.
        epilogue: None, "bias", "relu" or "bias_relu".
        a_by_rows, b_by_columns: which way neighbouring threads copy: where memory lies in one run.
    """

    schedule: DeviceSchedule
    epilogue: str | None = None
    a_by_rows: bool = False
    b_by_columns: bool = True

    @property
    def convolution(self) -> bool:
        """Whether columns and terms are found through tables."""
        return self.schedule.task.operator == "conv2d"


class Target(Protocol):
    """What thread blocks are made of."""

    @contextmanager
    def block(self, nest: ThreadBlocks) -> Iterator[str]:
        """Write what comes before and after a block; give its number."""

    @contextmanager
    def phase(self, nest: ThreadBlocks, barrier: bool) -> Iterator[tuple[str, str]]:
        """Write what comes before and after a thread's part; give its number and registers."""

    def module(self, nest: ThreadBlocks) -> str:
        """Return the module."""


class Device:
    """Blocks and threads of a CUDA device."""

    @contextmanager
    def block(self, nest: ThreadBlocks) -> Iterator[str]:
        """Read the special registers."""
        t = nest.t
        for name in POINTERS:
            t.do(f"%{name} = addrspacecast ptr addrspace(1) %{name}.global to ptr")
        t.do("%shared = addrspacecast ptr addrspace(3) @shared to ptr")
        t.do(f"%registers = alloca [{nest.register_bytes} x i8], align 64")
        for name in ("tid", "ctaid"):
            t.do(f"%{name}.short = call i32 @{SPECIAL}.{name}.x()")
            t.do(f"%{name} = zext i32 %{name}.short to i64")
        yield "%ctaid"

    @contextmanager
    def phase(self, nest: ThreadBlocks, barrier: bool) -> Iterator[tuple[str, str]]:
        """Let all threads of the block finish before the next phase."""
        yield "%tid", "%registers"
        if barrier:
            nest.t.do("call void @llvm.nvvm.barrier0()")

    def module(self, nest: ThreadBlocks) -> str:
        """Return a module for LLVM's NVPTX."""
        pointers = [f"ptr addrspace(1) %{name}.global" for name in POINTERS]
        arguments = ", ".join([*pointers, *(f"i64 %{name}" for name in NUMBERS)])
        declared = {f"declare i32 @{SPECIAL}.{name}.x()" for name in ("tid", "ctaid")}
        declared |= {"declare void @llvm.nvvm.barrier0()", *nest.t.declared}
        memory = f"[{max(1, nest.shared)} x i8]"
        body = "\n".join(nest.t.lines)
        return (
            f'target triple = "{TRIPLE}"\n@shared = internal addrspace(3) global {memory} undef, '
            f"align {ALIGNED}\n" + "\n".join(sorted(declared)) + "\n"
            f"define ptx_kernel void @kernel({arguments}) {{\nentry:\n{body}\n}}\n"
            f'!nvvm.annotations = !{{!0}}\n!0 = !{{ptr @kernel, !"maxntidx", i32 {nest.threads}}}\n'
        )


class ThreadBlocks:
    """The text of one kernel."""

    def __init__(self, plan: BlockPlan, target: Target | None = None) -> None:
        self.plan, self.schedule = plan, plan.schedule
        self.target = target or Device()
        s = plan.schedule
        self.t = Writer(s)
        self.threads = math.prod(s.threads)
        self.sizes = dict(zip("mnk", s.task.axes, strict=True))
        self.tiles = dict(zip("mnk", s.tiles, strict=True))
        self.cells = list(product(range(s["rows"]), range(s["vectors"])))
        self.vector_bytes = s["lanes"] * s.task.item_bytes
        self.register_bytes = len(self.cells) * self.vector_bytes
        self.shared_a, self.shared_b = shared_bytes(s.task, s)
        self.shared = self.shared_a + self.shared_b

    def text(self) -> str:
        """Return the module."""
        with self.target.block(self) as block:
            self._tile(block)
        self.t.do("ret void")
        return self.target.module(self)

    def _tile(self, block: str) -> None:
        """Write one block: which tile it has, its rounds, and the result."""
        t, s = self.t, self.schedule
        self._find(block)
        packed = self.shared > 0
        with self.target.phase(self, False) as (_, registers):
            for cell in range(len(self.cells)):
                t.plain_store(t.number(0.0), t.at(registers, cell * self.vector_bytes))
        with t.loop("round", -(-self.sizes["k"] // self.tiles["k"])) as number:
            self.start["k"] = t.times(number, self.tiles["k"])
            left = t.emit(f"sub i64 {self.sizes['k']}, {self.start['k']}")
            whole = self.sizes["k"] % self.tiles["k"] == 0
            self.depth = str(self.tiles["k"]) if whole else self._least(left, self.tiles["k"])
            if packed:
                with self.target.phase(self, True) as (thread, _):
                    if s["pack_a"]:
                        self._copy(thread, "m", self.plan.a_by_rows, "%shared")
                    if s["pack_b"]:
                        at = t.at("%shared", self.shared_a)
                        self._copy(thread, "n", self.plan.b_by_columns, at)
            with self.target.phase(self, packed) as (thread, registers):
                self._multiply(thread, registers)
        with self.target.phase(self, False) as (thread, registers):
            self._store(thread, registers)

    def _find(self, block: str) -> None:
        """Find a block's tile, and its matrices in the batch."""
        t, (down, along) = self.t, self.schedule.blocks
        batch = self._over(block, down * along)
        tile = self._rest(block, down * along)
        fast = self.schedule["order"][1]
        count = along if fast == "n" else down
        numbers = (self._over(tile, count), self._rest(tile, count))
        m, n = numbers if fast == "n" else numbers[::-1]
        self.start = {"m": t.times(m, self.tiles["m"]), "n": t.times(n, self.tiles["n"])}
        self.a, self.b = (t.at(f"%{x}", t.times(batch, f"%{x}_batch")) for x in "ab")
        size = self.sizes["m"] * self.sizes["n"] * t.item
        self.c = "%c" if self.plan.convolution else t.at("%c", t.times(batch, size))

    def _copy(self, thread: str, axis: str, by_axis: bool, into: str) -> None:
        """Copy a tile of A (axis m) or B (axis n) into shared memory, a line of it a term."""
        t, wide, depth = self.t, self.tiles[axis], self.tiles["k"]
        count = wide * depth
        with t.loop("copy", -(-count // self.threads)) as turn, ExitStack() as inside:
            i = t.emit(f"add i64 {t.times(turn, self.threads)}, {thread}")
            if count % self.threads:
                inside.enter_context(t.when([t.emit(f"icmp slt i64 {i}, {count}")]))
            at = self._rest(i, wide) if by_axis else self._over(i, depth)
            k = self._over(i, wide) if by_axis else self._rest(i, depth)
            element = self._a_at if axis == "m" else self._b_at
            place = self._inside(axis, t.emit(f"add i64 {self.start[axis]}, {at}"))
            term = self._inside("k", t.emit(f"add i64 {self.start['k']}, {k}"))
            one = t.emit(f"load {t.scalar}, ptr {element(place, term)}")
            line = t.at(into, t.times(k, (wide + PAD) * t.item))
            t.do(f"store {t.scalar} {one}, ptr {t.at(line, t.times(at, t.item))}")

    def _multiply(self, thread: str, registers: str) -> None:
        """Add the round's terms to a thread's register block."""
        t, unroll = self.t, self.schedule["unroll"]
        rows, columns = self._own(thread)
        if not self.schedule["pack_a"]:
            rows = [self._inside("m", t.emit(f"add i64 {self.start['m']}, {i}")) for i in rows]
        if not self.schedule["pack_b"]:
            columns = [self._inside("n", c) for c in self._lanes(columns)]
        whole = t.emit(f"sub i64 {self.depth}, {t.emit(f'srem i64 {self.depth}, {unroll}')}")
        for start, stop, step in (("0", whole, unroll), (whole, self.depth, 1)):
            if step == 1 and start == whole and unroll == 1:
                continue
            with t.loop("k", stop, step, start) as first:
                for u in range(step):
                    k = t.emit(f"add i64 {first}, {u}")
                    self._term(registers, self._row(k, rows), self._line(k, columns))

    def _term(self, registers: str, row: list[str], line: list[str]) -> None:
        t = self.t
        for cell, (i, v) in enumerate(self.cells):
            at = t.at(registers, cell * self.vector_bytes)
            t.plain_store(t.fma(row[i], line[v], t.plain_load(at)), at)

    def _own(self, thread: str) -> tuple[list[str], list[str]]:
        """Return a thread's rows of the tile, and where each of its vectors of columns begins."""
        t, s = self.t, self.schedule
        along = s.threads[1]
        first = t.times(self._over(thread, along), s["rows"])
        rows = [t.emit(f"add i64 {first}, {i}") for i in range(s["rows"])]
        x = self._rest(thread, along)
        columns = [
            t.times(t.emit(f"add i64 {x}, {v * along}"), s["lanes"]) for v in range(s["vectors"])
        ]
        return rows, columns

    def _lanes(self, columns: list[str]) -> list[str]:
        """Return the columns of C of every lane of vectors of the tile."""
        t = self.t
        starts = [t.emit(f"add i64 {self.start['n']}, {column}") for column in columns]
        return [t.emit(f"add i64 {start}, {i}") for start in starts for i in range(t.width)]

    def _row(self, k: str, rows: list[str]) -> list[str]:
        """Return a term of A for each row of a thread, in every lane."""
        t, s = self.t, self.schedule
        if s["pack_a"]:
            line = t.at("%shared", t.times(k, (self.tiles["m"] + PAD) * t.item))
            group = math.gcd(s["rows"], ALIGNED // t.item)
            found = []
            for i in range(0, s["rows"], group):
                at = t.at(line, t.times(rows[i], t.item))
                found += self._loaded(at, group)
        else:
            term = t.emit(f"add i64 {self.start['k']}, {k}")
            found = [t.emit(f"load {t.scalar}, ptr {self._a_at(row, term)}") for row in rows]
        return [t.everywhere(one) for one in found]

    def _loaded(self, at: str, count: int) -> list[str]:
        """Return neighbours in shared memory, loaded at once."""
        t = self.t
        if count == 1:
            return [t.emit(f"load {t.scalar}, ptr {at}")]
        kind = f"<{count} x {t.scalar}>"
        many = t.emit(f"load {kind}, ptr {at}, align {count * t.item}")
        return [t.emit(f"extractelement {kind} {many}, i32 {i}") for i in range(count)]

    def _line(self, k: str, columns: list[str]) -> list[str]:
        """Return a term of B for each vector of a thread."""
        t, s = self.t, self.schedule
        if s["pack_b"]:
            at = t.at("%shared", self.shared_a)
            line = t.at(at, t.times(k, (self.tiles["n"] + PAD) * t.item))
            places = [t.at(line, t.times(column, t.item)) for column in columns]
            align = min(ALIGNED, self.vector_bytes)
            return [t.emit(f"load {t.vector}, ptr {at}, align {align}") for at in places]
        term = t.emit(f"add i64 {self.start['k']}, {k}")
        ones = [t.emit(f"load {t.scalar}, ptr {self._b_at(c, term)}") for c in columns]
        found = []
        for v in range(s["vectors"]):
            many = "poison"
            for lane in range(t.width):
                many = t.with_lane(t.vector, many, ones[v * t.width + lane], lane)
            found.append(many)
        return found

    def _store(self, thread: str, registers: str) -> None:
        """Apply the epilogue to what of a thread's block lies inside C, and write it."""
        t = self.t
        rows, columns = self._own(thread)
        rows = [t.emit(f"add i64 {self.start['m']}, {i}") for i in rows]
        columns = self._lanes(columns)
        for cell, (i, v) in enumerate(self.cells):
            sums = t.plain_load(t.at(registers, cell * self.vector_bytes))
            for lane in range(t.width):
                column = columns[v * t.width + lane]
                inside = [
                    t.emit(f"icmp slt i64 {x}, {self.sizes[axis]}")
                    for axis, x in (("m", rows[i]), ("n", column))
                    if self.sizes[axis] % self.tiles[axis]
                ]
                with t.when(inside):
                    one = self._epilogue(t.lane(t.vector, sums, lane), rows[i], column)
                    t.do(f"store {t.scalar} {one}, ptr {self._c_at(rows[i], column)}")

    def _epilogue(self, one: str, row: str, column: str) -> str:
        t, epilogue = self.t, self.plan.epilogue or ""
        if "bias" in epilogue:
            at = t.at("%bias", t.times(row if self.plan.convolution else column, t.item))
            one = t.emit(f"fadd {t.scalar} {one}, {t.emit(f'load {t.scalar}, ptr {at}')}")
        if "relu" in epilogue:
            negative = t.emit(f"fcmp olt {t.scalar} {one}, 0.0")  # NaN stays NaN
            one = t.emit(f"select i1 {negative}, {t.scalar} 0.0, {t.scalar} {one}")
        return one

    # Where elements lie

    def _a_at(self, row: str, k: str) -> str:
        t = self.t
        return t.at(t.at(self.a, t.times(row, "%a_row")), t.times(k, "%a_k"))

    def _b_at(self, column: str, k: str) -> str:
        t = self.t
        if not self.plan.convolution:
            return t.at(t.at(self.b, t.times(column, "%b_column")), t.times(k, "%b_k"))
        return t.at(t.at(self.b, self._entry("places", column, 0)), self._entry("offsets", k))

    def _c_at(self, row: str, column: str) -> str:
        t, n = self.t, self.sizes["n"]
        if not self.plan.convolution:
            return t.at(t.at(self.c, t.times(row, n * t.item)), t.times(column, t.item))
        plane = n // self.schedule.task.sizes[0] * t.item
        return t.at(t.at(self.c, t.times(row, plane)), self._entry("places", column, 1))

    def _entry(self, table: str, i: str, field: int | None = None) -> str:
        t = self.t
        offset = t.times(i, 8) if field is None else t.times(i, 16)
        return t.emit(f"load i64, ptr {t.at(t.at(f'%{table}', offset), 8 * (field or 0))}")

    def _inside(self, axis: str, i: str) -> str:
        """Return an index, or the last one inside."""
        ragged = self.sizes[axis] % self.tiles[axis]
        return self._least(i, self.sizes[axis] - 1) if ragged else i

    def _least(self, i: str, limit: int) -> str:
        t = self.t
        return t.emit(f"select i1 {t.emit(f'icmp slt i64 {i}, {limit}')}, i64 {i}, i64 {limit}")

    def _over(self, i: str, count: int) -> str:
        return self.t.emit(f"udiv i64 {i}, {count}")

    def _rest(self, i: str, count: int) -> str:
        return self.t.emit(f"urem i64 {i}, {count}")
