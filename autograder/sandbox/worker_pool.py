"""Outside the wall: hands out fresh workers, behind the best wall that this machine has.

One zygote for each set of preloaded modules lives as long as this process. Where bubblewrap may
not be nested (some AppArmor profiles), each worker is started on its own; where there is no
bubblewrap, behind a lesser wall, which is called `UNSANDBOXED`.
"""

import atexit
import contextlib
import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

from autograder.errors import SandboxError
from autograder.records import Limits
from autograder.sandbox import cgroup, launch, layout, process, seccomp, watch
from autograder.sandbox.cgroup import ControlGroup
from autograder.sandbox.channel import NOTHING, pump
from autograder.sandbox.process import Process, last_words
from autograder.sandbox.wire import WireError
from autograder.sandbox.zygote_client import ZygoteClient

UNSANDBOXED = "unsandboxed"
COUNTS_BY_NAMESPACE = (5, 14)  # the Linux that counts a user's processes in each user namespace


class Supply:
    """Starts workers. `wall` and `warm` force a choice that is otherwise made by trying.

    Safe to use from several threads.
    """

    def __init__(self, *, wall: str | None = None, warm: bool = True) -> None:
        self._lock = threading.Lock()
        self._walls = list(launch.WALLS) if wall is None else [wall]
        self._warm = warm
        self._layout = layout.find()
        self._groups = cgroup.place()
        self._zygotes: dict[tuple[str, ...], ZygoteClient] = {}
        self._number = 0
        self._held = False  # a worker has started behind the present wall
        self.reasons: list[str] = []
        self.failure: SandboxError | None = None  # the last one, whoever swallows it

    @property
    def kind(self) -> str:
        """What the workers run in, as reports say it."""
        return "bubblewrap" if self._walls[0] == "bubblewrap" else UNSANDBOXED

    def worker(self, limits: Limits, preload: tuple[str, ...]) -> Process:
        """Return a new worker that has said hello. Raises as `workers` does."""
        return self.workers(limits, preload, 1)[0]

    def workers(self, limits: Limits, preload: tuple[str, ...], count: int) -> list[Process]:
        """Return new workers that have said hello, started side by side.

        Raises:
            SandboxError: none of the walls could be put up; says why for each.
        """
        config, is_second = self._config(limits, preload), False
        while True:
            with self._lock:
                wall, warm = self._walls[0], self._warm
            started: list[Process] = []
            try:
                for _ in range(count):
                    started.append(self._start(wall, warm, config, limits))
                for process_ in started:
                    _await_hello(process_)
            except SandboxError as error:
                for process_ in started:
                    process_.end()
                if started and not is_second and started[-1].is_orphan():
                    is_second = True
                    continue
                with self._lock:
                    self._give_up_on(wall, warm, error)
            else:
                self._held = True
                return started

    def _give_up_on(self, wall: str, warm: bool, error: SandboxError) -> None:
        """Fall back to the next lesser way, unless another thread has already.

        A wall that has held once is never given up for a lesser one: a submission that can make a
        sandbox fail to start must not get the next submission, or itself, out of it.
        """
        if (wall, warm) != (self._walls[0], self._warm):
            return
        self.reasons.append(str(error))
        if wall == "bubblewrap" and warm and not self._held:
            self._warm = False
        elif len(self._walls) > 1 and not self._held:
            del self._walls[0]
        else:
            reasons = self.reasons[-len(launch.WALLS) - 1 :]  # one a wall, and the warm one's
            self.failure = SandboxError(" ".join(dict.fromkeys(reasons)))
            raise self.failure from error

    def _start(self, wall: str, warm: bool, config: dict[str, Any], limits: Limits) -> Process:
        with self._lock:
            self._number += 1
            number = self._number
        options: dict[str, Any] = {"output_bytes": limits.output_bytes}
        if self._groups is not None:
            options["group"] = ControlGroup(
                self._groups, f"autograder-{os.getpid()}-{number}", limits
            )
        if wall == "bubblewrap" and warm:
            return self._fork(config, limits, options)
        return process.start(wall, self._layout, config, number=number, **options)

    def _fork(self, config: dict[str, Any], limits: Limits, options: dict[str, Any]) -> Process:
        """Return a worker from the zygote; from a new one where the old one was killed."""
        preload = tuple(config["preload"])
        zygote = self._zygote(preload, limits)
        try:
            return zygote.fork(config, **options)
        except SandboxError:
            if not zygote.is_gone():
                raise
            return self._zygote(preload, limits).fork(config, **options)

    def _zygote(self, preload: tuple[str, ...], limits: Limits) -> ZygoteClient:
        with self._lock:
            zygote = self._zygotes.get(preload)
            if zygote is None or not zygote.alive:
                if zygote is not None:
                    zygote.close()
                zygote = ZygoteClient(self._layout, preload, file_bytes=limits.file_bytes)
                self._zygotes[preload] = zygote
            return zygote

    def _config(self, limits: Limits, preload: tuple[str, ...]) -> dict[str, Any]:
        return {
            "limits": dataclasses.asdict(limits),
            "preload": list(preload),
            "user_processes": _processes_of_this_user(),
            "filter": seccomp.program(),
        }

    def pids(self) -> list[int]:
        """Return every process of the zygotes and their workers that runs now."""
        with self._lock:
            roots = [zygote.pid for zygote in self._zygotes.values() if zygote.alive]
        return [pid for root in roots for pid in watch.descendants(root) if watch.running(pid)]

    def close(self) -> None:
        """End the zygotes and all their workers."""
        with self._lock:
            for zygote in self._zygotes.values():
                zygote.close()
            self._zygotes.clear()


def _await_hello(worker: Process) -> None:
    """Wait for the worker's hello."""
    deadline = time.monotonic() + process.START_S
    while time.monotonic() < deadline and not worker.channel.closed:
        pump([worker.channel], deadline - time.monotonic())
        with contextlib.suppress(WireError):
            if worker.channel.take() is not NOTHING:
                return
    how = worker.ending()
    raise SandboxError(f"sandbox: the worker did not start: {last_words(worker.channel) or how}")


def _processes_of_this_user() -> int:
    """Return how many processes count against this user besides a worker's own."""
    release = os.uname().release.split("-")[0].split(".")
    if tuple(map(int, release[:2])) >= COUNTS_BY_NAMESPACE or os.geteuid() == 0:
        return 0
    mine = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            mine += entry.name.isdigit() and entry.stat().st_uid == os.geteuid()
    return mine


_shared: dict[int, Supply] = {}  # by process
_sharing = threading.Lock()


def supply() -> Supply:
    """Return the supply of this process; a forked child makes its own."""
    with _sharing:
        if os.getpid() not in _shared:
            _shared[os.getpid()] = Supply()
            atexit.register(close_shared)
        return _shared[os.getpid()]


def close_shared() -> None:
    """End the warm processes of this process's supply; the next use starts new ones."""
    with _sharing:
        supply = _shared.pop(os.getpid(), None)
    if supply is not None:
        supply.close()
