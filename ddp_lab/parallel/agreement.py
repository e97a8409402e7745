"""All ranks of a communicator compare what they were given, and raise the same error.

May import: the package below `parallel`.
"""

import json
from collections.abc import Callable, Sequence

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument, Mismatch


def exchange(comm: Communicator, text: str) -> list[str]:
    """Return every rank's text, by rank."""
    data = np.frombuffer(text.encode(), np.uint8)
    lengths = comm.all_gather(np.array([len(data)], np.int64))[:, 0]
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(data)] = data
    rows = comm.all_gather(padded)
    return [bytes(row[:n]).decode() for row, n in zip(rows, lengths, strict=True)]


def agree(
    comm: Communicator, operation: str, facts: Callable[[], Sequence[tuple[str, str]]], step: str
) -> None:
    """Compare the facts of all ranks, each a name and a value as text.

    Args:
        operation: what is being made, for the message.
        facts: gives this rank's, or raises `InvalidArgument`.
        step: what to do about a difference.

    Raises:
        InvalidArgument: on every rank, what the first rank that has one raised.
        Mismatch: on every rank, naming the first fact in which a rank differs from rank 0.
    """
    problem, mine = "", []
    try:
        mine = [list(fact) for fact in facts()]
    except InvalidArgument as error:
        problem = str(error)
    everyone = [json.loads(text) for text in exchange(comm, json.dumps([problem, mine]))]
    for problem, _ in everyone:
        if problem:
            raise InvalidArgument(problem)
    first = everyone[0][1]
    for rank, (_, other) in enumerate(everyone):
        if other != first:
            raise Mismatch(f"{operation}: {_difference(first, other, rank)}. {step}", (0, rank))


def _difference(first: list[list[str]], other: list[list[str]], rank: int) -> str:
    theirs = {name: value for name, value in other}  # noqa: C416
    for name, value in first:
        if theirs.get(name) != value:
            got = theirs.get(name, "none")
            return f"ranks disagree on {name}: rank 0 has {value}, rank {rank} has {got}"
    known = {name for name, _ in first}
    extra = next((name for name in theirs if name not in known), None)
    if extra is None:
        return f"ranks disagree on the order of names: rank {rank} has another than rank 0"
    return f"ranks disagree on {extra}: rank 0 has none, rank {rank} has {theirs[extra]}"
