"""What a session does to a queue: put in, take out, ask, close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import CPU, Array, as_dtype, asarray, int32, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..state import State, StateOp
from ..static_shape import agree
from .store import Element

if TYPE_CHECKING:
    from .queue import QueueBase


class OnQueue(StateOp):
    """Base of what is done to a queue."""

    def __init__(self, queue: QueueBase) -> None:
        self.queue = queue

    def infer(self, *specs: Spec) -> Spec:
        """Return a spec that nobody reads."""
        return Spec((), as_dtype(bool))


class Enqueue(OnQueue):
    """Put in the inputs as one element, or an element for each of their rows."""

    def __init__(self, queue: QueueBase, many: bool) -> None:
        super().__init__(queue)
        self.many = many

    def run(self, state: State, *arrays: Array) -> Any:
        """Return nothing, once there was room.

        Raises:
            CancelledError: the queue is closed. GraphError: an element does not fit.
        """
        parts = [np.array(to_numpy(a)) for a in arrays]  # the caller may write into its own
        if self.many and len({len(p) for p in parts}) != 1:
            raise GraphError(
                f"enqueue_many: queue {self.queue.name!r} got components of "
                f"{[len(p) for p in parts]} rows, expected equally many."
            )
        elements = list(zip(*parts, strict=True)) if self.many else [tuple(parts)]
        for element in elements:
            self._check(element)
        self.queue.store(state).put(elements)

    def _check(self, element: Element) -> None:
        for part, shape in zip(element, self.queue.shapes or (), strict=False):
            if not agree(np.shape(part), shape):
                raise GraphError(
                    f"enqueue: queue {self.queue.name!r} takes shape {shape}, got {np.shape(part)}."
                )


class Dequeue(OnQueue):
    """Take out one element, or as many as the input says, as a tuple of arrays."""

    def __init__(self, queue: QueueBase, many: bool, fewer: bool) -> None:
        super().__init__(queue)
        self.many, self.fewer = many, fewer

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the tuple, as soon as there are enough.

        Raises:
            OutOfRangeError: the queue is closed and there are not.
        """
        count = int(arrays[0]) if self.many else 1
        found = self.queue.store(state).take(count, self.fewer)
        parts = found[0] if not self.many else self._stacked(found)
        if state.device == CPU:
            return parts
        return tuple(asarray(part, None, state.device) for part in parts)

    def _stacked(self, found: list[Element]) -> Element:
        if not found:
            shapes, dtypes = self.queue.shapes or [], self.queue.dtypes
            pairs = zip(shapes, dtypes, strict=True)
            return tuple(np.zeros((0, *(n or 0 for n in s)), t) for s, t in pairs)
        columns = zip(*found, strict=True)
        return tuple(_widened(c) if self.queue.pads else np.stack(c) for c in columns)


def _widened(parts: Sequence[Any]) -> Any:
    """Return arrays of equally many axes as one, with zeros where some are shorter."""
    return padded(parts, np.max([np.shape(part) for part in parts], axis=0).astype(int), 0)


def padded(parts: Sequence[Any], sizes: Sequence[int], fill: Any) -> Any:
    """Return arrays as one of shape (parts, *sizes), with `fill` where they are shorter."""
    whole = np.full((len(parts), *sizes), fill, np.asarray(parts[0]).dtype)
    for i, part in enumerate(parts):
        whole[i][tuple(slice(n) for n in np.shape(part))] = part
    return whole


class Component(StateOp):
    """One of the arrays of an element."""

    ordered = False
    hands_on = True

    def __init__(self, place: int, spec: Spec) -> None:
        self.place, self.spec = place, spec

    def run(self, state: State, *arrays: Any) -> Array:
        """Return the array."""
        return arrays[0][self.place]

    def infer(self, *specs: Spec) -> Spec:
        """Return what is known of it."""
        return self.spec

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: data come from outside."""
        return (None,)


class Asked(OnQueue):
    """How many elements a queue has, or whether it is closed."""

    def __init__(self, queue: QueueBase, what: str) -> None:
        super().__init__(queue)
        self.what = what

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the number, or the boolean."""
        store = self.queue.store(state)
        found = np.int32(len(store)) if self.what == "size" else np.bool_(store.closed)
        return np.asarray(found) if state.device == CPU else asarray(found, None, state.device)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of one number."""
        return Spec((), int32 if self.what == "size" else as_dtype(bool))


class Close(OnQueue):
    """Close a queue."""

    def __init__(self, queue: QueueBase, cancel_pending: bool) -> None:
        super().__init__(queue)
        self.cancel_pending = cancel_pending

    def run(self, state: State, *arrays: Array) -> Any:
        """Return nothing."""
        self.queue.store(state).close(self.cancel_pending)
