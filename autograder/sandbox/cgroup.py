"""Outside the wall: a control group for each worker, where this process may make one.

Version 2 only, beside our own group, under a parent that limits memory for its groups. Where there
is none, `watch` is the limit. `SCOPE` is a command that makes one for an ordinary user.
"""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from autograder.records import Limits

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = {"memory", "pids"}
SUBGROUP = "judge"
OLDEST_SYSTEMD = 254  # the first with DelegateSubgroup=
SCOPE = f"systemd-run --user --scope -p Delegate=yes -p DelegateSubgroup={SUBGROUP} autograder"


def place(root: Path = ROOT, own: str | None = None) -> Path | None:
    """Return the group in which workers' groups can be made, or None.

    `own` is the text of /proc/self/cgroup.
    """
    text = own if own is not None else Path("/proc/self/cgroup").read_text()
    named = [line[3:].strip("/") for line in text.splitlines() if line.startswith("0::")]
    if not named or not named[0]:
        return None
    ours = root / named[0]
    with contextlib.suppress(OSError):
        control = ours.parent / "cgroup.subtree_control"
        if ours.name == SUBGROUP:  # the parent is ours alone: it is for us to hand memory on
            control.write_text(" ".join(f"+{name}" for name in sorted(CONTROLLERS)))
        handed_on = {name.lstrip("+") for name in control.read_text().split()}
        if handed_on >= CONTROLLERS and os.access(ours.parent, os.W_OK):
            return ours.parent
    return None


class ControlGroup:
    """A control group of one worker and all that comes from it."""

    def __init__(self, parent: Path, name: str, limits: Limits) -> None:
        self.path = parent / name
        self.path.mkdir()
        settings = {
            "memory.max": limits.memory_bytes,
            "memory.swap.max": 0,
            "memory.oom.group": 1,
            "pids.max": limits.processes + 2,  # the pid 1 of its namespace, and its parent
        }
        for file, value in settings.items():
            with contextlib.suppress(OSError):  # a kernel without swap has no limit for it
                (self.path / file).write_text(str(value))

    def add(self, pids: Iterable[int]) -> None:
        """Move these processes in; what they start later is in it from the beginning."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                (self.path / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Return whether the kernel ended something here for its memory."""
        with contextlib.suppress(OSError, ValueError):
            events = (self.path / "memory.events").read_text().split()
            return int(events[events.index("oom_kill") + 1]) > 0
        return False

    def remove(self) -> None:
        """Remove it, once its processes are gone."""
        with contextlib.suppress(OSError):
            self.path.rmdir()
