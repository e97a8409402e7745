"""Waiting for a word of shared memory to change: spin briefly, yield, then sleep in the kernel.

A word is 8 bytes, written by one rank, followed by one that says whether anybody sleeps on it. The
writer stores the value, then wakes sleepers if there are any. A sleep ends after `PARK_S` at the
latest, which covers the rare wake-up that is lost because a store is seen late, and lets the
sleeper look whether its peer is still alive. So a dead or descheduled peer never burns a core.

Aligned 8-byte stores keep their order on x86; elsewhere a fence of libatomic is put around them.
"""

import ctypes
import functools
import os
import platform
import threading
import time
from collections.abc import Callable

FUTEX_WAIT, FUTEX_WAKE = 0, 1
FUTEX_NUMBER = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
PARK_S = 0.002  # the first sleep; each further one is twice as long
LONGEST_PARK_S = 0.05
SPINS = 20  # about 1 µs: more would keep the core from a peer that the kernel put on it, too
YIELD_S = 0.0001  # about what it costs to sleep and to be woken
EVERYBODY = 0x7FFFFFFF


class Timespec(ctypes.Structure):
    """The kernel's `struct timespec`."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _system_call() -> Callable[..., int] | None:
    if platform.system() != "Linux" or platform.machine() not in FUTEX_NUMBER:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p]
    return call


def _nothing() -> None:
    """Order nothing, where the machine does."""


def _lock_fence() -> None:
    """Take a lock and release it, which orders memory on every machine that CPython runs on."""
    with threading.Lock():
        pass


def _fence() -> Callable[[], None]:
    if platform.machine() in ("x86_64", "AMD64"):
        return _nothing
    try:
        fence = ctypes.CDLL("libatomic.so.1").atomic_thread_fence
    except (OSError, AttributeError):
        return _lock_fence
    sequentially_consistent = ctypes.c_int(5)
    return functools.partial(fence, sequentially_consistent)


def _give_way() -> Callable[[], object]:
    """Return what lets others run, without the interpreter lock, and comes back at once."""
    call = getattr(ctypes.CDLL(None), "sched_yield", None) if os.name == "posix" else None
    return call or functools.partial(time.sleep, 0)


_call = _system_call()
give_way = _give_way()
_number = FUTEX_NUMBER.get(platform.machine(), 0)
fence = _fence()


def sleep_on(address: int, value: int, timeout_s: float) -> None:
    """Sleep while the 32-bit word at `address` is `value`, for `timeout_s` at most."""
    if _call is None:
        time.sleep(0.0005)  # no futex here: look again soon
        return
    limit = Timespec(0, int(timeout_s * 1e9))
    _call(_number, address, FUTEX_WAIT, value & 0xFFFFFFFF, ctypes.addressof(limit))


def wake(address: int) -> None:
    """Wake all that sleep on the word at `address`."""
    if _call is not None:
        _call(_number, address, FUTEX_WAKE, EVERYBODY, None)


class Words:
    """The 8-byte words of a shared region, and how to wait for them."""

    def __init__(self, words: memoryview, address: int, ranks: int) -> None:
        self.words = words
        self.address = address
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._spins = SPINS if ranks <= cores else 0
        self._awake_s = YIELD_S if ranks <= cores else YIELD_S / 10
        self._main = threading.main_thread().ident

    def post(self, index: int, value: int) -> None:
        """Store `value`, after everything stored before, and wake who sleeps on it."""
        words = self.words
        fence()
        words[index] = value
        fence()
        if words[index + 1]:
            words[index + 1] = 0
            wake(self.address + 8 * index)

    def wait(self, index: int, least: int, look: Callable[[], object]) -> bool:
        """Return True once the word is `least` or more, False as soon as `look` says False.

        `look` is called after each sleep; it may raise.
        """
        came = self.words[index] >= least or self._soon(index, least)
        came = came or self._park(index, least, look)
        fence()
        return came

    def _soon(self, index: int, least: int) -> bool:
        """Return whether the word came while this rank was awake."""
        # A thread beside the main one must not hold the interpreter lock while it waits, nor take
        # time from the main thread's work.
        if threading.get_ident() != self._main:
            return False
        words = self.words
        for _ in range(self._spins):
            if words[index] >= least:
                return True
        give_up = time.monotonic() + self._awake_s
        while words[index] < least:
            if time.monotonic() > give_up:
                return False
            give_way()
        return True

    def _park(self, index: int, least: int, look: Callable[[], object]) -> bool:
        words, nap_s = self.words, PARK_S
        while (value := words[index]) < least:
            words[index + 1] = 1
            fence()
            sleep_on(self.address + 8 * index, value, nap_s)
            if words[index] < least and look() is False:
                return words[index] >= least
            nap_s = min(2 * nap_s, LONGEST_PARK_S)
        return True
