"""The data directory of a course server: made, held by one process, and left as it was found."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from autograder.locks import hold
from autograder.service.database.backups import DATABASE
from autograder.service.errors import DataInUse, StartError


def data_directory(path: Path) -> Path:
    """Return the data directory, made if need be, for its owner alone.

    Raises:
        StartError: it cannot be made or written.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (path / ".writable").touch()
        (path / ".writable").unlink()
    except OSError as error:
        message = f"serve: the data directory cannot be used: {path}: {error.strerror}."
        raise StartError(f"{message} Give another with --data.") from error
    return path.resolve()


@contextlib.contextmanager
def hold_lock(data: Path) -> Iterator[None]:
    """Hold the data directory's lock; it ends with the process, however that ends.

    Raises:
        DataInUse: another server holds it.
    """
    with (data / "server.lock").open("w") as file:
        try:
            hold(file.fileno())
        except OSError as error:
            message = f"serve: {data} is in use by another course server. Stop that one first"
            raise DataInUse(
                f"{message}, or give another --data directory. "
                "Help: when_it_does_not_work.html#ports-in-use"
            ) from error
        yield


@contextlib.contextmanager
def claim_directory(path: Path) -> Iterator[tuple[Path, contextlib.ExitStack]]:
    """Make and hold a data directory; give it, and what removes all that is new there at the end.

    Whoever has filled it lets that go by `pop_all`. Where a course was before nothing is removed:
    what is new beside a database may be its log.
    """
    folders = [folder for folder in (path, *path.parents) if not folder.exists()]
    data = data_directory(path)
    before = set(data.iterdir())
    with hold_lock(data), contextlib.ExitStack() as undo:
        if not (data / DATABASE).exists():
            undo.callback(_remove_new, data, before, folders)
        yield data, undo


def _remove_new(data: Path, before: set[Path], folders: list[Path]) -> None:
    for path in set(data.iterdir()) - before:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with contextlib.suppress(OSError):  # something else is in one of them by now
        for folder in folders:
            folder.rmdir()


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner may read, at no moment open to others."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
