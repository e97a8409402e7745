"""The ranks that share something: a communicator, whatever the caller has, and what they agree on.

May import: the communicator, the transport over torch's groups. torch only if there is a group.
"""

import json
import sys
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, Mismatch

_of_groups: "WeakKeyDictionary[Any, Communicator]" = WeakKeyDictionary()
_apart: "WeakKeyDictionary[Communicator, dict[str, Communicator]]" = WeakKeyDictionary()


def communicator_of(operation: str, comm: Any) -> Communicator:
    """Return `comm`, or the communicator of a torch process group; all its ranks call this.

    Raises:
        InvalidArgument: it is neither.
    """
    if isinstance(comm, Communicator):
        return comm
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(comm, torch.distributed.ProcessGroup):
        raise InvalidArgument(
            f"{operation}: no communicator: got {comm!r}, expected a ddp_lab.Communicator or a "
            "torch process group. Use ddp_lab.launch, ddp_lab.init or torch.distributed.new_group."
        )
    if comm not in _of_groups:
        known = getattr(comm, "comm", None)  # a group of this package's backend has one
        if not isinstance(known, Communicator):
            from ddp_lab.transport.c10d import C10dTransport

            known = Communicator(C10dTransport(comm))
        _of_groups[comm] = known
    return _of_groups[comm]


def apart(comm: Communicator, purpose: str) -> Communicator:
    """Return a communicator of the same ranks whose order of calls is its own; all ranks call this.

    It is the same one for the same `purpose` every time.
    """
    known = _apart.setdefault(comm, {})
    if purpose not in known:
        group = comm.split(0, comm.rank)
        assert group is not None
        known[purpose] = group
    return known[purpose]


def require_agreement(operation: str, comm: Communicator, facts: Sequence[Any], hint: str) -> None:
    """Check that all ranks have the same list of facts, which are plain data.

    One small all-gather when they agree; only on disagreement are the lists exchanged.

    Raises:
        Mismatch: on every rank, with the first fact in which a rank differs from rank 0.
    """
    text = json.dumps(facts).encode()
    digest = np.frombuffer(blake2b(text, digest_size=24).digest() + _length(text), np.int64)
    rows = comm.all_gather(digest)
    if (rows == rows[0]).all():
        return
    padded = np.zeros(int(rows[:, -1].max()), np.uint8)
    padded[: len(text)] = np.frombuffer(text, np.uint8)
    texts = [row.tobytes()[:n] for row, n in zip(comm.all_gather(padded), rows[:, -1], strict=True)]
    first, *others = [json.loads(text) for text in texts]
    rank, other = next((r, o) for r, o in enumerate(others, 1) if o != first)
    at = next((i for i, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), None)
    at = min(len(first), len(other)) if at is None else at
    mine, theirs = (facts[at] if at < len(facts) else "nothing" for facts in (first, other))
    raise Mismatch(
        f"{operation}: ranks disagree: rank 0 has {mine}, rank {rank} has {theirs}. {hint}",
        (0, rank),
    )


def _length(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little")
