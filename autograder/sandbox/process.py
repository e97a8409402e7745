"""Outside the wall: running workers, started one by one or forked from a warm zygote.

A `Process` is one worker with everything that comes from it, all of which `end` ends: pid 1 of its
pid namespace is killed, and the kernel kills the rest before that one's end is told.
"""

import array
import contextlib
import json
import os
import queue
import select
import signal
import socket
import struct
import subprocess
import threading
from typing import Any

from autograder.errors import LimitReached, SandboxError
from autograder.sandbox import launch, watch
from autograder.sandbox.cgroup import Group
from autograder.sandbox.channel import Channel
from autograder.sandbox.launch import Order
from autograder.sandbox.layout import Layout
from autograder.sandbox.wire import frame

START_S = 30.0  # to start an interpreter and import torch on a busy machine
END_S = 10.0
LEAVE_S = 1.0
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class Process:
    """A running worker. `pid` is the root of its tree as seen from here."""

    def __init__(self, channel: Channel, pid: int, group: Group | None) -> None:
        self.channel = channel
        self.pid = pid
        self.group = group

    def ending(self) -> str:
        """Return how the worker ended, in words."""
        raise NotImplementedError

    def end(self) -> None:
        """Kill the worker and all that came from it; return when they are gone."""
        raise NotImplementedError

    def _tidy(self) -> None:
        self.channel.drain_output()
        self.channel.close()
        if self.group is not None:
            self.group.remove()


class Started(Process):
    """A worker started on its own: about as long as importing NumPy takes."""

    def __init__(
        self,
        channel: Channel,
        pid: int,
        group: Group | None,
        popen: "subprocess.Popen[bytes]",
    ) -> None:
        super().__init__(channel, pid, group)
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
        self._tidy()


class Forked(Process):
    """A worker forked from a zygote: about 10 ms."""

    def __init__(
        self, channel: Channel, pid: int, group: Group | None, pidfd: int, status: socket.socket
    ) -> None:
        super().__init__(channel, pid, group)
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
        self._tidy()


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
    if process.group is not None and process.group.out_of_memory():
        return LimitReached("memory", f"{whose}ended by the memory limit")
    kind = "cpu" if "SIGXCPU" in how else "died"
    return LimitReached(kind, f"{whose}its process is gone: {how}")


def start(
    wall: str,
    layout: Layout,
    config: dict[str, Any],
    *,
    number: int,
    output_bytes: int,
    group: Group | None = None,
) -> Process:
    """Start a worker behind `wall`, in `group` before it has read `config`.

    Raises:
        SandboxError: it did not start.
    """
    ours, theirs = socket.socketpair()
    output, printed = os.pipe()
    told, info = os.pipe()
    info_fd = info if wall == "bubblewrap" else None
    order = Order(
        wall,
        "worker",
        layout,
        theirs.fileno(),
        printed,
        config["limits"]["file_bytes"],
        launch.user_for(number),
        info_fd,
    )
    channel = Channel(ours, output, output_bytes)
    try:
        popen = launch.start(order)
    except BaseException:
        channel.close()
        raise
    finally:
        theirs.close()
        os.close(printed)
        os.close(info)
        with os.fdopen(told) as file:
            text = file.read() if info_fd is not None else ""
    pid = json.loads(text)["child-pid"] if text else popen.pid
    process = Started(channel, pid, group, popen)
    if group is not None:
        group.add(watch.descendants(pid))
    process.channel.queue(config)
    return process


class Zygote:
    """A warm process behind the outer wall that forks a worker for each submission.

    Safe to use from several threads. It ends with this process, however this process ends.
    """

    def __init__(self, layout: Layout, preload: tuple[str, ...], *, file_bytes: int) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        self._control.settimeout(START_S)
        output, printed = os.pipe()
        ends = theirs.fileno(), printed
        order = Order("bubblewrap", "zygote", layout, *ends, file_bytes, launch.user_for(0))
        started: queue.SimpleQueue[subprocess.Popen[bytes] | Exception] = queue.SimpleQueue()
        self._keeper = threading.Thread(target=_keep, args=(order, started), daemon=True)
        self._keeper.start()
        outcome = started.get()
        theirs.close()
        os.close(printed)
        with os.fdopen(output, "rb") as file:
            if isinstance(outcome, Exception):
                self._control.close()
                raise outcome
            self._popen = outcome
            if not self._greeted(preload):
                self.close()
                text = file.read().decode(errors="replace").strip()
                raise SandboxError(f"sandbox: bubblewrap did not start: {text[-500:]}")

    def _greeted(self, preload: tuple[str, ...]) -> bool:
        try:
            self._control.sendall(frame({"preload": list(preload)}))
            return self._control.recv(1) == b"\0"
        except OSError:
            return False

    def fork(
        self, config: dict[str, Any], *, output_bytes: int, group: Group | None = None
    ) -> Process:
        """Return a new worker in namespaces of its own, and in `group`.

        Raises:
            SandboxError: the zygote is gone, or this machine allows no nested namespaces.
        """
        ours, theirs = socket.socketpair()
        status, their_status = socket.socketpair()
        output, printed = os.pipe()
        status.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        status.settimeout(START_S)
        ours.sendall(frame(config))
        channel = Channel(ours, output, output_bytes)
        try:
            with theirs, their_status, os.fdopen(printed, "wb"), self._lock:
                _send_descriptors(self._control, theirs.fileno(), printed, their_status.fileno())
            pid = _sender(status)
            pidfd = os.pidfd_open(pid)
            if group is not None:
                group.add([pid])
            status.sendall(b"\0")
        except (OSError, ValueError) as error:
            channel.drain_output()
            text = channel.output.decode(errors="replace").strip() or str(error)
            channel.close()
            status.close()
            raise SandboxError(f"sandbox: no worker from the zygote: {text[-500:]}") from error
        return Forked(channel, pid, group, pidfd, status)

    @property
    def pid(self) -> int:
        """The root of the tree of it and its workers."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it can still fork."""
        return self._keeper.is_alive()

    def is_gone(self) -> bool:
        """Return whether it has ended, or does so now."""
        self._keeper.join(LEAVE_S)
        return not self.alive

    def close(self) -> None:
        """End the zygote and every worker of it."""
        self._control.close()  # it leaves by itself when it sees this, and its times are counted
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(LEAVE_S)
        self._popen.kill()
        self._keeper.join(END_S)


def _keep(order: Order, started: "queue.SimpleQueue[subprocess.Popen[bytes] | Exception]") -> None:
    """Start a zygote and stay: the kernel ends a sandbox with the thread that started it."""
    try:
        popen = launch.start(order)
    except Exception as error:
        return started.put(error)
    started.put(popen)
    popen.wait()
    return None


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
