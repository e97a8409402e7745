"""The limits that a worker puts on itself before it runs anything of the learner's.

Each is per process; what one submission uses in all is watched from outside (`watch`). Imports
nothing of ours: `Limits` arrives as plain data.
"""

import ctypes
import os
import resource
from collections.abc import Mapping
from typing import Any

OPEN_FILES = 128
MESSAGE_QUEUE_BYTES = 0
SET_DUMPABLE = 4  # prctl
# NumPy and torch reserve more than they touch; twice the limit lets them, and stops one huge array
# as the MemoryError that it is.
RESERVED_OVER_RESIDENT = 2


def apply(limits: Mapping[str, Any], *, user_processes: int = 0) -> None:
    """Set this process's limits; it cannot raise them again, and its children inherit them.

    `limits` are the fields of `records.Limits`. `user_processes` is what already counts against
    this user where the kernel counts over all namespaces (before Linux 5.14).
    """
    cpu_s = max(1, round(limits["cpu_s"]))
    wanted = {
        resource.RLIMIT_CPU: cpu_s,
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_DATA: RESERVED_OVER_RESIDENT * limits["memory_bytes"],
        resource.RLIMIT_NPROC: limits["processes"] + user_processes,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MSGQUEUE: MESSAGE_QUEUE_BYTES,
        resource.RLIMIT_MEMLOCK: 0,
    }
    for kind, value in wanted.items():
        ceiling = resource.getrlimit(kind)[1]
        allowed = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(kind, (allowed, allowed))


def wait_as_init(child: int) -> int:
    """Collect every process that ends until `child` does; return its exit status.

    That is negative for a signal. Meanwhile no one may look into this process or write to it,
    though it shares a user with the learner's code.
    """
    ctypes.CDLL(None).prctl(SET_DUMPABLE, 0, 0, 0, 0)
    ended, how = 0, 0
    while ended != child:
        ended, how = os.wait()
    return os.waitstatus_to_exitcode(how)
