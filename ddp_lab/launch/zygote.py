"""The process from which ranks are forked: it has imported everything and started no thread.

    python -m ddp_lab.launch.zygote FD [MODULE ...]

It imports the modules, speaks on the socket FD, and ends when that closes.

A notebook cannot be forked safely (its threads are lost, with their locks) and a fresh interpreter
takes seconds to import torch. The zygote pays for the imports once; each rank is then a fork of a
clean process. It reaps the ranks, kills them on demand or when the launcher is gone, and each dies
with it.

A request is one line of JSON, with descriptors beside it for a launch:

    {"launch": id, "ranks": [r, ...], "size": n, "arena_bytes": b}
                                             + status pipe, segment, then 3 for each of the ranks
    {"kill": id}

What ranks have imported of `LATE` it imports too, once no rank is left: the next ones find it.

To the status pipe go lines `pid rank` for each start and `rank code` for each end; it closes when
no rank of that launch is left.
"""

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

PR_SET_PDEATHSIG = 1
FDS_A_RANK = 3  # its socket, its stdout, its stderr
LINE_BYTES = 4096
# What ranks import when they first need it, for seconds: the second comes with torch's optimizers.
LATE = ("torch", "torch._dynamo", "ddp_lab.torch_backend")


@dataclass
class LaunchedRanks:
    """The ranks of one launch."""

    status: int
    alive: dict[int, int] = field(default_factory=dict)  # pid -> rank


class Zygote:
    """The state of the forking process."""

    def __init__(self, control: socket.socket, late: Sequence[str] = LATE) -> None:
        self._control = control
        self._late = late
        self._launches: dict[int, LaunchedRanks] = {}
        # ranks write into it what of `late` they have imported
        self._late_reader, self._late_writer = os.pipe()
        os.set_blocking(self._late_reader, False)
        os.set_blocking(self._late_writer, False)

    def serve(self) -> None:
        """Answer requests until the launcher is gone, then kill all ranks."""
        selector = selectors.DefaultSelector()
        wakeup, on_signal = os.pipe()
        os.set_blocking(on_signal, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(on_signal, warn_on_full_buffer=False)
        selector.register(self._control, selectors.EVENT_READ, "control")
        selector.register(wakeup, selectors.EVENT_READ, "child")
        while True:
            for key, _ in selector.select():
                if key.data == "child":
                    os.read(wakeup, LINE_BYTES)
                    self._reap()
                elif not self._request():
                    for launch in list(self._launches):
                        self._kill(launch)
                    while self._launches:
                        self._report(*os.waitpid(-1, 0))
                    return
            if not self._launches:
                self._learn()

    def _learn(self) -> None:
        """Import what ranks have told of, unless there is a request; SIGTERM ends that."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asked, _, _ = select.select([self._control], [], [], 0)
        with contextlib.suppress(BlockingIOError):
            numbers = b"" if asked else os.read(self._late_reader, LINE_BYTES)
            gc.disable()
            for name in [self._late[number] for number in sorted(set(numbers))]:
                with contextlib.suppress(Exception):  # then each rank imports it
                    importlib.import_module(name)
            gc.freeze()
            gc.enable()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def _request(self) -> bool:
        data, fds, _, _ = socket.recv_fds(self._control, LINE_BYTES, 253)
        if not data:
            return False
        for line in data.splitlines():
            request = json.loads(line)
            if "kill" in request:
                self._kill(request["kill"])
            else:
                self._launch(request, fds)
        return True

    def _launch(self, request: dict[str, Any], fds: list[int]) -> None:
        ranks = request["ranks"]
        status, segment = fds[:2]
        starts = range(2, 2 + FDS_A_RANK * len(ranks), FDS_A_RANK)
        ends = {r: fds[at : at + FDS_A_RANK] for r, at in zip(ranks, starts, strict=True)}
        launched = self._launches[request["launch"]] = LaunchedRanks(status)
        sys.stdout.flush()
        for rank in ranks:
            pid = os.fork()
            if pid == 0:
                self._become_rank(rank, request, segment, ends)
            launched.alive[pid] = rank
            os.write(status, b"%d %d\n" % (pid, rank))
        for fd in fds[1:]:
            os.close(fd)

    def _become_rank(
        self, rank: int, request: dict[str, Any], segment: int, ends: dict[int, list[int]]
    ) -> None:
        """Never return: run the rank and leave the process."""
        code = 1
        try:
            die_with_parent()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._control.close()
            os.close(self._late_reader)
            missing = [at for at, name in enumerate(self._late) if name not in sys.modules]
            for launched in self._launches.values():
                os.close(launched.status)
            for other, fds in ends.items():
                for fd in fds if other != rank else ():
                    os.close(fd)
            from ddp_lab.launch.rank_main import rank_main

            link, out, err = ends[rank]
            code = rank_main(rank, request["size"], request["arena_bytes"], segment, link, out, err)
            # One by one: a set of all modules' names would copy each page that one lies in.
            imported = bytes(at for at in missing if self._late[at] in sys.modules)
            os.write(self._late_writer, imported)
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._report(pid, status)

    def _report(self, pid: int, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        for launch, launched in list(self._launches.items()):
            if pid in launched.alive:
                rank = launched.alive.pop(pid)
                with contextlib.suppress(BrokenPipeError):  # nobody wants to know any more
                    os.write(launched.status, b"end %d %d\n" % (rank, code))
                if not launched.alive:
                    os.close(launched.status)
                    del self._launches[launch]

    def _kill(self, launch: int) -> None:
        launched = self._launches.get(launch)
        for pid in launched.alive if launched else ():
            os.kill(pid, signal.SIGKILL)


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends (Linux; elsewhere do nothing)."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)


def main() -> None:
    """Import what ranks need, then serve."""
    control = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()  # what is imported stays: to look for garbage in it is a seventh of the time
    import cloudpickle  # noqa: F401

    import ddp_lab.launch.rank_main  # noqa: F401

    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()  # a rank's collections need not go through what is here, nor copy its memory
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the launcher's to handle
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # but while it imports: no rank is left then
    Zygote(control).serve()


if __name__ == "__main__":
    main()
