"""What a schedule takes of a device, how much of the device it fills, and what bounds it.

Registers are the assembler's where it is installed, else what the schedule needs at least. The
rest is arithmetic on the device's published limits: predictions, which `make bench-gpu` prints
beside what it measures.

May import: errors, assembler, devices, engine, ptx, schedule.
"""

import math
from collections import Counter
from dataclasses import dataclass

from ...errors import ArgumentError
from ..engine import assembly, available
from ..schedule import DeviceSchedule
from . import assembler
from .devices import Device, Occupancy, Roofline, device_named, occupancy, roofline
from .ptx import TRIPLE, ThreadBlocks

OLDEST = "sm_75"  # PTX for it can be assembled for every newer device


@dataclass(frozen=True)
class Explanation:
    """A schedule on a device; prints as a table.

    Attributes:
        device: which one.
        threads: of a block.
        registers: of a thread; the assembler's, or estimated where there is none.
        shared_bytes: of a block.
        spilled_bytes: what a thread writes to memory because registers do not suffice; None where
            there is no assembler.
        occupancy: how much of a multiprocessor it fills, and what limits that.
        roofline: the least seconds, and what bounds them.
        instructions: how many of each kind its code has; empty where there is no disassembler.
    """

    device: Device
    threads: int
    registers: int
    shared_bytes: int
    spilled_bytes: int | None
    occupancy: Occupancy
    roofline: Roofline
    instructions: Counter[str]

    def __str__(self) -> str:
        estimated = "" if self.spilled_bytes is not None else ", estimated: no assembler here"
        spilled = f", {self.spilled_bytes:,} bytes spilled" if self.spilled_bytes else ""
        o, r = self.occupancy, self.roofline
        lines = [
            ("device", f"{self.device.name} ({self.device.architecture}), predicted"),
            ("registers", f"{self.registers} a thread{spilled}{estimated}"),
            ("shared memory", f"{self.shared_bytes:,} bytes a block of {self.threads} threads"),
            ("occupancy", f"{o.share:.0%}: {o.blocks} blocks at once, limited by {o.limit}"),
            ("busy", f"{r.busy:.0%} of {self.device.multiprocessors} multiprocessors"),
            ("at least", f"{1e6 * r.seconds:.1f} µs, bound by {r.bound}"),
            ("read", f"{r.read_bytes:,} bytes by all blocks together"),
        ]
        if self.instructions:
            count = self.instructions
            kinds = ", ".join(f"{count[kind]} {kind}" for kind in assembler.KINDS if count[kind])
            lines.append(("instructions", f"{count['all']}: {kinds}"))
        return "\n".join(f"{name:14} {text}" for name, text in lines)


def explain(schedule: DeviceSchedule, device: str = "H100") -> Explanation:
    """Return what a schedule takes of a device, which need not be here.

    Args:
        schedule: of a product or a convolution with device="cuda".
        device: "A100", "H100" or "H200", or a name that holds one of these.
    Raises:
        ArgumentError: not a schedule of a device, or no such device.
    """
    if not isinstance(schedule, DeviceSchedule):
        raise ArgumentError(
            f"explain: got {type(schedule).__name__}, expected a DeviceSchedule. Make one of the "
            "task and the point."
        )
    named = device_named(device)
    assembled, count = None, Counter[str]()
    if available() and assembler.available("ptxas"):
        ptx = assembly(ThreadBlocks(schedule).text(), TRIPLE, OLDEST)
        assembled = assembler.assemble(ptx, named.architecture)["kernel"]
        if assembler.available("nvdisasm"):
            count = assembler.instructions(ptx, named.architecture)
    registers = assembled.registers if assembled else schedule.registers
    threads, shared = math.prod(schedule.threads), schedule.shared_bytes
    return Explanation(
        named, threads, registers, shared, assembled.spilled_bytes if assembled else None,
        occupancy(named, threads, registers, shared), predict_roofline(schedule, named), count,
    )  # fmt: skip


def predict_roofline(schedule: DeviceSchedule, device: Device) -> Roofline:
    """Return the roofline of a schedule: its blocks, and the bytes that they read and write."""
    task = schedule.task
    (m, n, k), (high, wide, _) = task.axes, schedule.tiles
    down, along = schedule.blocks
    least = (m * k + k * n + m * n) * task.item_bytes
    read = down * along * (high + wide) * k * task.item_bytes
    return roofline(device, task.flops, least, down * along, read, task.dtype)
