"""Notebooks out of archives, in memory: zip, tar, gzip and these in each other, within bounds.

bzip2, xz and zip's rarer methods are refused: a small file of theirs can ask for gigabytes.
"""

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from autograder.errors import SubmissionError

MAX_DEPTH = 3  # an archive in an archive in an archive is already odd
MAX_ENTRIES = 2_000
SEND_IT = "Send the .ipynb itself."
_SKIPPED = {"__MACOSX", ".ipynb_checkpoints"}
_INNER = (".zip", ".tar", ".tgz", ".gz")
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    EOFError,
    OSError,
    RuntimeError,  # an encrypted zip
    ValueError,
)


@dataclass(frozen=True)
class Unpacked:
    """One notebook of an archive: its path inside, and its bytes."""

    name: str
    data: bytes


def is_archive(data: bytes) -> bool:
    """Return whether the bytes begin as a zip, gzip or tar file does."""
    return _is_zip(data) or data[:2] == b"\x1f\x8b" or data[257:262] == b"ustar"


def _is_zip(data: bytes) -> bool:
    return data[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def unpack(data: bytes, limit_bytes: int) -> list[Unpacked]:
    """Return the notebooks in an archive, those of archives inside it included.

    Raises:
        SubmissionError: it is broken, holds no notebook, or grows past `limit_bytes`.
    """
    budget = _Budget(limit_bytes)
    try:
        notebooks = list(_notebooks("", data, budget, 0))
    except _BROKEN as error:
        if isinstance(error, SubmissionError):
            raise
        raise SubmissionError(f"archive: cannot be read: {error}. {SEND_IT}") from error
    if not notebooks:
        raise SubmissionError(f"archive: holds no notebook (.ipynb). {SEND_IT}")
    return notebooks


class _Budget:
    """How many bytes and entries may still come out of an archive."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.left = limit_bytes
        self.entries = MAX_ENTRIES

    def read(self, stream: IO[bytes] | gzip.GzipFile) -> bytes:
        """Return what a stream holds, reading no more than is left."""
        data = stream.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            size = self.limit_bytes >> 20
            raise SubmissionError(f"archive: unpacks to more than {size} MiB. {SEND_IT}")
        return data

    def count_entry(self) -> None:
        """Count one entry."""
        self.entries -= 1
        if self.entries < 0:
            raise SubmissionError(f"archive: more than {MAX_ENTRIES} files. {SEND_IT}")


def _notebooks(name: str, data: bytes, budget: _Budget, depth: int) -> Iterator[Unpacked]:
    if depth > MAX_DEPTH:
        raise SubmissionError(f"archive: nested more than {MAX_DEPTH} deep. {SEND_IT}")
    for path, content in _entries(name, data, budget):
        if is_archive(content):
            yield from _notebooks(path, content, budget, depth + 1)
        elif path.endswith(".ipynb") or not path:
            yield Unpacked(path or "lab.ipynb", content)


def _entries(name: str, data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if _is_zip(data):
        yield from _zip_entries(data, budget)
    elif data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                budget.count_entry()
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is not None and _welcome(member.name):
                    yield member.name, budget.read(stream)
    else:
        yield name.removesuffix(".gz"), budget.read(gzip.GzipFile(fileobj=io.BytesIO(data)))


def _zip_entries(data: bytes, budget: _Budget) -> Iterator[tuple[str, bytes]]:
    if data.count(b"PK\x01\x02") > MAX_ENTRIES:  # before zipfile makes an object of each
        budget.entries = 0
        budget.count_entry()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            budget.count_entry()
            if info.is_dir() or not _welcome(info.filename):
                continue
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise SubmissionError(f"archive: a compression that is not read here. {SEND_IT}")
            with archive.open(info) as stream:
                yield info.filename, budget.read(stream)


def _welcome(name: str) -> bool:
    """Return whether an entry is looked into: a notebook or an archive, at a path that is sane."""
    path = PurePosixPath(name.replace("\\", "/"))
    sane = not path.is_absolute() and ".." not in path.parts and ":" not in path.parts[:1]
    return sane and not _SKIPPED.intersection(path.parts) and name.endswith((".ipynb", *_INNER))
