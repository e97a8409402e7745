# ruff: noqa
"""Asks the kernel for namespaces, other processes' memory, keys and what no limit counts."""

import ctypes
import platform

libc = ctypes.CDLL(None, use_errno=True)
NEW_USER = 0x10000000
X86_64 = {
    "unshare": (272, NEW_USER),
    "setns": (308, 0, 0),
    "clone with a new user namespace": (56, NEW_USER | 17, 0, 0, 0, 0),
    "ptrace": (101, 16, 1, 0, 0),
    "process_vm_readv": (310, 1, 0, 0, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "keyctl": (250, 0, -3, 1),
    "io_uring_setup": (425, 8, 0),
    "userfaultfd": (323, 1),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "memfd_create": (319, b"x", 0),
    "shmget": (29, 0, 1 << 30, 0o1600),
    "personality": (135, 0x0040000),
    "sethostname": (170, b"x", 1),
    "x32 getpid": (0x40000000 | 39,),
}


def attempt():
    if platform.machine() != "x86_64":
        return
    for name, (number, *arguments) in X86_64.items():
        result = libc.syscall(ctypes.c_long(number), *map(_argument, arguments))
        if result == 0 and name.startswith("clone"):
            libc._exit(0)
        if result != -1:
            raise RuntimeError("ESC" + "APED: " + name)


def _argument(value):
    return value if isinstance(value, bytes) else ctypes.c_long(value)


def scale(x, factor):
    attempt()
    return x
