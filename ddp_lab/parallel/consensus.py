"""What ranks must have in common before they train together: all of them raise, or none.

May import: errors, NumPy.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, Mismatch

DIGEST_BYTES = 16


def agree(
    comm: Communicator, operation: str, facts: Mapping[str, Any], problem: str | None = None
) -> None:
    """Return once every rank has the same facts and none has a problem; every rank calls it.

    One gather of 16 bytes a rank while they agree; only then do texts travel.

    Args:
        comm: the ranks.
        operation: what they are about to do, for the message.
        facts: what must be equal, by name.
        problem: what is wrong on this rank alone, None where nothing is.

    Raises:
        InvalidArgument: a rank has a problem; on all ranks, naming it.
        Mismatch: ranks differ in a fact; on all ranks, naming two of them and the first such fact.
    """
    text = json.dumps([problem, {name: str(fact) for name, fact in facts.items()}])
    digest = blake2b(text.encode(), digest_size=DIGEST_BYTES).digest()
    rows = comm.all_gather(np.frombuffer(digest, np.uint8))
    if problem is None and (rows == rows[comm.rank]).all():
        return
    everyone = [json.loads(theirs) for theirs in exchange(comm, text)]
    for rank, (theirs, _) in enumerate(everyone):
        if theirs is not None:
            raise InvalidArgument(f"{operation}: rank {rank}: {theirs}")
    first = everyone[0][1]
    for rank, (_, other) in enumerate(everyone):
        for name in {**first, **other}:
            if first.get(name) != other.get(name):
                raise Mismatch(
                    f"{operation}: ranks disagree on {name}: rank 0 has "
                    f"{first.get(name, 'none')}, rank {rank} has {other.get(name, 'none')}. "
                    f"Pass the same on every rank.",
                    (0, rank),
                )


def exchange(comm: Communicator, text: str) -> list[str]:
    """Return every rank's `text`, by rank."""
    data = np.frombuffer(text.encode(), np.uint8)
    lengths = comm.all_gather(np.array([data.size], np.int64))[:, 0]
    padded = np.zeros(max(1, lengths.max()), np.uint8)
    padded[: data.size] = data
    rows = comm.all_gather(padded)
    return [row[:n].tobytes().decode() for row, n in zip(rows, lengths, strict=True)]
