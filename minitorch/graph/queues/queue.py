"""Queues under TensorFlow's names: nodes that put elements in, and nodes that take them out.

An element is a tuple of arrays. The elements live in the session; the graph has the operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arrays import as_dtype, int32
from ...errors import GraphError
from ...op import Spec
from ..control.history import Opaque
from ..lined import lined
from ..naming import rename
from ..node import UNKNOWN, Node, UnknownShape, as_shape, build, convert
from ..operators.random import seed_of
from ..scope import get_default_graph
from ..state import State
from ..static_shape import agree
from .queue_ops import Asked, Close, Component, Dequeue, Enqueue
from .store import Store


class QueueBase:
    """A queue of elements.

    Args:
        capacity: how many elements it holds at most.
        dtypes, shapes: of an element's components; without shapes only `dequeue` is possible.
        names: of the components: then elements are dicts.
    """

    pads = False

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        name: str = "queue",
        least: int = 0,
        seed: Any = None,
        shuffles: bool = False,
    ) -> None:
        listed = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes]
        self.dtypes = [as_dtype(t) for t in listed]
        self.shapes = _shapes(shapes, len(listed))
        self.names = [names] if isinstance(names, str) else names
        self.capacity, self.least, self.seed, self.shuffles = capacity, least, seed, shuffles
        if self.names is not None and len(self.names) != len(self.dtypes):
            raise GraphError(f"queue: got {len(self.names)} names for {len(listed)} components.")
        self.name = get_default_graph().unique_name(name)

    def store(self, state: State) -> Store:
        """Return the elements in a session, made at the first use."""

        def made() -> Store:
            draw = state.generator(self, self.seed) if self.shuffles else None
            return Store(self.name, self.capacity, self.least, draw, state)

        found: Store = state.resource(self, made)
        return found

    # Putting in

    @lined
    def enqueue(self, vals: Any, name: str | None = None) -> Node:
        """An operation that puts one element in, and waits while there is no room."""
        return self._put(self._components(vals), many=False, name=name)

    @lined
    def enqueue_many(self, vals: Any, name: str | None = None) -> Node:
        """An operation that puts in an element for each row of the components."""
        return self._put(self._components(vals), many=True, name=name)

    def _put(self, nodes: list[Node], many: bool, name: str | None) -> Node:
        for node, dtype, shape in zip(nodes, self.dtypes, self._shapes_or_open(), strict=True):
            got = node.shape
            inner = got if not many or isinstance(got, UnknownShape) else got[1:]
            if node.dtype != dtype or not (self.pads or agree(inner, shape)):
                raise GraphError(
                    f"enqueue: queue {self.name!r} takes {dtype} of shape {shape}, got "
                    f"{node.name!r}, {node.dtype} of shape {inner} (built at {node.location})."
                )
        return rename(build(Enqueue(self, many), nodes), name)

    def _components(self, vals: Any) -> list[Node]:
        if self.names is not None:
            if not isinstance(vals, Mapping) or set(vals) != set(self.names):
                raise GraphError(f"enqueue: queue {self.name!r} takes a dict of {self.names}.")
            vals = [vals[key] for key in self.names]
        given = list(vals) if isinstance(vals, list | tuple) and len(self.dtypes) > 1 else [vals]
        if isinstance(vals, list | tuple) and len(self.dtypes) == 1 and len(vals) == 1:
            given = list(vals)
        if len(given) != len(self.dtypes):
            raise GraphError(
                f"enqueue: queue {self.name!r} takes {len(self.dtypes)} components, got "
                f"{len(given)}."
            )
        return [convert(v, t) for v, t in zip(given, self.dtypes, strict=True)]

    # Taking out

    @lined
    def dequeue(self, name: str | None = None) -> Any:
        """One element; waits while there is none."""
        specs = [Spec(s, t) for s, t in zip(self._shapes_or_open(), self.dtypes, strict=True)]
        return self._taken(Dequeue(self, many=False, fewer=False), (), specs, name)

    @lined
    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, each component as one array with an axis in front; waits for all."""
        return self._rows(n, False, name)

    @lined
    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """`n` elements, or as many as are left once the queue is closed, one at least."""
        return self._rows(n, True, name)

    def _rows(self, n: Any, fewer: bool, name: str | None) -> Any:
        if self.shapes is None:
            raise GraphError(
                f"dequeue: the shapes of queue {self.name!r} are not known. Give shapes=, so that "
                "elements can be stacked."
            )
        known = None if fewer or isinstance(n, Node) else int(n)
        specs = [Spec((known, *s), t) for s, t in zip(self.shapes, self.dtypes, strict=True)]
        return self._taken(Dequeue(self, True, fewer), (convert(n, int32),), specs, name)

    def _taken(self, op: Dequeue, inputs: Any, specs: list[Spec], name: str | None) -> Any:
        bundle = build(op, inputs, kind=Opaque)
        nodes = [build(Component(i, spec), (bundle,)) for i, spec in enumerate(specs)]
        rename(nodes[0], name)
        if self.names is not None:
            return dict(zip(self.names, nodes, strict=True))
        return nodes if len(nodes) > 1 else nodes[0]

    def _shapes_or_open(self) -> list[Any]:
        return [UNKNOWN] * len(self.dtypes) if self.shapes is None else self.shapes

    # The queue itself

    def size(self, name: str | None = None) -> Node:
        """How many elements there are now."""
        return rename(build(Asked(self, "size"), ()), name)

    def is_closed(self, name: str | None = None) -> Node:
        """Whether the queue is closed."""
        return rename(build(Asked(self, "closed"), ()), name)

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Node:
        """An operation that closes the queue: nothing more goes in, the rest may be taken."""
        return rename(build(Close(self, cancel_pending_enqueues), ()), name)


class FIFOQueue(QueueBase):
    """First in, first out."""

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, shared_name or name)


class PaddingFIFOQueue(QueueBase):
    """First in, first out; of elements taken together the smaller ones get zeros at their ends."""

    pads = True

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, shared_name or name)


class RandomShuffleQueue(QueueBase):
    """Takes out in a random order, and keeps `min_after_dequeue` elements to choose from."""

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        if not 0 <= min_after_dequeue < capacity:
            raise GraphError(
                f"RandomShuffleQueue: got min_after_dequeue {min_after_dequeue} for a capacity of "
                f"{capacity}, expected less."
            )
        more = (min_after_dequeue, seed_of(seed), True)
        super().__init__(capacity, dtypes, shapes, names, shared_name or name, *more)


def _shapes(shapes: Any, count: int) -> list[Any] | None:
    """Return a shape for each component; one may stand for a list of one."""
    if shapes is None:
        return None
    several = isinstance(shapes, list | tuple) and all(
        isinstance(s, list | tuple) or s == () for s in shapes
    )
    listed = list(shapes) if several and (len(shapes) or count != 1) else [shapes]
    if len(listed) != count:
        raise GraphError(
            f"queue: got {len(listed)} shapes for {count} components, expected one each."
        )
    return [tuple(as_shape(s)) for s in listed]
