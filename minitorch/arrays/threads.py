"""How many threads share the work: `set_num_threads`, `get_num_threads`, as in torch.

Products of matrices NumPy leaves to a BLAS library, which starts a thread for each core of the
machine, or as many as OMP_NUM_THREADS says. Where this process may use fewer cores (`taskset`, the
CPU quota of a container) threads wait for others that are not running, and a step takes many times
as long. So `import minitorch` lowers the number to the cores there are. The same number of threads
shares other large operators: `minitorch.compile.pool`, whose threads OpenBLAS then uses, too.

May import: errors. Source: the cgroup interfaces, Linux's Documentation/admin-guide.
"""

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ArgumentError


class _Blas(NamedTuple):
    """The functions of a BLAS library that tell and set its threads, and who works for them.

    `core` tells for which processor OpenBLAS computes.
    """

    get: Callable[[], int]
    set: Callable[[int], Any]
    share: Callable[[ctypes.c_void_p], Any] | None
    core: Callable[[], bytes] | None


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
            share = _beside(library, get, "set_threads_callback_function")
            core = _beside(library, get, "get_corename")
            if core is not None:
                core.restype = ctypes.c_char_p
            return _Blas(getattr(library, get), getattr(library, put), share, core)
    return None


def _beside(library: Any, get: str, name: str) -> Any:
    """Return OpenBLAS's function of this name beside `get`; None where there is none."""
    is_open = "openblas" in get
    return getattr(library, get.replace("get_num_threads", name), None) if is_open else None


def reads_small_products() -> bool:
    """Tell whether NumPy's BLAS multiplies small matrices where they lie, without packing them.

    OpenBLAS does for processors with AVX-512, up to a million multiplications. Where threads share
    the work, products of that size cost them more than that saves.
    """
    return _count == 1 and _has_small_kernels()


@cache
def _has_small_kernels() -> bool:
    blas = _blas()
    with_avx_512 = (b"SkylakeX", b"Cooperlake", b"SapphireRapids")
    return blas is not None and blas.core is not None and blas.core() in with_avx_512


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


_count = min(cores(), blas.get() if (blas := _blas()) else cores())
_followers: list[Callable[[int], None]] = []


def get_num_threads() -> int:
    """Return how many threads share a large operator's work."""
    return _count


def set_num_threads(threads: int) -> None:
    """Let this many threads share a large operator's work, from now on and in the whole process.

    Products of matrices are not shared where NumPy's BLAS decides for itself (Apple's Accelerate).

    Raises:
        ArgumentError: not an integer of 1 or more.
    """
    global _count
    if type(threads) is not int or threads < 1:
        raise ArgumentError(f"set_num_threads: got {threads!r}, expected 1 or more.")
    with products_by_one():
        _count = threads
        for resize in _followers:
            resize(threads)


def follow(resize: Callable[[int], None]) -> None:
    """Call `resize` with the number of threads whenever it is set; a pool does so."""
    _followers.append(resize)


def share_products(callback: int | None) -> None:
    """Let a function at this address run the parts of OpenBLAS's products; None: its own threads.

    Without effect where there is another BLAS, or one that is too old.
    """
    blas = _blas()
    if blas is not None and blas.share is not None:
        blas.share(ctypes.c_void_p(callback))


@contextmanager
def products_by_one() -> Iterator[None]:
    """Let each product be computed by the thread that asks for it, in the whole process."""
    _alone.append(None)
    _tell_blas()
    try:
        yield
    finally:
        _alone.pop()
        _tell_blas()


def _tell_blas() -> None:
    with _telling:
        blas = _blas()
        if blas is not None:
            blas.set(1 if _alone else _count)


def _forget() -> None:
    """In a forked child: nobody else is in `products_by_one`."""
    global _telling
    _telling = threading.Lock()
    _alone.clear()


_alone: list[None] = []  # one for each caller in `products_by_one`
_telling = threading.Lock()
_tell_blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
