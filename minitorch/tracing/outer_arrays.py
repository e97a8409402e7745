"""NumPy arrays that a traced function uses and did not make: inputs of each run, as tensors are.

An array can change in place without anybody being told, so what was in it while tracing must not
become a constant. What the function makes itself, or changes while it is traced, is as it was then:
that is an effect of tracing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from minitorch.tensor import Tensor

Array = np.ndarray[Any, Any]


class OuterArrays:
    """The arrays that were there before the trace, and the tensors that look at those it uses.

    Args:
        known: the arrays that the function reaches; a view of one counts as that one does.
    """

    def __init__(self, known: Iterable[Array] = ()) -> None:
        self._owners = {id(_owner(array)) for array in known}
        self._used: dict[int, tuple[Array, Array, Tensor]] = {}

    def tensor_of(self, array: Array) -> Tensor | None:
        """Return the tensor that looks at an array; None for a constant of the trace."""
        if id(_owner(array)) not in self._owners or not array.dtype.isnative:
            return None
        used = self._used.get(id(array))
        if used is None:
            used = self._used[id(array)] = (array, array.copy(), Tensor._new(array))
        return used[2] if _same(array, used[1]) else None

    def settle(self) -> None:
        """Let the tensors whose arrays the function changed hold what it read first."""
        for array, before, tensor in self._used.values():
            if not _same(array, before):
                tensor.array = before


def _owner(array: Array) -> object:
    """Return the object that owns an array's memory."""
    return array if array.base is None else array.base


def _same(a: Array, b: Array) -> bool:
    return a.tobytes() == b.tobytes()
