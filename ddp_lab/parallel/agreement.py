"""What ranks must have in common before they work together: all of them raise, or none.

May import: NumPy, arrays, communicator, errors, transport.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np

from ddp_lab.arrays import to_numpy
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, Mismatch
from ddp_lab.transport.base import NDArray

DIGEST_BYTES = 16

Gather: TypeAlias = Callable[[NDArray], NDArray]
"""Every rank's array, of one shape, stacked by rank: a communicator's `all_gather`, or the like."""


def all_same(gather: Gather, data: bytes) -> bool:
    """Return whether all ranks have the same bytes, as far as a digest tells; the same on each."""
    digest = blake2b(data, digest_size=DIGEST_BYTES).digest()
    rows = gather(np.frombuffer(digest, np.uint8))
    return bool((rows == rows[0]).all())


def digest_of(x: Any) -> str:
    """Return a digest of the values of an array or a tensor, for ranks to compare."""
    return blake2b(to_numpy(x, "agree")[0].tobytes(), digest_size=6).hexdigest()


def exchange(gather: Gather, data: bytes) -> list[bytes]:
    """Return every rank's bytes, by rank; they may be of different lengths."""
    lengths = gather(np.array([len(data)], np.int64))[:, 0]
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    return [row[:n].tobytes() for row, n in zip(gather(padded), lengths, strict=True)]


def agree(
    comm: Communicator,
    operation: str,
    facts: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
    problem: str | None = None,
    step: str = "Pass the same on every rank",
) -> None:
    """Return once every rank has the same facts and none has a problem; every rank calls it.

    One gather of 16 bytes a rank while they agree; only then do texts travel.

    Args:
        comm: the ranks.
        operation: what they are about to do, for the message.
        facts: what must be equal, by name, in the same order; or a function that returns it, or
            raises `InvalidArgument`.
        problem: what is wrong on this rank alone, None where nothing is.
        step: what to do about a difference.
    Raises:
        InvalidArgument: a rank has a problem; on all ranks, naming it.
        Mismatch: ranks differ in a fact; on all ranks, naming two of them and the first such fact.
    """
    complaint = None if problem is None else f"{operation}: rank {comm.rank}: {problem}"
    mine: list[tuple[str, str]] = []
    try:
        values = facts() if callable(facts) else facts
        mine = [(name, str(fact)) for name, fact in values.items()]
    except InvalidArgument as error:
        complaint = str(error)
    text = json.dumps([complaint, mine]).encode()
    if all_same(comm.all_gather, text) and complaint is None:
        return
    everyone = [json.loads(other) for other in exchange(comm.all_gather, text)]
    for other_complaint, _ in everyone:
        if other_complaint is not None:
            raise InvalidArgument(other_complaint)
    first = everyone[0][1]
    for rank, (_, other) in enumerate(everyone):
        if other != first:
            difference = _difference(dict(first), dict(other), rank)
            raise Mismatch(f"{operation}: ranks disagree on {difference}. {step}.", (0, rank))


def _difference(first: dict[str, str], other: dict[str, str], rank: int) -> str:
    for name in {**first, **other}:
        ours, theirs = first.get(name, "none"), other.get(name, "none")
        if ours != theirs:
            return f"{name}: rank 0 has {ours}, rank {rank} has {theirs}"
    return f"the order of names: rank {rank} has another than rank 0"
