"""What every message says about itself, in a few readable bytes.

    0:4.7|all_reduce|ring|float32|(1024,)|sum NUL train.py:12 NUL numpy
    |     |          |    |       |       |       |               what `recv` hands out
    |     operation  |    dtype   shape   op or root              where the sender stood
    order: communicator (its context and first rank: groups of one split share a context) and
    sequence number

The part before the first NUL must be equal on all ranks of a collective. A field `?` is one that
its rank cannot know, as the shape of a broadcast elsewhere than at the root. Ranks that disagree
find out from the message that they were going to receive anyway.
"""

import contextlib
import functools
import os
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lab.errors import Mismatch

PACKAGE = str(Path(__file__).parents[1]) + os.sep
# Where the code of `warnings` lies: from Python 3.14 on that module only hands it on.
OF_WARNINGS = warnings.catch_warnings.__init__.__code__.co_filename
# Where the stack of a thread of ours begins, and what stands around a function that is deprecated
# or a context manager; torch has all of these.
INSIDE = (PACKAGE, threading.__file__, OF_WARNINGS, contextlib.__file__)
FIELDS = ("order", "operation", "algorithm", "dtype", "shape", "argument")
ANY = "?"


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype; bfloat16, which NumPy lacks, is a field of that name."""
    numpy_dtype = np.dtype(dtype)
    return ",".join(numpy_dtype.names) if numpy_dtype.names else numpy_dtype.name


@functools.lru_cache(maxsize=4096)
def describe(
    operation: str, algorithm: str, dtype: Any, shape: tuple[int, ...] | None, argument: str
) -> bytes:
    """Return the fields after `order`; a dtype or shape of None becomes `?`."""
    name = ANY if dtype is None else dtype_name(dtype)
    size = ANY if shape is None else str(shape)
    return f"|{operation}|{algorithm}|{name}|{size}|{argument}".encode()


def stamp(
    context: int, first: int, sequence: int, description: bytes, site: bytes, kind: str
) -> bytes:
    """Return the header of all messages of one collective on this rank."""
    return b"%d:%d.%d%b\0%b\0%b" % (context, first, sequence, description, site, kind.encode())


def site_of(header: bytes) -> str:
    """Return where the sender of `header` stood, as `file:line`."""
    parts = header.split(b"\0")
    return parts[1].decode() if len(parts) > 1 and parts[1] else "an unknown line"


def kind_of(header: bytes) -> str:
    """Return the kind of array that the sender had."""
    return header.rpartition(b"\0")[2].decode()


def fields_of(header: bytes) -> list[str]:
    """Return the fields that ranks must agree on."""
    return header.partition(b"\0")[0].decode().split("|")


def operation_of(header: bytes) -> str:
    """Return what the sender was doing."""
    fields = fields_of(header)
    return fields[1] if len(fields) > 1 else "send"


def conflict(mine: bytes, theirs: bytes) -> str | None:
    """Return the first field, by importance, in which two headers differ, or None."""
    if mine.partition(b"\0")[0] == theirs.partition(b"\0")[0]:
        return None
    left, right = fields_of(mine), fields_of(theirs)
    if len(left) != len(FIELDS) or len(right) != len(FIELDS):
        return "operation"
    for index in (1, 0, 3, 4, 5, 2):
        if left[index] != right[index] and ANY not in (left[index], right[index]):
            return FIELDS[index]
    return None


def check(mine: bytes, theirs: bytes, rank: int, peer: int) -> None:
    """Raise `Mismatch` if `peer` is not in the same collective as this rank.

    Raises:
        Mismatch: naming both ranks, what each said, and both call sites.
    """
    field = conflict(mine, theirs)
    if field is None:
        return
    name = "operation or root" if field == "argument" else field
    left_over = (
        " So it looks, too, where an algorithm of your own sends a message that nobody receives."
        if field == "order"
        else ""
    )
    raise Mismatch(
        f"{operation_of(mine)}: ranks disagree on the {name}: "
        f"rank {rank} has {_fact(mine, field)} at {site_of(mine)}, "
        f"rank {peer} has {_fact(theirs, field)} at {site_of(theirs)}. "
        "All ranks must make the same collective calls, in the same order, with equal arguments."
        f"{left_over}",
        (rank, peer),
    )


def complete_header(mine: bytes, theirs: bytes) -> bytes:
    """Return `mine` with what it could not know taken from `theirs`, to be passed on."""
    if b"|?|" not in mine:
        return mine
    description, _, _ = theirs.partition(b"\0")
    return b"\0".join([description, mine.split(b"\0")[1], theirs.rpartition(b"\0")[2]])


def _fact(header: bytes, field: str) -> str:
    fields = fields_of(header)
    if len(fields) != len(FIELDS):
        return "a plain send"
    if field == "order":
        return f"{fields[1]} as collective {fields[0].rpartition('.')[2]}"
    fact = fields[FIELDS.index(field)] or "no such"
    return fact if field in ("operation", "argument") else f"{field} {fact}"


@functools.lru_cache(maxsize=4096)
def _site(filename: str, line: int) -> bytes:
    return f"{filename}:{line}".encode()


_here = threading.local()


def stand_at(site: bytes) -> None:
    """Let the calling thread, which nobody outside this package called, stand at `site`."""
    _here.site = site


def _places_inside() -> tuple[str, ...]:
    """Return where the files lie that no program's own line is in."""
    torch = sys.modules.get("torch")
    path = getattr(torch, "__file__", None)
    return INSIDE if path is None else _with_torch(path)


@functools.lru_cache(maxsize=4096)
def _is_in(filename: str, places: tuple[str, ...]) -> bool:
    return filename.startswith(places)


@functools.lru_cache(maxsize=1)
def _with_torch(path: str) -> tuple[str, ...]:
    of_extensions = str(sys.modules["typing_extensions"].__file__)  # torch has imported it
    return (*INSIDE, str(Path(path).parent) + os.sep, of_extensions)


def call_site() -> bytes:
    """Return `file:line` of the innermost caller outside this package and outside torch.

    In a thread that this package started it is where `stand_at` said, b"" if nothing did.
    """
    frame = sys._getframe(1)
    inside = _places_inside()
    while _is_in(frame.f_code.co_filename, inside):
        if frame.f_back is None:
            site: bytes = getattr(_here, "site", b"")
            return site
        frame = frame.f_back
    return _site(frame.f_code.co_filename, frame.f_lineno)
