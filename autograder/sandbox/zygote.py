"""Inside the outer wall: a warm process that forks a worker for each submission.

It has imported NumPy and what else the lab needs, has never run a learner's code, and never will.
The judge sends it `(socket, output, status)` descriptors; each time it forks

    init    pid 1 of namespaces of its own: user, mount, pid, network, ipc, uts, cgroup; mounts a
            /proc, /tmp and /dev/shm, waits for the worker, and takes every other process with it
            when it ends
    worker  gives up all capabilities, puts on its limits and the system-call filter, and serves

so that two submissions share nothing but read-only files. Everything here is what bubblewrap does,
done a second time around a process that is already warm. Linux only; calls libc by ctypes.
"""

import array
import ctypes
import fcntl
import gc
import itertools
import os
import platform
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from autograder.sandbox import wire, worker

NAMESPACES = (
    0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)
PARENT = 0x00008000  # what is cloned is collected by bubblewrap's pid 1, as the zygote itself is
CLONE = 56 if platform.machine() == "x86_64" else 220
NOSUID, NODEV, NOEXEC, REC, PRIVATE = 0x2, 0x4, 0x8, 0x4000, 0x40000
SET_SECCOMP, SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
CAPABILITY_VERSION_3 = 0x20080522
MAX_FILES = 10_000  # of a temporary file system: each costs memory that its size does not count
SET_INTERFACE_FLAGS, INTERFACE_UP = 0x8914, 0x1
DESCRIPTORS = 3
FEW_WORKERS = 48  # as many as cost, one with the other, what it costs to move the heap

libc = ctypes.CDLL(None, use_errno=True)
python = ctypes.PyDLL(None, use_errno=True)  # holds the interpreter's lock, as a fork has to


def main() -> None:
    """Serve the judge on the socket whose descriptor is `argv[1]`, until it hangs up."""
    control = socket.socket(fileno=int(sys.argv[1]))
    config = wire.receive(control)
    gc.disable()  # what is imported stays
    worker.preload(config["preload"])
    gc.freeze()  # a worker's collections need not go through what is here, nor copy its memory
    gc.enable()
    control.sendall(b"\0")
    for number in itertools.count():
        descriptors = _receive_descriptors(control)
        if number == FEW_WORKERS:
            collapse_heap()
        _start(control, *descriptors)


def _start(control: socket.socket, connection: int, output: int, status: int) -> None:
    """Start `init` with these descriptors; why it could not be is printed to its output."""
    user, group = os.getuid(), os.getgid()
    try:
        if _clone() == 0:
            control.close()
            _run(lambda: _enter(connection, output, status, user, group))
    except OSError as error:
        os.write(output, f"zygote: {error}\n".encode())
    for descriptor in (connection, output, status):
        os.close(descriptor)


def _clone() -> int:
    """Fork into new namespaces; return as `os.fork` does.

    The C library and Python are told nothing: this process has one thread, whose state is the
    child's too. A fork and `unshare` would take one more process, and to copy what a warm one has
    mapped is most of what a worker costs.
    """
    nothing = [ctypes.c_void_p()] * 4
    flags = NAMESPACES | PARENT | signal.SIGCHLD
    child: int = python.syscall(CLONE, ctypes.c_ulong(flags), *nothing)
    _check(min(child, 0), "namespaces")
    return child


def _fork() -> int:
    """Fork as the C library does; return as `os.fork` does.

    What Python does after a fork is for several threads, and copies some 200 pages of memory.
    """
    child: int = python.fork()
    _check(min(child, 0), "fork")
    return child


def _receive_descriptors(control: socket.socket) -> list[int]:
    data, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(DESCRIPTORS * 4))
    if not data:
        os._exit(0)
    received = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            received.frombytes(content[: len(content) // 4 * 4])
    return list(received)


def _run(function: Callable[[], None]) -> NoReturn:
    """Run `function` as the whole life of this process; its errors go to the output pipe."""
    try:
        function()
    except BaseException as error:
        os.write(2, f"zygote: {type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os._exit(0)


def _enter(connection: int, output: int, status: int, user: int, group: int) -> None:
    """Be the same user and group in the new namespaces, and `init` there."""
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    _write("/proc/self/setgroups", b"deny")
    _write("/proc/self/uid_map", b"%d %d 1" % (user, user))
    _write("/proc/self/gid_map", b"%d %d 1" % (group, group))
    _init(socket.socket(fileno=connection), socket.socket(fileno=status))


def _init(connection: socket.socket, status: socket.socket) -> None:
    """Be pid 1: mount, tell the judge, start the worker, wait for it, report how it ended."""
    config = wire.receive(connection)
    os.setsid()
    _mount_own(config["limits"]["file_bytes"])
    _raise_loopback()
    _write("/proc/sys/user/max_user_namespaces", b"0")
    status.sendall(b"\0")  # the kernel adds who sent it: so the judge learns whom to kill
    if status.recv(1) != b"\0":
        return
    child = _fork()
    if child == 0:
        status.close()
        _run(lambda: _run_worker(connection, config))
    connection.close()
    _give_up_capabilities()
    status.sendall(struct.pack("<i", worker.wait_as_init(child)))


def _run_worker(connection: socket.socket, config: Mapping[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker.apply_limits(config["limits"], user_processes=config["user_processes"])
    _give_up_capabilities()
    if config["filter"]:
        _filter_calls(config["filter"])
    worker.serve(connection, {**config, "preload": []})


def _mount_own(size_bytes: int) -> None:
    _check(libc.mount(b"none", b"/", None, REC | PRIVATE, None), "private mounts")
    options = f"size={size_bytes},nr_inodes={MAX_FILES},mode=1777".encode()
    for place in (b"/tmp", b"/dev/shm"):
        _check(libc.mount(b"tmpfs", place, b"tmpfs", NOSUID | NODEV, options), str(place))
    _check(libc.mount(b"proc", b"/proc", b"proc", NOSUID | NODEV | NOEXEC, None), "/proc")
    os.chdir("/tmp")


def _raise_loopback() -> None:
    """Bring `lo` up, so that processes of one submission can talk by TCP."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh22x", b"lo", INTERFACE_UP)
        fcntl.ioctl(any_socket, SET_INTERFACE_FLAGS, request)


def _give_up_capabilities() -> None:
    header = struct.pack("<Ii", CAPABILITY_VERSION_3, 0)
    _check(libc.capset(header, bytes(24)), "capset")


def _filter_calls(program: bytes) -> None:
    """Install the system-call filter for this process and all that come from it."""
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = ctypes.create_string_buffer(
        struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    )
    _check(libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    _check(libc.prctl(SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0), "seccomp")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _write(path: str, text: bytes) -> None:
    """Write to a file of the kernel's, with as few pages of Python's touched as can be."""
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text)
    os.close(descriptor)


HUGE_PAGE_BYTES = 2 << 20
LEAST_BYTES = 64 << 20  # a heap of NumPy alone, 20 MiB, gains nothing
MADV_COLLAPSE = 25


def collapse_heap() -> int:
    """Move this process's heap to huge pages if it is large; return how many bytes are there.

    A fork copies an entry for each 4 KiB of memory; with torch imported that is most of what a
    worker costs. Where the heap lies in huge pages it copies one for 2 MiB. To move it there takes
    a second, what it saves over some 50 workers, so it is done once as many have been asked for.

    Linux 6.1 or later; elsewhere nothing happens, and nothing but speed is lost.
    """
    ranges = list(heap(Path("/proc/self/maps").read_text()))
    if sum(end - start for start, end in ranges) < LEAST_BYTES:
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return sum(
        HUGE_PAGE_BYTES * (madvise(at, HUGE_PAGE_BYTES, MADV_COLLAPSE) == 0)
        for start, end in ranges
        for at in range(start, end, HUGE_PAGE_BYTES)
    )


def heap(maps: str) -> Iterator[tuple[int, int]]:
    """Yield where whole huge pages of private memory without a file begin and end."""
    for line in maps.splitlines():
        place, mode, _, _, inode, *name = line.split()
        if mode == "rw-p" and inode == "0" and name in ([], ["[heap]"]):
            start, end = (int(edge, 16) for edge in place.split("-"))
            start = -(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES
            if start + HUGE_PAGE_BYTES <= end:
                yield start, end // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
