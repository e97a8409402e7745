"""Outside the wall: the judge's end of a zygote, and the workers that it forks.

The zygote (`autograder.sandbox.zygote`) is told by descriptors, never by data, and the kernel says
which process answered.
"""

import array
import contextlib
import os
import queue
import socket
import struct
import subprocess
import threading
from typing import Any

from autograder.errors import SandboxError
from autograder.sandbox import launch
from autograder.sandbox.cgroup import ControlGroup
from autograder.sandbox.channel import Channel
from autograder.sandbox.launch import Order
from autograder.sandbox.layout import Layout
from autograder.sandbox.process import END_S, HUNG_UP, START_S, TELL_S, Process, ending, last_words
from autograder.sandbox.wire import frame

LEAVE_S = 1.0
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class Forked(Process):
    """A worker forked from a zygote: about 10 ms."""

    def __init__(
        self,
        channel: Channel,
        pid: int,
        group: ControlGroup | None,
        status: socket.socket,
        zygote: "ZygoteClient",
    ) -> None:
        super().__init__(channel, pid, group)
        self._status, self._zygote = status, zygote

    def is_orphan(self) -> bool:
        """See `Process.is_orphan`."""
        return self._zygote.is_gone()

    def ending(self) -> str:
        """See `Process.ending`."""
        self._status.settimeout(TELL_S)
        with contextlib.suppress(OSError):
            status = self._status.recv(4)
            if len(status) == 4:
                code: int = struct.unpack("<i", status)[0]
                return ending(abs(code), signalled=code < 0)
        return HUNG_UP

    def end(self) -> None:
        """See `Process.end`."""
        self._status.close()
        super().end()


class ZygoteClient:
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
            if not self._greet(preload):
                self.close()
                text = file.read().decode(errors="replace").strip()
                problem = f"sandbox: bubblewrap did not start: {text[-500:]}"
                raise SandboxError(f"{problem} Help: when_it_does_not_work.html#no-sandbox")

    def _greet(self, preload: tuple[str, ...]) -> bool:
        try:
            self._control.sendall(frame({"preload": list(preload)}))
            return self._control.recv(1) == b"\0"
        except OSError:
            return False

    def fork(
        self, config: dict[str, Any], *, output_bytes: int, group: ControlGroup | None = None
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
                descriptors = array.array("i", (theirs.fileno(), printed, their_status.fileno()))
                rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)
                self._control.sendmsg([b"\0"], [rights])
            pid = _sender(status)
            if group is not None:
                group.add([pid])
            worker = Forked(channel, pid, group, status, self)
            status.sendall(b"\0")
        except (OSError, ValueError) as error:
            status.close()
            why = last_words(channel) or str(error)
            raise SandboxError(f"sandbox: no worker from the zygote: {why}") from error
        return worker

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
        # It leaves by itself when it sees this, also where a forked child holds the socket too.
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        self._control.close()
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


def _sender(status: socket.socket) -> int:
    """Return the pid, as seen from here, of the process that sent the next byte."""
    data, ancillary, _, _ = status.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    for level, kind, content in ancillary:
        if data and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid: int = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
            return pid
    raise ValueError("it did not say who it is")
