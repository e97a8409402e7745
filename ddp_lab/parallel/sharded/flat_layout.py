"""Tensors one after another in a flat one, which is cut into equal rows, one a rank.

    tensors   | a a a a a | b b b | c c c c c c |
    rows      | a a a a | a b b b | c c c c | c c - - |      four ranks, padded at the end

So every rank has 1/n of the elements whatever the shapes are, and a row is what a collective moves:
DeepSpeed's layout. A rank's part of one tensor may be all of it, some of it, or nothing.

May import: torch, agreement, communicator, errors.
Source: Rajbhandari et al., ZeRO, SC 2020.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from typing import Any

from torch import Tensor

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import OutOfSharedMemory
from ddp_lab.parallel.agreement import digest_of


class FlatLayout:
    """Where each tensor lies: `starts` in the flat tensor, `row` elements a rank."""

    def __init__(self, shapes: Sequence[Sequence[int]], ranks: int) -> None:
        self.shapes = [tuple(shape) for shape in shapes]
        self.ranks = ranks
        *self.starts, self.numel = accumulate(map(prod, self.shapes), initial=0)
        self.row = -(-self.numel // ranks)

    def parts(self, rank: int) -> list[slice]:
        """Return which elements of each tensor, flattened, lie in a rank's row."""
        begin, end = rank * self.row, (rank + 1) * self.row
        slices = []
        for start, shape in zip(self.starts, self.shapes, strict=True):
            low, high = (min(max(edge - start, 0), prod(shape)) for edge in (begin, end))
            slices.append(slice(low, high))
        return slices

    def shares(self, row: Tensor, rank: int) -> list[Tensor]:
        """Return a rank's part of each tensor as a view of its row."""
        begin = rank * self.row
        return [
            row[max(0, start + part.start - begin) :][: part.stop - part.start]
            for start, part in zip(self.starts, self.parts(rank), strict=True)
        ]

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the tensors as views of the flat one."""
        return [
            flat[start : start + prod(shape)].view(shape)
            for start, shape in zip(self.starts, self.shapes, strict=True)
        ]


def by_kind(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the positions of tensors that can lie in one flat tensor: one dtype, one device."""
    positions: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        positions.setdefault((tensor.dtype, tensor.device), []).append(i)
    return list(positions.values())


def empty(comm: Communicator, numel: int, like: Tensor) -> Tensor:
    """Return a flat tensor of `like`'s kind, where other ranks can read it if there is room."""
    if like.is_cpu:
        try:
            flat: Tensor = comm.empty((numel,), like.dtype)
            return flat
        except OutOfSharedMemory:
            pass
    return like.new_empty(numel)


def facts_of(tensor: Tensor) -> str:
    """Return what ranks must agree on about a parameter, its values included."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    kind = "trained" if tensor.requires_grad else "frozen"
    return f"{dtype} {tuple(tensor.shape)} {kind}, values {digest_of(tensor)}"
