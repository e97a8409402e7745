"""Folders that last as long as their owner, however that ends.

An owner holds a lock on a file in its folder, which the system releases when the owner is gone, by
`kill -9` too. Whoever makes the first folder of a process removes those whose lock nobody holds. A
folder gets its name only once it is locked, so one without a lock has no owner.

May import: locks.
"""

import functools
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from autograder.locks import hold

_PREFIX = "autograder-"
_LOCK = ".owner"
_NEW = ".autograder-"  # until it is locked
_USER = os.getuid() if hasattr(os, "getuid") else 0
_YOUNG_S = 60.0  # what has no lock yet may be about to get it


class Scratch:
    """A folder in the temporary directory, until `close` or the end of this process."""

    def __init__(self) -> None:
        remove_abandoned(tempfile.gettempdir())
        new = Path(tempfile.mkdtemp(prefix=_NEW))
        self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        hold(self._lock)
        self.path = new.rename(new.with_name(new.name.removeprefix(".")))

    def close(self) -> None:
        """Remove the folder and all in it; a second call does nothing."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


@functools.lru_cache  # once a process and place
def remove_abandoned(place: str) -> None:
    """Remove this user's folders in `place` whose owners are gone."""
    for path in (*Path(place).glob(f"{_PREFIX}*"), *Path(place).glob(f"{_NEW}*")):
        try:
            status = path.lstat()
            ours = stat.S_ISDIR(status.st_mode) and status.st_uid == _USER
            if ours and _is_abandoned(path, time.time() - status.st_mtime):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # gone meanwhile, or not to be looked at
            continue


def _is_abandoned(path: Path, age_s: float) -> bool:
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # of a release without locks, or about to be locked
        return age_s > _YOUNG_S and not any(path.iterdir())
    try:
        hold(lock)
    except OSError:
        return False
    finally:
        os.close(lock)
    return not path.name.startswith(_NEW) or age_s > _YOUNG_S
