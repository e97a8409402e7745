"""Schedules: how a product is computed, apart from what it is. A schedule prints as its loop nest.

The knobs, of which a point gives some; what it leaves out is as in the naive loop nest:

    rows, vectors   the register block: so many rows of C by so many vectors of its columns
    lanes           numbers in a vector; 1 is no vector
    unroll          steps of k that stand one after another in the innermost loop
    tile_m, tile_n, tile_k   the cache tile: so many rows, columns and terms; None is the whole axis
    order           the loops over tiles, the outermost first: "nkm" walks columns, terms, rows
    pack_a, pack_b  whether a tile is copied into the order in which it is read
    parallel        threads that share the outermost loop

Of a convolution rows are output channels and columns places of the result; with `pack_b` its
windows are copied (im2col, a tile at a time), without they are read where they lie (direct).

On a CUDA device the same knobs make tiles of C for thread blocks, register blocks for threads:

    tile_m, tile_n   the tile of C that one thread block computes; 16 by 16 threads unless given
    rows, vectors, lanes   the register block of one thread; its vectors lie a row of threads apart
    tile_k           terms of a round: 16 unless given; None is all of them
    pack_a, pack_b   True: a round's tiles are always copied into shared memory first
    order            k last: a block goes through all of k; "nmk" numbers the blocks down the rows
    parallel         1: the tiles are shared by all that the device has

May import: errors, tasks, gpu.devices; llvmlite's name of the processor through `engine`.
Source: Goto & van de Geijn, ACM Trans. Math. Softw. 34(3), 2008; Chen et al., OSDI 2018 (TVM);
NVIDIA, CUDA C++ Programming Guide, sections 3.2.4 (shared memory) and 16.1 (limits).
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from . import engine
from .gpu.devices import MOST_REGISTERS, REGISTERS
from .tasks import Task, task_of

NAIVE: dict[str, Any] = {
    "rows": 1,
    "vectors": 1,
    "lanes": 1,
    "unroll": 1,
    "tile_m": None,
    "tile_n": None,
    "tile_k": None,
    "order": "mnk",
    "pack_a": False,
    "pack_b": False,
    "parallel": 1,
}
ORDERS = tuple(map("".join, itertools.permutations("mnk")))
LONGEST = 2048  # multiply-adds of an unrolled loop: more takes LLVM seconds, and leaves the cache
LANES = (1, 2, 4, 8, 16)
MOST_THREADS = 1024  # of a block
OTHER_REGISTERS = 24  # a thread's addresses and counters, beside its numbers
SHARED_BYTES = 48 * 2**10  # of a block, where nothing more is asked for
SIDE = 16  # threads along each side of a tile, and terms of a round, where a point does not say
ALIGNED = 16  # bytes that a thread loads at once
PAD = 4  # numbers between lines of a tile in shared memory, so that columns lie in several banks


class Schedule(Mapping[str, Any]):
    """A legal choice of every knob for one task; equal to the dict of its knobs.

    Raises:
        ArgumentError: an unknown knob, or one that this task does not allow; says which and why.
    """

    def __init__(self, task: Task | Sequence[Any], point: Any = None) -> None:
        self.task = task_of(task)
        if point is not None and not isinstance(point, Mapping):
            raise ArgumentError(f"schedule: got {point!r}, expected a dict of knob to value.")
        self._knobs = self.complete(point or {})
        why = self.fault(self.task, self._knobs)
        if why:
            raise ArgumentError(f"schedule: {why}")

    def __getitem__(self, knob: str) -> Any:
        return self._knobs[knob]

    def __iter__(self) -> Iterator[str]:
        return iter(self._knobs)

    def __len__(self) -> int:
        return len(self._knobs)

    def __hash__(self) -> int:
        return hash((self.task, tuple(self._knobs.items())))

    def __repr__(self) -> str:
        return f"Schedule({self.task.key}, {self._knobs})"

    def __str__(self) -> str:
        return "\n".join(self.loop_nest())

    @staticmethod
    def complete(point: Mapping[str, object]) -> dict[str, object]:
        """Return a point with every knob, NumPy's numbers as Python's."""
        return NAIVE | {knob: plain(value) for knob, value in point.items()}

    @staticmethod
    def complete_alike(names: Collection[str]) -> dict[str, object] | None:
        """Return what fills any point of these knobs; None where that depends on their values."""
        return dict(NAIVE)

    @staticmethod
    def fault(task: Task, knobs: Mapping[str, object]) -> str | None:
        """Return which knob a schedule of this task has wrong, and why; None if it is legal."""
        for knob in knobs:
            if knob not in NAIVE:
                return f"there is no knob {knob!r}: the knobs are {', '.join(NAIVE)}."
        for knob in ("rows", "vectors", "unroll", "parallel", "tile_m", "tile_n", "tile_k"):
            value = knobs[knob]
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not whole and not (value is None and knob.startswith("tile")):
                return f"{knob} is {value!r}, expected a whole number of 1 or more."
        lanes = knobs["lanes"]
        if type(lanes) is not int or lanes not in LANES:
            return f"lanes is {lanes!r}, expected one of {LANES}: a vector is halved evenly."
        if not isinstance(knobs["order"], str) or knobs["order"] not in ORDERS:
            return f"order is {knobs['order']!r}, expected each of m, n and k once, such as 'nkm'."
        for knob in ("pack_a", "pack_b"):
            if not isinstance(knobs[knob], bool):
                return f"{knob} is {knobs[knob]!r}, expected True or False."
        return _misfit(task, knobs)

    def loop_nest(self) -> list[str]:
        """Return the loops that it makes, one a line, with what each tile touches."""
        s, axes = self, dict(zip("mnk", self.task.axes, strict=True))
        tiles = dict(zip("mnk", self.tiles, strict=True))
        lines, depth, open_loops = [f"# {s.task}"], 0, set()

        def put(text: str) -> None:
            lines.append("    " * depth + text)

        for axis in s["order"]:
            outermost = s["parallel"] > 1 and depth == 0
            shared = f"   # shared by {s['parallel']} threads" if outermost else ""
            if tiles[axis] < axes[axis]:
                put(f"for {axis}0 in range(0, {axes[axis]}, {tiles[axis]}):{shared}")
                depth += 1
            open_loops.add(axis)
            for name, knob, over in (("A", "pack_a", "mk"), ("B", "pack_b", "kn")):
                n_bytes = s.tile_bytes[name]
                if s[knob] and axis in over and set(over) <= open_loops:
                    put(f"pack {name}: {n_bytes:,} bytes   # {reach(n_bytes)}")
        put(f"for j in range(0, {min(tiles['n'], axes['n'])}, {s.columns}):")
        depth += 1
        put(f"for i in range(0, {min(tiles['m'], axes['m'])}, {s['rows']}):")
        depth += 1
        block = f"C[{s['rows']} x {s['vectors']} vectors of {s['lanes']}]"
        put(f"{block} in registers")
        unrolled = "   # unrolled" * (s["unroll"] > 1)
        put(f"for k in range(0, {tiles['k']}, {s['unroll']}):{unrolled}")
        put(f"    {block} += A[{s['rows']}] * B[{s['vectors']} vectors of {s['lanes']}]")
        lines += [f"# {note}" for note in s.notes()]
        return lines

    @property
    def columns(self) -> int:
        """Columns of the register block."""
        return int(self["vectors"] * self["lanes"])

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Sizes of the cache tile along (m, n, k), whole register blocks of each."""
        return tiles_of(self.task, self._knobs)

    @property
    def tile_bytes(self) -> dict[str, int]:
        """Bytes of the parts of A, B and C that one tile touches."""
        m, n, k = (min(t, size) for t, size in zip(self.tiles, self.task.axes, strict=True))
        item = self.task.item_bytes
        return {"A": m * k * item, "B": k * n * item, "C": m * n * item}

    def notes(self) -> list[str]:
        """Return what is legal here and yet likely to be slow."""
        notes, bits = [], self["lanes"] * self.task.item_bytes * 8
        registers, width = engine.vector_registers()
        if bits > width:
            notes.append(f"a vector of {bits} bits is computed as {bits // width} of {width}")
        # at once the innermost loop needs the block of C, a row of B and a number of A
        live = (self["rows"] * self["vectors"] + self["vectors"] + 1) * max(1, bits // width)
        if live > registers:
            notes.append(f"{live} live vectors, {registers} registers: the others wait in memory")
        return notes


def plain(value: object) -> object:
    """Return a knob's value, a number of NumPy's as Python's."""
    return value.item() if isinstance(value, np.generic) else value


def tiles_of(task: Task, knobs: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return the sizes of a cache tile along (m, n, k), legal or not."""
    m, n, k = task.axes
    columns = knobs["vectors"] * knobs["lanes"]
    sizes = ((knobs["tile_m"], m, knobs["rows"]), (knobs["tile_n"], n, columns))
    high, wide = (min(-(-(t or size) // b), -(-size // b)) * b for t, size, b in sizes)
    return high, wide, min(knobs["tile_k"] or k, k)


def _misfit(task: Task, knobs: Mapping[str, Any]) -> str | None:
    """Return why legal values do not go together, or not with this task."""
    m, n, k = task.axes
    rows, columns = knobs["rows"], knobs["vectors"] * knobs["lanes"]
    if rows > m:
        return f"rows is {rows}, but the result has only {m} rows."
    if (knobs["vectors"] - 1) * knobs["lanes"] >= n:
        return f"vectors is {knobs['vectors']}: the last has nothing to do in {n} columns."
    for knob, block, size in (("tile_m", rows, m), ("tile_n", columns, n)):
        if knobs[knob] is not None and knobs[knob] < min(block, size):
            return f"{knob} is {knobs[knob]}, less than the register block, which is {block}."
    depth = min(knobs["tile_k"] or k, k)
    if knobs["unroll"] > depth:
        return f"unroll is {knobs['unroll']}, but the innermost loop has only {depth} rounds."
    length = rows * knobs["vectors"] * knobs["unroll"]
    if length > LONGEST:
        return f"unroll is {knobs['unroll']}: {length} multiply-adds a round, above {LONGEST}."
    if knobs["parallel"] > 1 and knobs["order"][0] == "k":
        return "order has k outermost: threads would add to the same result. Put m or n first."
    return None


CACHES = (("L1", 32 * 2**10), ("L2", 2**20), ("L3", 2**25))


def reach(n_bytes: int) -> str:
    """Return the smallest usual cache that holds so many bytes."""
    for name, size in CACHES:
        if n_bytes <= size:
            return f"fits in {name}"
    return "in memory"


class DeviceSchedule(Schedule):
    """A legal choice of every knob for one task on a CUDA device; prints as the loops of a block.

    Raises:
        ArgumentError: an unknown knob, or one that this task or a device does not allow.
    """

    @staticmethod
    def complete(point: Mapping[str, object]) -> dict[str, object]:
        knobs = Schedule.complete(point)
        sizes = [knobs[name] for name in ("rows", "vectors", "lanes")]
        rows, vectors, lanes = (x if isinstance(x, int) else 1 for x in sizes)
        tiles = {"tile_m": SIDE * rows, "tile_n": SIDE * vectors * lanes, "tile_k": SIDE}
        usual = {"pack_a": True, "pack_b": True, **tiles}
        return knobs | {knob: value for knob, value in usual.items() if knob not in point}

    @staticmethod
    def complete_alike(names: Collection[str]) -> dict[str, object] | None:
        return DeviceSchedule.complete({}) if {"tile_m", "tile_n"} <= set(names) else None

    @staticmethod
    def fault(task: Task, knobs: Mapping[str, Any]) -> str | None:
        why = Schedule.fault(task, knobs)
        if why:
            return why
        if knobs["order"][-1] != "k":
            return f"order is {knobs['order']!r}: a thread block goes through all of k. Put k last."
        for knob in ("pack_a", "pack_b"):
            if not knobs[knob]:
                return f"{knob} is False, but a device copies all tiles. Leave it out."
        if knobs["parallel"] > 1:
            return f"parallel is {knobs['parallel']}, but a device shares out all tiles. Leave it."
        high, wide, depth = tiles_of(task, knobs)
        threads = high // knobs["rows"] * (wide // (knobs["vectors"] * knobs["lanes"]))
        if threads > MOST_THREADS:
            return (
                f"tile_m and tile_n are {high} and {wide}: {threads:,} threads a block, above "
                f"{MOST_THREADS:,}. Make the tile smaller or the register block larger."
            )
        shared = sum(shared_bytes(task, knobs))
        if shared > SHARED_BYTES:
            return (
                f"tile_k is {depth}: {shared:,} bytes of shared memory, above {SHARED_BYTES:,}. "
                "Make it smaller."
            )
        needed, most = registers_needed(task, knobs), min(MOST_REGISTERS, REGISTERS // threads)
        if needed > most:
            return (
                f"rows, vectors and lanes are {knobs['rows']}, {knobs['vectors']} and "
                f"{knobs['lanes']}: {needed} registers a thread, above the {most} that each of "
                f"{threads:,} threads can have. Make the register block smaller"
                + ("." if most == MOST_REGISTERS else ", or the tile.")
            )
        return None

    @property
    def registers(self) -> int:
        """Registers that a thread needs at least; `explain` asks the assembler."""
        return registers_needed(self.task, self)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a block takes."""
        return sum(shared_bytes(self.task, self))

    @property
    def threads(self) -> tuple[int, int]:
        """Threads of a block, down its rows and along its columns."""
        high, wide, _ = self.tiles
        return high // self["rows"], wide // self.columns

    @property
    def blocks(self) -> tuple[int, int]:
        """Thread blocks down the rows of C and along its columns."""
        m, n, _ = self.task.axes
        high, wide, _ = self.tiles
        return -(-m // high), -(-n // wide)

    def loop_nest(self) -> list[str]:
        (high, wide, depth), (m, n, k) = self.tiles, self.task.axes
        block = f"C[{self['rows']} x {self['vectors']} vectors of {self['lanes']}]"
        loops = {"m": f"for m0 in range(0, {m}, {high}):", "n": f"for n0 in range(0, {n}, {wide}):"}
        first, second = self["order"][:2]
        copies = [
            f"            copy {name}: {n_bytes:,} bytes to shared memory"
            for name, n_bytes in zip("AB", shared_bytes(self.task, self), strict=True)
        ]
        barrier = "            barrier"
        down, along = self.threads
        return [
            f"# {self.task}",
            f"{loops[first]}   # thread blocks",
            f"    {loops[second]}   # thread blocks",
            f"        for k0 in range(0, {k}, {depth}):",
            *copies,
            barrier,
            f"            for thread in range({down} * {along}):   # {block} in registers",
            f"                for k in range(0, {depth}, {self['unroll']}):"
            + "   # unrolled" * (self["unroll"] > 1),
            f"                    {block} += A[{self['rows']}] * B[{self['vectors']} vectors]",
            barrier,
        ]


def shared_bytes(task: Task, knobs: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of shared memory for a round's tile of A and of B."""
    high, wide, depth = tiles_of(task, knobs)
    a, b = (
        -(-(size + PAD) * depth * task.item_bytes // ALIGNED) * ALIGNED for size in (high, wide)
    )
    return a, b


def registers_needed(task: Task, knobs: Mapping[str, Any]) -> int:
    """Return the registers of 32 bits that a thread needs for its part of C, A and B, and beside.

    Where a device allows no fewer NVIDIA's assembler keeps all of them in registers; where it
    does, some wait in memory (tests hold it against the assembler).
    """
    rows, columns = int(knobs["rows"]), int(knobs["vectors"] * knobs["lanes"])
    return (rows * columns + rows + columns) * (task.item_bytes // 4) + OTHER_REGISTERS


def schedule_for(device: str) -> type[Schedule]:
    """Return the class of a device's schedules.

    Raises:
        ArgumentError: the device is neither "cpu" nor "cuda".
    """
    if device not in ("cpu", "cuda"):
        raise ArgumentError(f"schedule: got device {device!r}, expected 'cpu' or 'cuda'.")
    return Schedule if device == "cpu" else DeviceSchedule
