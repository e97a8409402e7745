# ruff: noqa
"""Passes word between sandboxes by locks on, and watches of, the system's files they all see."""

import ctypes
import fcntl
import os
import struct
import time

libc = ctypes.CDLL(None, use_errno=True)
SHARED = os.__file__


def lock(kind, start):
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0)


def tries(call, *arguments):
    try:
        return call(*arguments)
    except OSError:
        return None


def pass_on(comm, x):
    file = os.open(SHARED, os.O_RDONLY)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    libc.inotify_add_watch(watch, os.fsencode(SHARED), 0xFFF)
    tries(fcntl.fcntl, file, fcntl.F_SETLK, lock(fcntl.F_RDLCK, 1000 + comm.rank))
    locked = tries(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB) is None
    time.sleep(0.2)
    for other in range(3):
        question = lock(fcntl.F_WRLCK, 1000 + other)
        told = tries(fcntl.fcntl, file, fcntl.F_GETLK, question)
        if told is not None and told != question:
            raise RuntimeError("ESC" + "APED: a rank sees another's lock")
    if watch != -1:
        raise RuntimeError("ESC" + "APED: a rank may watch the system's files")
    if tries(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK) is not None:
        raise RuntimeError("ESC" + "APED: a rank may lease the system's files")
    if not locked:
        raise RuntimeError("ESC" + "APED: a rank locks the system's files")
    return x
