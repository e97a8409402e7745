# ruff: noqa
"""Lets itself be woken while the judge has stopped it to time a reference."""

import ctypes
import fcntl
import os
import platform
import signal
import threading

libc = ctypes.CDLL(None, use_errno=True)
ME, HERE = os.getpid(), threading.get_native_id()
X86_64 = {
    "kill": (62, ME, signal.SIGCONT),
    "tkill": (200, HERE, signal.SIGCONT),
    "tgkill": (234, ME, HERE, signal.SIGCONT),
    "rt_sigqueueinfo": (129, ME, signal.SIGCONT, 0),
    "rt_tgsigqueueinfo": (297, ME, HERE, signal.SIGCONT, 0),
    "pidfd_send_signal": (424, os.pidfd_open(ME), signal.SIGCONT, 0, 0),
    "timer_create": (222, 1, 0, 0),
}


def attempt():
    reading, _ = os.pipe()
    for name, wake in {
        "os.kill": lambda: os.kill(ME, signal.SIGCONT),
        "F_SETSIG": lambda: fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGCONT),
    }.items():
        try:
            wake()
        except OSError:
            continue
        raise RuntimeError("ESC" + "APED: " + name)
    for name, (number, *arguments) in X86_64.items():
        if platform.machine() == "x86_64":
            result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments))
            if result != -1 or ctypes.get_errno() != 1:
                raise RuntimeError("ESC" + "APED: " + name)


def scale(x, factor):
    attempt()
    return x
