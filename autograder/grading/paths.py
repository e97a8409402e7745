"""Which files a `grade` command means, and what its reports are called.

A report is called as its submission is. Where a directory holds several notebooks of one name, as
when every learner has a folder, each is called by its path, so that the names of the others do not
change what it is called.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import SubmissionError
from autograder.grading.submission import MAX_BYTES
from autograder.printable import printable

MAX_STEM_BYTES = 200  # of the 255 that a file name may have
_ENDINGS = (".ipynb", ".zip", ".tar", ".tar.gz", ".tgz", ".gz")


@dataclass(frozen=True)
class Item:
    """One submission: where it lies, and the stem of its reports' names.

    `name` is its path in the directory that was given; its file's name where none was.
    """

    path: Path
    stem: str
    name: str = ""

    @property
    def label(self) -> str:
        """What reports call it."""
        return printable(self.name or self.path.name, 200)


def items_of(paths: Iterable[Path | str]) -> list[Item]:
    """Return the submissions that `paths` mean, each file once, with a stem of its own each.

    A directory means the notebooks and archives below it; itself, if there are none. Of two files
    with one stem the second's is led by its directory's name.
    """
    taken: set[str] = set()
    items: dict[Path, Item] = {}
    for root in map(Path, paths):
        below = _below(root)
        stems = Counter(path.stem for path in below)
        for path in below or [root]:
            if path not in items:
                name = path.relative_to(root) if below else Path(path.name)
                stem = path.stem if stems[path.stem] < 2 else "-".join(name.with_suffix("").parts)
                real = path if below else follow_link(path)
                items[path] = Item(real, _free(stem, path, taken), name.as_posix())
                taken.add(items[path].stem)
    return list(items.values())


def follow_link(path: Path) -> Path:
    """Return the file that a link leads to, for a path that was named by the one who grades.

    A link in a folder may be its owner's way to what we can read and they cannot, such as the
    solution: those are not followed, and `content_of` refuses them.
    """
    try:
        return path.resolve() if path.is_symlink() else path
    except (OSError, ValueError, RuntimeError):  # a loop, a name that is too long
        return path


def content_of(path: Path) -> bytes:
    """Return what a file holds.

    Raises:
        SubmissionError: there is no such file, it is no plain file, or is too large to be read.
    """
    try:
        status = path.stat()
        if path.is_symlink():
            raise SubmissionError(f"notebook: {path.name} is a link. Send the notebook itself.")
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


def _below(directory: Path) -> list[Path]:
    """Return the notebooks and archives in a directory, in order; none where it is no directory."""
    try:
        return sorted(_list_submissions(directory)) if directory.is_dir() else []
    except (OSError, ValueError):
        return []


def _list_submissions(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in names:
            if name.endswith(_ENDINGS) and not name.startswith("."):
                yield Path(folder, name)


def _free(stem: str, path: Path, taken: set[str]) -> str:
    """Return a stem that is not taken: `stem`, or led by the directory's name, or numbered."""
    stem = _short(stem.replace("\0", "") or "submission")
    led = _short(f"{path.absolute().parent.name}-{stem}")
    for candidate in (stem, led):
        if candidate not in taken:
            return candidate
    count = 2
    while f"{stem}-{count}" in taken:
        count += 1
    return f"{stem}-{count}"


def _short(stem: str) -> str:
    raw = os.fsencode(stem)
    if len(raw) <= MAX_STEM_BYTES:
        return stem
    digest = hashlib.sha256(raw).hexdigest()[:12]
    return f"{os.fsdecode(raw[: MAX_STEM_BYTES - 13])}-{digest}"
