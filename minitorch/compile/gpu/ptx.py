"""Kernels as PTX, the assembly of NVIDIA's GPUs: fused programs, and products by thread blocks.

A program has one thread an element; the instructions of an operator are written by the same
functions as for the processor. What is here is the text; `cuda_driver` loads and launches it.

    .visible .entry kernel(.param .u64 n, .param .u64 input_0, ..., .param .u64 result)

A product is a tile of C a thread block, in phases that all threads of a block end together.

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

May import: errors, text, rows, schedule.
Source: Kirk & Hwu, Programming Massively Parallel Processors, 4th ed. 2022, chapters 5 and 6.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product

from ...errors import CompileError
from .. import rows
from ..rows import Program
from ..schedule import ALIGNED, PAD, DeviceSchedule, shared_bytes
from ..text import Text

TRIPLE = "nvptx64-nvidia-cuda"
SPECIAL = "llvm.nvvm.read.ptx.sreg"
POINTERS = ("a", "b", "c", "bias")
NUMBERS = ("a_batch", "b_batch", "a_row", "b_k")
"""The kernel's arguments: addresses, and strides in bytes; rows lie in one run."""


def module(program: Program, kinds: str) -> str:
    """Return the LLVM IR of a program for a GPU.

    Args:
        kinds: for each input "c" for an array that lies in one run, "b" for one element.
    Raises:
        CompileError: the program reduces, which threads would have to do together, or has a row
            that calls the C library.
        ArgumentError: a step is no row, or has other operands than it takes.
    """
    rows.check(program)
    if program.reduction:
        raise CompileError(
            f"ptx: got reduction {program.reduction!r}, expected none. Reduce in another kernel."
        )
    for step in program.steps:
        if not rows.on_gpus(step):
            raise CompileError(f"ptx: {step.row} calls the C library. Leave it to PyTorch.")
    t = Text(program.dtype, width=1)
    masks = [kind == "bool" for kind in (*program.inputs, rows.gives(program.steps[-1].row))]
    elements = ["i8" if mask else t.scalar for mask in masks]
    tid, ntid, ctaid = (special(t, name) for name in ("tid", "ntid", "ctaid"))
    i = t.plus(t.times(ctaid, ntid), tid)
    with t.when(t.emit(f"icmp slt i64 {i}, %n")):  # threads past the end do nothing
        values = []
        for k, layout in enumerate(kinds):
            at = _place(t, elements[k], k, i if layout == "c" else "0")
            value = t.emit(f"load {elements[k]}, ptr addrspace(1) {at}")
            values.append(t.emit(f"icmp ne i8 {value}, 0") if masks[k] else value)
        result = rows.write(t, program, values)
        if masks[-1]:
            result = t.emit(f"zext i1 {result} to i8")
        at = _place(t, elements[-1], len(kinds), i)
        t.do(f"store {elements[-1]} {result}, ptr addrspace(1) {at}")
    bases = "".join(f", ptr addrspace(1) %base{k}" for k in range(len(masks)))
    head = t.module(f"define ptx_kernel void @kernel(i64 %n{bases})")
    return f'target triple = "{TRIPLE}"\n\n{head}'


def special(t: Text, name: str) -> str:
    """Return a special register, as 64 bits: "tid", "ntid" or "ctaid"."""
    t.declared.add(f"declare i32 @{SPECIAL}.{name}.x()")
    return t.emit(f"zext i32 {t.emit(f'call i32 @{SPECIAL}.{name}.x()')} to i64")


def _place(t: Text, element: str, k: int, i: str) -> str:
    return t.emit(f"getelementptr {element}, ptr addrspace(1) %base{k}, i64 {i}")


class ThreadBlocks:
    """The text of one kernel."""

    def __init__(self, schedule: DeviceSchedule, epilogue: str | None = None) -> None:
        self.schedule, self.epilogue = schedule, epilogue or ""
        s = schedule
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
                self._copy(thread, "m")
                self._copy(thread, "n")
            with self.phase(True) as (thread, registers):
                self._multiply(thread, registers)
        with self.phase(False) as (thread, registers):
            self._store(thread, registers)

    def _load_sum(self, registers: str, cell: int) -> str:
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

    def _copy(self, thread: str, axis: str) -> None:
        """Copy a tile of A (axis m) or B (axis n) into shared memory, a line of it a term.

        Neighbouring threads read neighbours in memory: terms of A, columns of B.
        """
        t, wide, depth = self.t, self.tiles[axis], self.tiles["k"]
        count = wide * depth
        with t.loop("copy", -(-count // self.threads)) as turn, ExitStack() as inside:
            i = t.plus(t.times(turn, self.threads), thread)
            if count % self.threads:
                inside.enter_context(t.when(t.emit(f"icmp slt i64 {i}, {count}")))
            run = depth if axis == "m" else wide
            slow, fast = self._over(i, run), self._rest(i, run)
            at, k = (slow, fast) if axis == "m" else (fast, slow)
            place = self._inside(axis, t.plus(self.start[axis], at))
            term = self._inside("k", t.plus(self.start["k"], k))
            if axis == "m":
                source = t.at(t.at(self.a, t.times(place, "%a_row")), t.times(term, t.item))
            else:
                source = t.at(t.at(self.b, t.times(term, "%b_k")), t.times(place, t.item))
            element = t.emit(f"load {t.scalar}, ptr {source}")
            line = self._line(axis, k)
            t.do(f"store {t.scalar} {element}, ptr {t.at(line, t.times(at, t.item))}")

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
                        total = t.fma(row[i], line[v], self._load_sum(registers, cell))
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
        kind, elements = f"<{group} x {t.scalar}>", []
        for row in rows[::group]:
            at = t.at(line, t.times(row, t.item))
            many = t.emit(f"load {kind}, ptr {at}, align {group * t.item}")
            elements += [t.emit(f"extractelement {kind} {many}, i32 {i}") for i in range(group)]
        return [t.spread(t.scalar, element) for element in elements]

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
            sums = self._load_sum(registers, cell)
            line = t.at(self.c, t.times(rows[i], self.sizes["n"] * t.item))
            for lane in range(t.width):
                column = t.plus(starts[v], lane)
                inside = [
                    t.emit(f"icmp slt i64 {x}, {self.sizes[axis]}")
                    for axis, x in (("m", rows[i]), ("n", column))
                    if self.sizes[axis] % self.tiles[axis]
                ]
                with t.when(*inside):
                    value = self._epilogue(t.lane(t.vector, sums, lane), rows[i], column)
                    t.do(f"store {t.scalar} {value}, ptr {t.at(line, t.times(column, t.item))}")

    def _epilogue(self, value: str, row: str, column: str) -> str:
        t = self.t
        if "bias" in self.epilogue:
            channel = row if self.schedule.task.operator == "conv2d" else column
            at = t.at("%bias", t.times(channel, t.item))
            value = t.emit(f"fadd {t.scalar} {value}, {t.emit(f'load {t.scalar}, ptr {at}')}")
        if "relu" in self.epilogue:
            negative = t.emit(f"fcmp olt {t.scalar} {value}, 0.0")  # NaN stays NaN
            value = t.emit(f"select i1 {negative}, {t.scalar} 0.0, {t.scalar} {value}")
        return value

    def _inside(self, axis: str, i: str) -> str:
        """Return an index, or the last one inside."""
        ragged = self.sizes[axis] % self.tiles[axis]
        return self.t.least(i, self.sizes[axis] - 1) if ragged else i

    def _over(self, i: str, count: int) -> str:
        return self.t.emit(f"udiv i64 {i}, {count}")

    def _rest(self, i: str, count: int) -> str:
        return self.t.emit(f"urem i64 {i}, {count}")
