"""What a server keeps: its pieces of the arrays, and the optimizer that steps them.

May import: NumPy, arrays, messages, optimizers, pieces, transport.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ddp_lab.arrays import outside
from ddp_lab.parallel.parameter_server.messages import Entry
from ddp_lab.parallel.parameter_server.optimizers import Optimizer
from ddp_lab.parallel.parameter_server.pieces import Piece, at_server, join
from ddp_lab.transport.base import NDArray


class Store:
    """One server's arrays, by the numbers of their pieces.

    Args:
        pieces: those of all servers.
        server: whose are kept here.
        arrays: all arrays, whole, by name; what is kept is copied.
        kinds: kind and device of each array, to give back the same.
        optimizer: steps each piece by itself.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        server: int,
        arrays: Mapping[str, NDArray],
        kinds: Mapping[str, tuple[str, Any]],
        optimizer: Optimizer,
    ) -> None:
        self.pieces = pieces
        self._arrays = {
            number: pieces[number].of(arrays[pieces[number].name]).copy()
            for number in at_server(pieces, server)
        }
        self._kinds = kinds
        self._optimizer = optimizer

    def entries(self, numbers: Iterable[int] | None = None) -> list[Entry]:
        """Return the pieces of these numbers, or all that are kept here."""
        chosen = self._arrays if numbers is None else numbers
        return [Entry(number, self._arrays[number]) for number in chosen]

    def whole(self, others: Iterable[Entry]) -> dict[str, Any]:
        """Return all arrays by name, from the pieces here and those of the other servers."""
        entries = [*others, *self.entries()]
        parts = {e.piece: e.array for e in entries if e.array is not None}
        return join(self.pieces, parts, self._kinds)

    def apply(self, gradients: Sequence[Sequence[Entry]]) -> None:
        """Step the optimizer on the mean of some workers' gradients."""
        for number in self._arrays:
            parts = [e for entries in gradients for e in entries if e.piece == number]
            parts = [e for e in parts if e.array is not None]
            if parts:
                self._step(number, parts, len(gradients))

    def _step(self, number: int, parts: list[Entry], count: int) -> None:
        name, array = self.pieces[number].name, self._arrays[number]
        kind = self._kinds[name][0]
        param = outside(array, kind)
        step_rows = getattr(self._optimizer, "step_rows", None)
        if step_rows is not None and all(e.rows is not None for e in parts):
            rows, total = _sum_rows(parts, kind)
            if step_rows(name, param, outside(rows, kind), _mean(total, count)):
                return
        self._optimizer.step(name, param, _mean(_sum(parts, array, kind), count))


def _sum(parts: list[Entry], like: NDArray, kind: str) -> Any:
    """Return the sum of gradients, some of which may be of a few rows alone."""
    total = outside(np.zeros_like(like), kind)
    for part in parts:
        assert part.array is not None
        grad = outside(part.array, kind)
        if part.rows is None:
            total += grad
        elif kind == "numpy":
            np.add.at(total, part.rows, grad)
        else:
            total.index_add_(0, outside(part.rows, kind), grad)
    return total


def _sum_rows(parts: list[Entry], kind: str) -> tuple[NDArray, Any]:
    """Return the rows that gradients of a few rows have, each once, and the sums there."""
    rows = np.concatenate([e.rows for e in parts if e.rows is not None])
    unique, place = np.unique(rows, return_inverse=True)
    starts = np.cumsum([0, *(0 if e.rows is None else len(e.rows) for e in parts)])
    placed = [
        Entry(e.piece, e.array, place[lo:hi])
        for e, lo, hi in zip(parts, starts, starts[1:], strict=False)
    ]
    assert parts[0].array is not None
    like = np.zeros((len(unique), *parts[0].array.shape[1:]), parts[0].array.dtype)
    return unique, _sum(placed, like, kind)


def _mean(total: Any, count: int) -> Any:
    if count > 1:
        total /= count
    return total
