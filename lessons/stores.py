"""A store of lab 17: what is written is never changed, and every byte is counted.

Source: Dean & Ghemawat, OSDI 2004: tasks write to private files, which get their names at the end.
"""

import pickle
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class MachineLost(RuntimeError):
    """The machine that a task was on is gone, with what was in its memory."""


class AlreadyStored(ValueError):
    """Something has that name; what is stored is never changed."""


class NotStored(KeyError):
    """Nothing has that name, or it has fewer pieces."""

    def __str__(self) -> str:
        return str(self.args[0])


class Store:
    """Results of tasks in files, each one or more pieces under a name that is given once.

    Args:
        folder: where the files lie; by default a new one, which goes when the store does.
        dies_at: which write ends the machine, 1 for the first; 0 for none.
    """

    def __init__(self, folder: Path | None = None, *, dies_at: int = 0) -> None:
        self.folder = folder or Path(tempfile.mkdtemp())
        if folder is None:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self.dies_at, self.written = dies_at, list[str]()
        self.bytes_written = self.bytes_read = 0

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / "0").is_file()

    def write(self, name: str, pieces: Iterable[Any]) -> None:
        """Store the pieces under `name`: all of them or, if the machine dies, none.

        Raises:
            AlreadyStored: there is something under that name.
            MachineLost: this was the write at which the machine dies.
        """
        if name in self:
            raise AlreadyStored(f"write: {name!r} is stored already. Give each result a new name.")
        self.dies_at -= 1
        if self.dies_at == 0:
            raise MachineLost(f"write: the machine died before {name!r} had its name.")
        draft = Path(tempfile.mkdtemp(dir=self.folder))
        for at, piece in enumerate(pieces):
            self.bytes_written += (draft / str(at)).write_bytes(pickle.dumps(piece, protocol=5))
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.rename(path)
        self.written.append(name)

    def read(self, name: str, piece: int = 0) -> Any:
        """Return one of the pieces stored under `name`.

        Raises:
            NotStored: there is no such piece.
        """
        path = self.folder / name / str(piece)
        if not path.is_file():
            raise NotStored(f"read: piece {piece} of {name!r} is not stored. Write it first.")
        data = path.read_bytes()
        self.bytes_read += len(data)
        return pickle.loads(data)

    def lose(self, name: str) -> None:
        """Lose what is stored under `name`, as when a disk breaks."""
        shutil.rmtree(self.folder / name)

    def since(self) -> tuple[int, int]:
        """Return the bytes written and read since this was last asked."""
        counts = self.bytes_written, self.bytes_read
        self.bytes_written = self.bytes_read = 0
        return counts
