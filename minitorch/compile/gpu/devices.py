"""NVIDIA's devices in numbers: what a block may take, how many blocks fit, what bounds a kernel.

All of it is arithmetic on published limits: predictions, nothing that was measured.

    occupancy   warps that a multiprocessor holds at once, over those that it could hold
    roofline    a kernel takes no less than its arithmetic at the peak rate, and no less than
                its bytes at the memory's rate

May import: errors. Source: NVIDIA, CUDA C++ Programming Guide 12.9, table 27 (limits by compute
capability); data sheets of A100 (80 GB SXM), H100 (SXM) and H200 (SXM); Williams, Waterman &
Patterson, CACM 52(4), 2009 (roofline).
"""

from typing import NamedTuple

from ...errors import ArgumentError

WARP = 32  # threads that a multiprocessor starts together
REGISTERS = 65_536  # of a multiprocessor, and the most of a block
MOST_REGISTERS = 255  # of one thread
REGISTERS_AT_ONCE = 256  # a warp gets whole multiples of so many
WARPS_AT_ONCE = 4  # warps are shared out to four schedulers
SHARED_AT_ONCE = 128  # bytes: a block gets whole multiples
SHARED_RESERVED = 1024  # bytes of each block that the system keeps


class Device(NamedTuple):
    """One kind of device.

    Attributes:
        name: as in its data sheet.
        architecture: as the assembler calls it, such as "sm_90".
        multiprocessors: how many work side by side.
        warps, blocks: the most that one multiprocessor holds.
        shared_bytes: shared memory of one multiprocessor.
        flops: float32 operations a second, a fused multiply-add for two, tensor cores left out.
        flops_float64: the same of float64.
        bytes_per_s: of its memory.
    """

    name: str
    architecture: str
    multiprocessors: int
    flops: float
    flops_float64: float
    bytes_per_s: float
    shared_bytes: int
    warps: int = 64
    blocks: int = 32


DEVICES = {
    device.name: device
    for device in (
        Device("A100", "sm_80", 108, 19.5e12, 9.7e12, 2.039e12, 164 * 2**10),
        Device("H100", "sm_90", 132, 67e12, 34e12, 3.35e12, 228 * 2**10),
        Device("H200", "sm_90", 132, 67e12, 34e12, 4.8e12, 228 * 2**10),
    )
}


def device_named(name: str) -> Device:
    """Return the device whose name is part of `name`, as torch gives it ("NVIDIA H100 80GB HBM3").

    Raises:
        ArgumentError: none of those in the table.
    """
    for key, device in DEVICES.items():
        if key in name:
            return device
    raise ArgumentError(f"device: got {name!r}, expected one of {', '.join(DEVICES)}.")


class Occupancy(NamedTuple):
    """How many blocks of a kernel a multiprocessor holds at once.

    Attributes:
        blocks: how many; 0 if not even one fits.
        share: their warps over the most that it could hold.
        limit: what allows no more: "threads", "blocks", "registers" or "shared memory".
    """

    blocks: int
    share: float
    limit: str


def occupancy(device: Device, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return how many blocks of so many threads, registers a thread and bytes fit at once.

    Source: NVIDIA, CUDA Occupancy Calculator (the same steps).
    """
    warps = -(-threads // WARP)
    registers_a_warp = _round_up(registers * WARP, REGISTERS_AT_ONCE)
    warps_by_registers = REGISTERS // registers_a_warp // WARPS_AT_ONCE * WARPS_AT_ONCE
    shared = _round_up(shared_bytes + SHARED_RESERVED, SHARED_AT_ONCE)
    fitting = {
        "threads": device.warps // warps,
        "blocks": device.blocks,
        "registers": warps_by_registers // warps,
        "shared memory": device.shared_bytes // shared,
    }
    limit = min(fitting, key=fitting.__getitem__)
    return Occupancy(fitting[limit], fitting[limit] * warps / device.warps, limit)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


class Roofline(NamedTuple):
    """The least seconds that a kernel can take on a device, and why.

    Attributes:
        arithmetic_s: at the peak rate, with multiprocessors idle in the last round of blocks.
        memory_s: each operand read once, the result written once.
        busy: the share of multiprocessors that have work, over all rounds of blocks.
        read_bytes: what all blocks together ask for; what the caches do not hold comes from memory.
    """

    arithmetic_s: float
    memory_s: float
    busy: float
    read_bytes: int

    @property
    def seconds(self) -> float:
        """The larger one of both."""
        return max(self.arithmetic_s, self.memory_s)

    @property
    def bound(self) -> str:
        """Which one it is: "arithmetic" or "memory"."""
        return "arithmetic" if self.arithmetic_s >= self.memory_s else "memory"


def roofline(
    device: Device, flops: float, least_bytes: float, blocks: int, read_bytes: int, dtype: str
) -> Roofline:
    """Return the roofline of a kernel of so many blocks of equal work."""
    rounds = -(-blocks // device.multiprocessors)
    busy = blocks / (rounds * device.multiprocessors)
    peak = device.flops if dtype == "float32" else device.flops_float64
    return Roofline(flops / (peak * busy), least_bytes / device.bytes_per_s, busy, read_bytes)
