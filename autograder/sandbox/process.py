"""Outside the wall: a worker as a running process, with everything that comes from it."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from typing import Any

from autograder.errors import LimitReached, SandboxError
from autograder.sandbox import launch, watch
from autograder.sandbox.cgroup import ControlGroup
from autograder.sandbox.channel import Channel
from autograder.sandbox.launch import Order
from autograder.sandbox.layout import Layout

START_S = 120.0  # to start an interpreter and import torch on a busy machine
END_S = 10.0
TELL_S = 2.0  # from the end of a worker's connection to word of its end, on a busy machine
HUNG_UP = "it closed the connection and went on"


class Process:
    """A running worker. `pid` is the root of its tree as seen from here.

    The tree is ended by its root: pid 1 of a pid namespace, at whose end the kernel kills the rest.
    """

    def __init__(self, channel: Channel, pid: int, group: ControlGroup | None) -> None:
        self.channel = channel
        self.pid = pid
        self.group = group
        self._pidfd = os.pidfd_open(pid)  # a number could become another's; this cannot

    def ending(self) -> str:
        """Return how the worker ended, in words."""
        raise NotImplementedError

    def is_orphan(self) -> bool:
        """Tell whether what it was forked from has ended, and it with that."""
        return False

    def end(self) -> None:
        """Kill the worker and all that came from it; return when they are gone.

        Raises:
            SandboxError: they do not go.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        has_ended = poll.poll(END_S * 1000)
        os.close(self._pidfd)
        self.channel.drain_output()
        self.channel.close()
        if self.group is not None:
            self.group.remove()
        if not has_ended:
            raise SandboxError(f"sandbox: process {self.pid} did not end within {END_S:g} s.")


class Started(Process):
    """A worker started on its own: about as long as importing NumPy takes."""

    def __init__(
        self,
        channel: Channel,
        pid: int,
        group: ControlGroup | None,
        popen: "subprocess.Popen[bytes]",
    ) -> None:
        super().__init__(channel, pid, group)
        self._popen = popen

    def ending(self) -> str:
        """See `Process.ending`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._popen.wait(TELL_S)
            return ending(code - 128 if code > 128 else abs(code), signalled=not 0 <= code <= 128)
        return HUNG_UP

    def end(self) -> None:
        """See `Process.end`."""
        if self.pid == self._popen.pid:  # a lesser wall: not all may hang on the root
            for pid in list(watch.descendants(self.pid))[:0:-1]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        super().end()
        self._popen.kill()
        self._popen.wait(END_S)


def ending(code: int, *, signalled: bool) -> str:
    """Return in words how a process ended: `code` is its exit status or its signal."""
    if not signalled:
        return f"it ended by itself with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(code).name}"
    return f"it was ended by signal {code}"


def ending_error(process: Process, whose: str = "") -> LimitReached:
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
    group: ControlGroup | None = None,
) -> Process:
    """Start a worker behind `wall`, in `group` before it has read `config`.

    Raises:
        SandboxError: it did not start.
    """
    ours, theirs = socket.socketpair()
    output, printed = os.pipe()
    info_read, info = os.pipe()
    ends = theirs.fileno(), printed
    room, user = config["limits"]["file_bytes"], launch.user_for(number)
    info_fd = info if wall == "bubblewrap" else None
    order = Order(wall, "worker", layout, *ends, room, user, info_fd)
    channel = Channel(ours, output, output_bytes)
    with os.fdopen(info_read) as info_file:
        with theirs, os.fdopen(printed, "wb"), os.fdopen(info, "wb"):
            try:
                popen = launch.start(order)
            except BaseException:
                channel.close()
                raise
        text = info_file.read() if info_fd is not None else ""
    try:
        pid = json.loads(text)["child-pid"] if text else popen.pid
        process = Started(channel, pid, group, popen)
    except (OSError, ValueError) as error:  # it was gone before it had said who it is
        popen.kill()
        popen.wait(END_S)
        raise SandboxError(f"sandbox: {wall} did not start: {last_words(channel)}") from error
    if group is not None:
        group.add(watch.descendants(pid))
    channel.queue(config)
    return process


def last_words(channel: Channel) -> str:
    """Return the end of what was printed by one that did not start, and hang up."""
    channel.drain_output()
    channel.close()
    return channel.output.decode(errors="replace").strip()[-500:]
