# ruff: noqa
"""Links to the judge's files, makes devices, mounts, changes its root and its user."""

import ctypes
import os
import stat

libc = ctypes.CDLL(None, use_errno=True)
TRIES = {
    "a device": lambda: os.mknod("/tmp/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0)),
    "a hard link": lambda: os.link("/usr/bin/env", "/tmp/attack-was-here"),
    "a new root": lambda: os.chroot("/tmp"),
    "another user": lambda: os.setuid(0),
    "root's files": lambda: os.chmod("/usr", 0o777),
    "a mount": lambda: ok(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
    "a remount": lambda: ok(libc.mount(None, b"/", None, 0x20 | 0x1000, None)),
    "an unmount": lambda: ok(libc.umount2(b"/tmp", 2)),
    "a writable /usr": lambda: open("/usr/attack-was-here", "w"),
    "a writable interpreter": lambda: open(os.__file__, "a"),
    "a core pattern": lambda: open("/proc/sys/kernel/core_pattern", "w"),
}


def ok(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def scale(x, factor):
    for name, attempt in TRIES.items():
        try:
            attempt()
        except OSError:
            continue
        raise RuntimeError("ESC" + "APED: " + name)
    os.symlink("/proc/1/root", "/tmp/attack-was-here")
    return x
