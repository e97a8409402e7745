"""A product as thread blocks: a tile of C each, in phases that all threads of a block end together.

    block         a tile of C, of one matrix of the batch
      round       tile_k terms
        phase     each thread copies its share of the tiles of A and B into shared memory
        phase     each thread adds the round's terms to its register block
      phase       each thread applies the epilogue and writes what lies inside C

What a thread keeps from phase to phase lies in its `registers`. Special registers number block and
thread, and a barrier ends a phase; a subclass that runs blocks and threads as loops instead gives
the same kernel to the processor.

Tiles reach beyond edges: there the last row, column or term inside is read again, terms end with
k, and nothing is written.

May import: text, device_schedule, ptx.
Source: Kirk & Hwu, Programming Massively Parallel Processors, 4th ed. 2022, chapters 5 and 6.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product

from .device_schedule import ALIGNED, PAD, DeviceSchedule, shared_bytes
from .ptx import TRIPLE, special
from .text import Text

POINTERS = ("a", "b", "c", "bias")
NUMBERS = ("a_batch", "b_batch", "a_row", "a_k", "b_k", "b_column")
"""The kernel's arguments: addresses, and strides in bytes."""


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


class ThreadBlocks:
    """The text of one kernel."""

    def __init__(self, plan: BlockPlan) -> None:
        self.plan, self.schedule = plan, plan.schedule
        s = plan.schedule
        self.t = Text(s.task.dtype, s["lanes"])
        self.threads = math.prod(s.threads)
        self.sizes = dict(zip("mnk", s.task.axes, strict=True))
        self.tiles = dict(zip("mnk", s.tiles, strict=True))
        self.cells = list(product(range(s["rows"]), range(s["vectors"])))
        self.vector_bytes = s["lanes"] * s.task.item_bytes
        self.register_bytes = len(self.cells) * self.vector_bytes
        self.shared_a, self.shared_b = shared_bytes(s.task, s)
        self.shared = self.shared_a + self.shared_b

    @contextmanager
    def block(self) -> Iterator[str]:
        """Write what comes before and after a block; give its number."""
        t = self.t
        for name in POINTERS:
            t.do(f"%{name} = addrspacecast ptr addrspace(1) %{name}.global to ptr")
        t.do("%shared = addrspacecast ptr addrspace(3) @shared to ptr")
        t.do(f"%registers = alloca [{self.register_bytes} x i8], align 64")
        self.thread = special(t, "tid")
        yield special(t, "ctaid")

    @contextmanager
    def phase(self, barrier: bool) -> Iterator[tuple[str, str]]:
        """Write what comes before and after a thread's part; give its number and registers.

        Args:
            barrier: whether all threads of the block finish before the next phase.
        """
        yield self.thread, "%registers"
        if barrier:
            self.t.declared.add("declare void @llvm.nvvm.barrier0()")
            self.t.do("call void @llvm.nvvm.barrier0()")

    def module(self) -> str:
        """Return a module for LLVM's NVPTX."""
        pointers = [f"ptr addrspace(1) %{name}.global" for name in POINTERS]
        arguments = ", ".join([*pointers, *(f"i64 %{name}" for name in NUMBERS)])
        memory = f"[{max(1, self.shared)} x i8] undef, align {ALIGNED}"
        return (
            f'target triple = "{TRIPLE}"\n@shared = internal addrspace(3) global {memory}\n'
            + self.t.module(f"define ptx_kernel void @kernel({arguments})")
            + "!nvvm.annotations = !{!0}\n"
            + f'!0 = !{{ptr @kernel, !"maxntidx", i32 {self.threads}}}\n'
        )

    def text(self) -> str:
        """Return the module."""
        with self.block() as block:
            self._tile(block)
        self.t.do("ret void")
        return self.module()

    def _tile(self, block: str) -> None:
        """Write one block: which tile it has, its rounds, and the result."""
        t, k, depth = self.t, self.sizes["k"], self.tiles["k"]
        self._find(block)
        with self.phase(False) as (_, registers):
            for cell in range(len(self.cells)):
                self._keep(registers, cell, t.number(0.0))
        with t.loop("round", -(-k // depth)) as number:
            self.start["k"] = t.times(number, depth)
            left = t.minus(k, self.start["k"])
            self.depth = t.least(left, depth) if k % depth else str(depth)
            self.tile = {"m": "%shared", "n": t.at("%shared", self.shared_a)}
            with self.phase(True) as (thread, _):
                self._copy(thread, "m", self.plan.a_by_rows)
                self._copy(thread, "n", self.plan.b_by_columns)
            with self.phase(True) as (thread, registers):
                self._multiply(thread, registers)
        with self.phase(False) as (thread, registers):
            self._store(thread, registers)

    def _kept(self, registers: str, cell: int) -> str:
        """Return one vector of a thread's register block."""
        return self.t.load(self.t.at(registers, cell * self.vector_bytes), align=self.t.item)

    def _keep(self, registers: str, cell: int, value: str) -> None:
        at = self.t.at(registers, cell * self.vector_bytes)
        self.t.store(value, at, how=f"align {self.t.item}")

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
        self.c = t.at("%c", t.times(batch, size))

    def _copy(self, thread: str, axis: str, by_axis: bool) -> None:
        """Copy a tile of A (axis m) or B (axis n) into shared memory, a line of it a term."""
        t, wide, depth = self.t, self.tiles[axis], self.tiles["k"]
        count = wide * depth
        base, across, along = {
            "m": (self.a, "%a_row", "%a_k"),
            "n": (self.b, "%b_column", "%b_k"),
        }[axis]
        with t.loop("copy", -(-count // self.threads)) as turn, ExitStack() as inside:
            i = t.plus(t.times(turn, self.threads), thread)
            if count % self.threads:
                inside.enter_context(t.when(t.emit(f"icmp slt i64 {i}, {count}")))
            at = self._rest(i, wide) if by_axis else self._over(i, depth)
            k = self._over(i, wide) if by_axis else self._rest(i, depth)
            place = self._inside(axis, t.plus(self.start[axis], at))
            term = self._inside("k", t.plus(self.start["k"], k))
            source = t.at(t.at(base, t.times(place, across)), t.times(term, along))
            one = t.emit(f"load {t.scalar}, ptr {source}")
            line = self._line(axis, k)
            t.do(f"store {t.scalar} {one}, ptr {t.at(line, t.times(at, t.item))}")

    def _line(self, axis: str, k: str) -> str:
        """Return where a term's line of a tile begins."""
        t = self.t
        return t.at(self.tile[axis], t.times(k, (self.tiles[axis] + PAD) * t.item))

    def _multiply(self, thread: str, registers: str) -> None:
        """Add the round's terms to a thread's register block."""
        t, unroll = self.t, self.schedule["unroll"]
        rows, columns = self._own(thread)
        whole = t.minus(self.depth, t.emit(f"srem i64 {self.depth}, {unroll}"))
        loops = [("0", whole, unroll)] + [(whole, self.depth, 1)] * (unroll > 1)
        for start, stop, step in loops:
            with t.loop("k", stop, step, start) as first:
                for u in range(step):
                    k = t.plus(first, u)
                    row, line = self._row_of_a(k, rows), self._row_of_b(k, columns)
                    for cell, (i, v) in enumerate(self.cells):
                        total = t.fma(row[i], line[v], self._kept(registers, cell))
                        self._keep(registers, cell, total)

    def _own(self, thread: str) -> tuple[list[str], list[str]]:
        """Return a thread's rows of the tile, and where each of its vectors of columns begins."""
        t, s = self.t, self.schedule
        along = s.threads[1]
        first = t.times(self._over(thread, along), s["rows"])
        rows = [t.plus(first, i) for i in range(s["rows"])]
        x = self._rest(thread, along)
        columns = [t.times(t.plus(x, v * along), s["lanes"]) for v in range(s["vectors"])]
        return rows, columns

    def _row_of_a(self, k: str, rows: list[str]) -> list[str]:
        """Return a term of A for each row of a thread, in every lane; neighbours load at once."""
        t, line = self.t, self._line("m", k)
        group = math.gcd(len(rows), ALIGNED // t.item)
        kind, found = f"<{group} x {t.scalar}>", []
        for row in rows[::group]:
            at = t.at(line, t.times(row, t.item))
            many = t.emit(f"load {kind}, ptr {at}, align {group * t.item}")
            found += [t.emit(f"extractelement {kind} {many}, i32 {i}") for i in range(group)]
        return [t.spread(t.scalar, one) for one in found]

    def _row_of_b(self, k: str, columns: list[str]) -> list[str]:
        """Return a term of B for each vector of a thread."""
        t, line = self.t, self._line("n", k)
        align = min(ALIGNED, self.vector_bytes)
        return [t.load(t.at(line, t.times(column, t.item)), align=align) for column in columns]

    def _store(self, thread: str, registers: str) -> None:
        """Apply the epilogue to what of a thread's block lies inside C, and write it."""
        t = self.t
        rows, starts = self._own(thread)
        rows = [t.plus(self.start["m"], i) for i in rows]
        starts = [t.plus(self.start["n"], column) for column in starts]
        for cell, (i, v) in enumerate(self.cells):
            sums = self._kept(registers, cell)
            line = t.at(self.c, t.times(rows[i], self.sizes["n"] * t.item))
            for lane in range(t.width):
                column = t.plus(starts[v], lane)
                inside = [
                    t.emit(f"icmp slt i64 {x}, {self.sizes[axis]}")
                    for axis, x in (("m", rows[i]), ("n", column))
                    if self.sizes[axis] % self.tiles[axis]
                ]
                with t.when(*inside):
                    one = self._epilogue(t.lane(t.vector, sums, lane), rows[i], column)
                    t.do(f"store {t.scalar} {one}, ptr {t.at(line, t.times(column, t.item))}")

    def _epilogue(self, one: str, row: str, column: str) -> str:
        t, epilogue = self.t, self.plan.epilogue or ""
        if "bias" in epilogue:
            channel = row if self.schedule.task.operator == "conv2d" else column
            at = t.at("%bias", t.times(channel, t.item))
            one = t.emit(f"fadd {t.scalar} {one}, {t.emit(f'load {t.scalar}, ptr {at}')}")
        if "relu" in epilogue:
            negative = t.emit(f"fcmp olt {t.scalar} {one}, 0.0")  # NaN stays NaN
            one = t.emit(f"select i1 {negative}, {t.scalar} 0.0, {t.scalar} {one}")
        return one

    def _inside(self, axis: str, i: str) -> str:
        """Return an index, or the last one inside."""
        ragged = self.sizes[axis] % self.tiles[axis]
        return self.t.least(i, self.sizes[axis] - 1) if ragged else i

    def _over(self, i: str, count: int) -> str:
        return self.t.emit(f"udiv i64 {i}, {count}")

    def _rest(self, i: str, count: int) -> str:
        return self.t.emit(f"urem i64 {i}, {count}")
