"""Outside the wall: running workers, started one by one or forked from a warm zygote.

A `Process` is one worker with everything that comes from it, all of which `end` ends: pid 1 of its
pid namespace is killed, and the kernel kills the rest before that one's end is told.
"""

import array
import contextlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
from typing import Any

from autograder.errors import LimitReached, SandboxError
from autograder.sandbox import launch, watch
from autograder.sandbox.channel import Channel
from autograder.sandbox.layout import Layout
from autograder.sandbox.wire import frame

START_S = 30.0  # to start an interpreter and import torch on a busy machine
END_S = 10.0
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class Process:
    """A running worker. `pid` is the root of its tree as seen from here."""

    def __init__(self, channel: Channel, pid: int) -> None:
        self.channel = channel
        self.pid = pid

    def ending(self) -> str:
        """Return how the worker ended, in words."""
        raise NotImplementedError

    def end(self) -> None:
        """Kill the worker and all that came from it; return when they are gone."""
        raise NotImplementedError


class Started(Process):
    """A worker started on its own: about as long as importing NumPy takes."""

    def __init__(self, popen: "subprocess.Popen[bytes]", channel: Channel, pid: int) -> None:
        super().__init__(channel, pid)
        self._popen = popen

    def ending(self) -> str:
        """See `Process.ending`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(END_S)
            return ending(code - 128 if code > 128 else code, signalled=code > 128)
        return "it closed the connection"

    def end(self) -> None:
        """See `Process.end`."""
        for pid in [*list(watch.descendants(self.pid))[::-1], self._popen.pid]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait(END_S)
        self.channel.drain_output()
        self.channel.close()


class Forked(Process):
    """A worker forked from a zygote: about 10 ms."""

    def __init__(self, channel: Channel, pid: int, pidfd: int, status: socket.socket) -> None:
        super().__init__(channel, pid)
        self._pidfd = pidfd
        self._status = status

    def ending(self) -> str:
        """See `Process.ending`."""
        self._status.settimeout(END_S)
        with contextlib.suppress(OSError):
            told = self._status.recv(4)
            if len(told) == 4:
                code: int = struct.unpack("<i", told)[0]
                return ending(-code if code < 0 else code, signalled=code < 0)
        return "it closed the connection"

    def end(self) -> None:
        """See `Process.end`."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(END_S * 1000):
            raise SandboxError(f"sandbox: process {self.pid} did not end within {END_S:g} s.")
        os.close(self._pidfd)
        self._status.close()
        self.channel.drain_output()
        self.channel.close()


def ending(code: int, *, signalled: bool) -> str:
    """Return in words how a process ended: `code` is its exit status or its signal."""
    if not signalled:
        return f"it ended by itself with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(code).name}"
    return f"it was ended by signal {code}"


def gone(process: Process, whose: str = "") -> LimitReached:
    """Return the error for a worker that ended while it was asked something."""
    how = process.ending()
    kind = "cpu" if "SIGXCPU" in how else "died"
    return LimitReached(kind, f"{whose}its process is gone: {how}")


def start(
    wall: str, layout: Layout, config: dict[str, Any], *, number: int, output_bytes: int
) -> Process:
    """Start a worker behind `wall`.

    Raises:
        SandboxError: it did not start.
    """
    ours, theirs = socket.socketpair()
    output, printed = os.pipe()
    told, info = os.pipe()
    with_info = wall == "bubblewrap"
    try:
        popen = launch.start(
            wall,
            "worker",
            layout,
            theirs.fileno(),
            printed,
            file_bytes=config["limits"]["file_bytes"],
            user=launch.user_for(number),
            info_fd=info if with_info else None,
        )
    finally:
        theirs.close()
        os.close(printed)
        os.close(info)
    with os.fdopen(told) as file:
        text = file.read() if with_info else ""
    pid = json.loads(text)["child-pid"] if text else popen.pid
    process = Started(popen, Channel(ours, output, output_bytes), pid)
    process.channel.queue(config)
    return process


class Zygote:
    """A warm process behind the outer wall that forks a worker for each submission.

    Safe to use from several threads. It ends with this process, however this process ends.
    """

    def __init__(self, layout: Layout, preload: tuple[str, ...], *, file_bytes: int) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        output, printed = os.pipe()
        self._started = threading.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        self._error: Exception | None = None

        def keep() -> None:
            # The kernel ends a sandbox with the thread that started it: this one stays.
            try:
                self._popen = launch.start(
                    "bubblewrap",
                    "zygote",
                    layout,
                    theirs.fileno(),
                    printed,
                    file_bytes=file_bytes,
                    user=launch.user_for(0),
                )
            except Exception as error:
                self._error = error
            finally:
                theirs.close()
                os.close(printed)
                self._started.set()
            if self._popen is not None:
                self._popen.wait()

        self._keeper = threading.Thread(target=keep, name="zygote", daemon=True)
        self._keeper.start()
        self._started.wait()
        self._control.settimeout(START_S)
        self._greet(output, preload)

    def _greet(self, output: int, preload: tuple[str, ...]) -> None:
        try:
            if self._error is not None:
                raise self._error
            self._control.sendall(frame({"preload": list(preload)}))
            greeted = self._control.recv(1) == b"\0"
        except OSError:
            greeted = False
        with os.fdopen(output, "rb") as file:
            if not greeted:
                self.close()
                text = file.read().decode(errors="replace").strip()
                raise SandboxError(f"sandbox: bubblewrap did not start: {text[-500:]}")

    def fork(self, config: dict[str, Any], *, output_bytes: int) -> Process:
        """Return a new worker in namespaces of its own.

        Raises:
            SandboxError: the zygote is gone, or this machine allows no nested namespaces.
        """
        ours, theirs = socket.socketpair()
        status, their_status = socket.socketpair()
        output, printed = os.pipe()
        channel = Channel(ours, output, output_bytes)
        channel.connection.setblocking(True)
        channel.connection.sendall(frame(config))
        channel.connection.setblocking(False)
        status.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        status.settimeout(START_S)
        try:
            with self._lock:
                _send_descriptors(self._control, theirs.fileno(), printed, their_status.fileno())
            for end in (theirs, their_status):
                end.close()
            os.close(printed)
            pid = _sender(status)
            pidfd = os.pidfd_open(pid)
            status.sendall(b"\0")
        except (OSError, ValueError) as error:
            channel.drain_output()
            text = channel.output.decode(errors="replace").strip() or str(error)
            channel.close()
            raise SandboxError(f"sandbox: no worker from the zygote: {text[-500:]}") from error
        return Forked(channel, pid, pidfd, status)

    @property
    def pid(self) -> int:
        """The root of the tree of it and its workers."""
        assert self._popen is not None  # it has greeted
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._popen is not None and self._popen.returncode is None

    def close(self) -> None:
        """End the zygote and every worker of it."""
        self._control.close()
        if self._popen is not None:
            self._popen.kill()
        self._keeper.join(END_S)


def _send_descriptors(control: socket.socket, *descriptors: int) -> None:
    packed = array.array("i", descriptors)
    control.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])


def _sender(status: socket.socket) -> int:
    """Return the pid, as seen from here, of the process that sent the next byte."""
    data, ancillary, _, _ = status.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid: int = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
            return pid
    raise ValueError("it did not say who it is")
