"""How the ranks of a torch process group find each other: through torch's store."""

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

from ddp_lab.errors import RankTimeout
from ddp_lab.transport.base import Transport
from ddp_lab.transport.segment import Segment
from ddp_lab.transport.shm import ShmTransport
from ddp_lab.transport.tcp import connect, listen

ARENA_BYTES = 2 << 30  # of addresses: groups are many, and most are small
ATTACH_S = 60.0


def join(store: Any, rank: int, size: int, timeout_s: float) -> Transport:
    """Share memory if all ranks are on one machine, else use TCP."""
    store.set(f"ddp_lab/machine/{rank}", _machine())
    machines = {store.get(f"ddp_lab/machine/{peer}") for peer in range(size)}
    if len(machines) == 1 and Path("/proc/self/fd").is_dir():
        return ShmTransport(_shared_segment(store, rank, size), rank)
    return _join_by_tcp(store, rank, size, timeout_s)


def _machine() -> str:
    """Return a name that only processes which see each other's memory have in common."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    names = [socket.gethostname(), str(os.getuid())]
    with contextlib.suppress(OSError):
        names += [boot.read_text().strip(), str(Path("/proc/self/ns/pid").readlink())]
    return "/".join(names)


def _shared_segment(store: Any, rank: int, size: int) -> Segment:
    """Return rank 0's segment, opened through its descriptor."""
    if rank == 0:
        segment = Segment.create(size, ARENA_BYTES)
        place = f"{os.getpid()} {segment.fd} {segment.layout.arena_bytes}"
        store.set("ddp_lab/segment", place)
    else:
        pid, fd, arena_bytes = map(int, store.get("ddp_lab/segment").split())
        descriptor = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        segment = Segment(descriptor, size, arena_bytes)
    store.add("ddp_lab/attached", 1)
    give_up = time.monotonic() + ATTACH_S
    while store.add("ddp_lab/attached", 0) < size:  # rank 0 must not close before all have it
        if time.monotonic() > give_up:
            raise RankTimeout("init_process_group: not all ranks came to share memory.")
        time.sleep(0.001)
    segment.close()
    return segment


def _join_by_tcp(store: Any, rank: int, size: int, timeout_s: float) -> Transport:
    listener = None
    if rank == 0:
        listener = listen(("", 0))
        host = os.environ.get("MASTER_ADDR") or socket.gethostname()
        store.set("ddp_lab/address", f"{host} {listener.getsockname()[1]}")
    host, port = store.get("ddp_lab/address").decode().split()
    return connect(rank, size, (host, int(port)), listener, timeout_s=timeout_s)
