"""Which files a `grade` command means, and what its reports are called."""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import SubmissionError
from autograder.submission import MAX_BYTES

MAX_STEM_BYTES = 200  # of the 255 that a file name may have
_ENDINGS = (".ipynb", ".zip", ".tar", ".tar.gz", ".tgz", ".gz")


@dataclass(frozen=True)
class Item:
    """One submission: where it lies, and the stem of its reports' names."""

    path: Path
    stem: str


def items_of(paths: Iterable[Path | str]) -> list[Item]:
    """Return the submissions that `paths` mean, each file once, with a stem of its own each.

    A directory means the notebooks and archives below it; itself, if there are none. Of two files
    with one stem the second's is led by its directory's name.
    """
    taken: set[str] = set()
    found = []
    for path in dict.fromkeys(_files(paths)):
        stem = _free(path, taken)
        taken.add(stem.casefold())
        found.append(Item(path, stem))
    return found


def content_of(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        SubmissionError: there is no such file, it is no plain file, or is too large to be read.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory without a notebook" if path.is_dir() else "not a plain file"
            raise SubmissionError(f"notebook: {path.name} is {kind}. Name an .ipynb file.")
        if status.st_size > MAX_BYTES:
            size, most = status.st_size >> 20, MAX_BYTES >> 20
            problem = f"notebook: too large: got {size} MiB, expected at most {most} MiB"
            raise SubmissionError(f"{problem}. Clear its outputs and save.")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, SubmissionError):
            raise
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise SubmissionError(f"notebook: cannot read {path.name}: {reason}.") from error


def _files(paths: Iterable[Path | str]) -> Iterator[Path]:
    for path in map(Path, paths):
        try:
            below = sorted(_below(path)) if path.is_dir() else []
        except (OSError, ValueError):
            below = []
        yield from below or [path]


def _below(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in names:
            if name.endswith(_ENDINGS) and not name.startswith("."):
                yield Path(folder, name)


def _free(path: Path, taken: set[str]) -> str:
    parent = path.absolute().parent.name
    stem = _short(re.sub(r"[/\0]", "", path.stem).strip(".") or "submission")
    for candidate in (stem, _short(f"{parent}-{stem}")):
        if candidate.casefold() not in taken:
            return candidate
    count = 2
    while f"{stem}-{count}".casefold() in taken:
        count += 1
    return f"{stem}-{count}"


def _short(stem: str) -> str:
    raw = os.fsencode(stem)
    if len(raw) <= MAX_STEM_BYTES:
        return stem
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return f"{os.fsdecode(raw[: MAX_STEM_BYTES - 13])}-{digest}"
