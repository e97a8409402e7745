"""How many threads share a product of matrices: `set_num_threads`, `get_num_threads`, as in torch.

NumPy leaves products to a BLAS library, which starts a thread for each core of the machine, or as
many as OMP_NUM_THREADS says. Where this process may use fewer cores (`taskset`, the CPU quota of a
container) threads wait for others that are not running, and a step takes many times as long. So
`import minitorch` lowers the number to the cores there are; `set_num_threads` sets any other.

May import: errors. Source: the cgroup interfaces, Linux's Documentation/admin-guide.
"""

import ctypes
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ArgumentError


class _Blas(NamedTuple):
    """The functions of a BLAS library that tell and set its threads."""

    get: Callable[[], int]
    set: Callable[[int], Any]


_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),  # NumPy's wheels
    ("scipy_openblas_get_num_threads", "scipy_openblas_set_num_threads"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),  # of a distribution, or conda
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)


@cache
def _blas() -> _Blas | None:
    """Return NumPy's BLAS; None where it is one that cannot be told, such as Apple's."""
    try:
        library = ctypes.CDLL(str(sys.modules["numpy._core._multiarray_umath"].__file__))
    except (KeyError, OSError):
        return None
    for get, put in _NAMES:  # looked for in what NumPy is linked with, too
        if hasattr(library, get) and hasattr(library, put):
            return _Blas(getattr(library, get), getattr(library, put))
    return None


def cores(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return how many cores this process may use: its affinity, and its container's quota.

    Args:
        groups: where the control groups are, version 1 or 2; a container sees its own there.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    count = len(affinity(0)) if affinity else os.cpu_count() or 1
    for files in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with suppress(OSError):
            quota, period = " ".join((groups / name).read_text() for name in files).split()
            if quota not in ("max", "-1"):
                count = min(count, math.ceil(int(quota) / int(period)))
    return max(count, 1)


def get_num_threads() -> int:
    """Return how many threads share a product of matrices."""
    blas = _blas()
    return cores() if blas is None else blas.get()


def set_num_threads(threads: int) -> None:
    """Let this many threads share a product of matrices, from now on and in the whole process.

    Without effect where NumPy's BLAS decides for itself (Apple's Accelerate). The threads of
    generated kernels are `minitorch.compile.set_num_threads`.

    Raises:
        ArgumentError: not an integer of 1 or more.
    """
    if type(threads) is not int or threads < 1:
        raise ArgumentError(f"set_num_threads: got {threads!r}, expected 1 or more.")
    blas = _blas()
    if blas is not None:
        blas.set(threads)


if get_num_threads() > (_most := cores()):
    set_num_threads(_most)
