"""The same knobs on a CUDA device: tiles of C go to thread blocks, register blocks to threads.

    tile_m, tile_n   the tile of C that one thread block computes; 16 by 16 threads unless given
    rows, vectors, lanes   the register block of one thread; its vectors lie a row of threads apart
    tile_k           terms of a round: 16 unless given; None is all of them
    pack_a, pack_b   True: a round's tiles are always copied into shared memory first
    order            k last: a block goes through all of k; "nmk" numbers the blocks down the rows
    parallel         1: the tiles are shared by all that the device has

May import: errors, tasks, schedule.
Source: NVIDIA, CUDA C++ Programming Guide, sections 3.2.4 (shared memory) and 16.1 (limits).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError
from .schedule import Schedule, tiles_of
from .tasks import Task

THREADS = 1024  # of a block, at most
WARP = 32  # threads that run as one
REGISTERS = 255  # of a thread, of 32 bits
SHARED_BYTES = 48 * 2**10  # of a block, where nothing more is asked for
SIDE = 16  # threads along each side of a tile, and terms of a round, where a point does not say
ALIGNED = 16  # bytes that a thread loads at once
PAD = 4  # numbers between lines of a tile in shared memory, so that columns lie in several banks


class DeviceSchedule(Schedule):
    """A legal choice of every knob for one task on a CUDA device; prints as the loops of a block.

    Raises:
        ArgumentError: an unknown knob, or one that this task or a device does not allow.
    """

    @staticmethod
    def filled(point: Mapping[str, object]) -> dict[str, object]:
        """Return a point with every knob."""
        knobs = Schedule.filled(point)
        sizes = [knobs[name] for name in ("rows", "vectors", "lanes")]
        rows, vectors, lanes = (x if isinstance(x, int) else 1 for x in sizes)
        return knobs | {
            "pack_a": point.get("pack_a", True),
            "pack_b": point.get("pack_b", True),
            "tile_m": knobs["tile_m"] if "tile_m" in point else SIDE * rows,
            "tile_n": knobs["tile_n"] if "tile_n" in point else SIDE * vectors * lanes,
            "tile_k": knobs["tile_k"] if "tile_k" in point else SIDE,
        }

    @staticmethod
    def fault(task: Task, knobs: Mapping[str, Any]) -> str | None:
        """Return which knob is wrong, and why; None if all is legal."""
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
        if threads > THREADS:
            return (
                f"tile_m and tile_n are {high} and {wide}: {threads:,} threads a block, above "
                f"{THREADS:,}. Make the tile smaller or the register block larger."
            )
        shared = sum(shared_bytes(task, knobs))
        if shared > SHARED_BYTES:
            return (
                f"tile_k is {depth}: {shared:,} bytes of shared memory, above {SHARED_BYTES:,}. "
                "Make it smaller."
            )
        return None

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

    def notes(self) -> list[str]:
        """Return what is legal here and yet likely to be slow."""
        found, threads = [], self.threads[0] * self.threads[1]
        numbers = self["rows"] * self.columns + self["rows"] + self.columns
        live = numbers * self.task.item_bytes // 4
        if live > REGISTERS:
            found.append(f"{live} live registers of {REGISTERS}: the others wait in memory")
        if threads % WARP:
            found.append(f"{threads} threads a block: the last warp of {WARP} is not full")
        return found

    def loop_nest(self) -> list[str]:
        """Return the loops of a block, one a line."""
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
            *(f"# {note}" for note in self.notes()),
        ]


def shared_bytes(task: Task, knobs: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bytes of shared memory for a round's tile of A and of B."""
    high, wide, depth = tiles_of(task, knobs)
    a, b = (
        -(-(size + PAD) * depth * task.item_bytes // ALIGNED) * ALIGNED for size in (high, wide)
    )
    return a, b


def schedule_for(device: str) -> type[Schedule]:
    """Return the class of a device's schedules.

    Raises:
        ArgumentError: the device is neither "cpu" nor "cuda".
    """
    if device not in ("cpu", "cuda"):
        raise ArgumentError(f"schedule: got device {device!r}, expected 'cpu' or 'cuda'.")
    return Schedule if device == "cpu" else DeviceSchedule
