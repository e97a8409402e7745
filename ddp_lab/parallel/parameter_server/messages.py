"""What workers and servers say to each other, and what they count.

A message is one array of bytes, never a pickle:

    whole numbers of 8 bytes: how many follow; kind, step, counts; for each entry a piece's number
    and its rows (-1: all of them); then the entries' arrays, or a text

May import: NumPy, errors, pieces, transport.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddp_lab import errors
from ddp_lab.errors import DdpLabError, InvalidArgument, RankLost
from ddp_lab.parallel.parameter_server.pieces import Piece
from ddp_lab.transport.base import NDArray

PUSH, PULL, PARAMS, DONE, ACK, FAIL, COMMIT, FINAL, SHARE = range(1, 10)
ALIGN = 16  # bytes: arrays begin where every dtype may lie
DENSE = -1
FIXED = 6  # whole numbers before those of the entries


@dataclass
class Entry:
    """A piece's array, or some of its rows; `array` is None where a piece is only named."""

    piece: int
    array: NDArray | None = None
    rows: NDArray | None = None


@dataclass
class Message:
    """One message; `counts` are a worker's applied and dropped gradients and its greatest lead."""

    kind: int
    step: int = 0
    entries: list[Entry] = field(default_factory=list)
    counts: tuple[int, int, int] = (0, 0, 0)
    text: str = ""


@dataclass
class Report:
    """What happened so far: on a worker its own gradients, on a server those of all workers.

    `applied` and `dropped` are as the servers' last answer said; after `final()` they are whole.
    `max_staleness` is the most steps of the slowest worker that a pull missed. `waited_s` is the
    time that a worker spent in pulls, and a server without a request.
    """

    pushed: int = 0
    applied: int = 0
    dropped: int = 0
    max_staleness: int = 0
    bytes_sent: int = 0
    waited_s: float = 0.0

    def hear(self, applied: int, dropped: int, max_staleness: int) -> None:
        """Take a server's counts of this worker, unless another server has said more."""
        self.applied = max(self.applied, applied)
        self.dropped = max(self.dropped, dropped)
        self.max_staleness = max(self.max_staleness, max_staleness)


def pack(message: Message) -> NDArray:
    """Return the message as an array of bytes."""
    head = [0, message.kind, message.step, *message.counts]
    parts: list[NDArray] = []
    for entry in message.entries:
        named, rows = entry.array is None, entry.rows
        head += [entry.piece, 0 if named else DENSE if rows is None else len(rows)]
        parts += [x for x in (rows, entry.array) if x is not None]
    if message.text:
        parts = [np.frombuffer(message.text.encode(), np.uint8)]
    head[0] = len(head)
    starts, end = [], 8 * len(head)
    for part in parts:
        starts.append(_align(end))
        end = starts[-1] + part.nbytes
    packed = np.zeros(end, np.uint8)
    packed[: 8 * len(head)].view(np.int64)[:] = head
    for start, part in zip(starts, parts, strict=True):
        flat = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
        packed[start : start + part.nbytes] = flat
    return packed


def unpack(packed: NDArray, pieces: Sequence[Piece]) -> Message:
    """Return the message in these bytes; its arrays share their memory."""
    count = int(packed[:8].view(np.int64)[0])
    head = [int(n) for n in packed[: 8 * count].view(np.int64)]
    kind, step, *counts = head[1:FIXED]
    message = Message(kind, step, counts=(counts[0], counts[1], counts[2]))
    at = 8 * count
    for number, n_rows in zip(head[FIXED::2], head[FIXED + 1 :: 2], strict=True):
        entry = Entry(number)
        piece = pieces[number]
        if n_rows > 0:
            entry.rows, at = _read(packed, at, np.dtype(np.int64), (n_rows,))
            entry.array, at = _read(packed, at, piece.dtype, (n_rows, *piece.shape[1:]))
        elif n_rows == DENSE:
            entry.array, at = _read(packed, at, piece.dtype, piece.shape)
        message.entries.append(entry)
    if kind in (FAIL, COMMIT):
        message.text = bytes(packed[_align(at) :]).decode()
    return message


def kind_of(packed: NDArray) -> int:
    """Return the kind of the message in these bytes."""
    return int(packed[8:16].view(np.int64)[0])


def _read(
    packed: NDArray, at: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> tuple[NDArray, int]:
    start = _align(at)
    end = start + dtype.itemsize * int(np.prod(shape))
    return packed[start:end].view(dtype).reshape(shape), end


def _align(at: int) -> int:
    return -(-at // ALIGN) * ALIGN


def failure(error: DdpLabError) -> Message:
    """Return the message that tells another rank of an error."""
    about = getattr(error, "rank", -1)
    return Message(FAIL, text=json.dumps([type(error).__name__, about, str(error)]))


def error_in(message: Message) -> DdpLabError:
    """Return the error that a `failure` told."""
    kind, about, text = json.loads(message.text)
    if kind == "RankLost":
        return RankLost(text, about)
    kind_of_error = getattr(errors, kind, InvalidArgument)
    error: DdpLabError = kind_of_error(text)
    return error
