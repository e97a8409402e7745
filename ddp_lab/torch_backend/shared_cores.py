"""Which core a rank keeps to, where several hosts are really one machine.

Hosts in namespaces share one kernel's cores. Their programs are then more than the cores, and the
kernel's balancing gives ranks of one host unlike shares for tens of milliseconds: a bucket that
needs the gradients of both waits for the slower one, while the link is idle. On machines of their
own each would have a core.

May import: link.
"""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from ddp_lab.transport.links.link import Hosts, home_of


def core_of(rank: int, hosts: Hosts, kernels: Sequence[str], cores: Sequence[int]) -> int | None:
    """Return the core that a rank should keep to, None where the kernel balances well enough.

    One machine's cores are divided evenly only where each host has a rank, or several, for each.

    Args:
        hosts: the ranks of each.
        kernels: each rank's kernel; hosts that are one machine have one.
        cores: those that this process may use.
    """
    home = home_of(rank, hosts)
    neighbours = sum(kernels[host[0]] == kernels[rank] for host in hosts)
    if neighbours < 2 or len(home) < 2 or len(home) % len(cores):
        return None
    return sorted(cores)[home.index(rank) % len(cores)]


def keep_to(core: int) -> None:
    """Let all threads of this process, and those that they start, run on one core."""
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or a sandbox forbids this
            os.sched_setaffinity(int(thread.name), {core})
