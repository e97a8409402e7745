"""What ranks must have in common before they work together: all of them raise, or none.

May import: NumPy, communicator, errors.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, Mismatch

DIGEST_BYTES = 16


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
    said = None if problem is None else f"{operation}: rank {comm.rank}: {problem}"
    mine: list[tuple[str, str]] = []
    try:
        known = facts() if callable(facts) else facts
        mine = [(name, str(fact)) for name, fact in known.items()]
    except InvalidArgument as error:
        said = str(error)
    text = json.dumps([said, mine])
    digest = blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
    rows = comm.all_gather(np.frombuffer(digest, np.uint8))
    if said is None and (rows == rows[comm.rank]).all():
        return
    everyone = [json.loads(theirs) for theirs in exchange(comm, text)]
    for theirs, _ in everyone:
        if theirs is not None:
            raise InvalidArgument(theirs)
    for rank, (_, other) in enumerate(everyone):
        if other != everyone[0][1]:
            difference = _difference(dict(everyone[0][1]), dict(other), rank)
            raise Mismatch(f"{operation}: ranks disagree on {difference}. {step}.", (0, rank))


def _difference(first: dict[str, str], other: dict[str, str], rank: int) -> str:
    for name in {**first, **other}:
        ours, theirs = first.get(name, "none"), other.get(name, "none")
        if ours != theirs:
            return f"{name}: rank 0 has {ours}, rank {rank} has {theirs}"
    return f"the order of names: rank {rank} has another than rank 0"


def exchange(comm: Communicator, text: str) -> list[str]:
    """Return every rank's text, by rank."""
    data = np.frombuffer(text.encode(), np.uint8)
    lengths = comm.all_gather(np.array([len(data)], np.int64))[:, 0]
    padded = np.zeros(max(1, int(lengths.max())), np.uint8)
    padded[: len(data)] = data
    rows = comm.all_gather(padded)
    return [bytes(row[:n]).decode() for row, n in zip(rows, lengths, strict=True)]
