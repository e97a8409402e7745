"""Input pipelines out of queues: producers of rows, batches of them, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays import Array, int64
from ...errors import GraphError
from ...op import Spec
from ..collections import GraphKeys
from ..lined import lined
from ..naming import rename
from ..node import Node, UnknownShape, build, convert
from ..operators.making import range as counted
from ..operators.random import random_shuffle
from ..operators.shaping import gather, identity, shape
from ..scope import control_dependencies, name_scope
from ..spaces.errors import OutOfRangeError
from ..state import State, StateOp, Variable
from .coordinator import QueueRunner, add_queue_runner
from .queue import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue


class CountUpTo(StateOp):
    """A variable's value before it is raised by one; an error at the limit."""

    def __init__(self, variable: Variable, limit: int) -> None:
        self.variable, self.limit = variable, limit
        self.writes = (variable,)

    def run(self, state: State, *arrays: Array) -> Array:
        """Return the value.

        Raises:
            OutOfRangeError: it has reached the limit.
        """
        with state.lock:  # threads that fill a queue may count together
            value = self.variable.value_in(state)
            if int(value) >= self.limit:
                raise OutOfRangeError(f"count_up_to: reached the limit of {self.limit}.")
            state.values[self.variable] = np.asarray(value + 1, value.dtype)
        return value

    def infer(self, *specs: Spec) -> Spec:
        """Return the variable's spec."""
        return Spec(tuple(self.variable.shape), self.variable.dtype)


@lined
def count_up_to(ref: Variable, limit: int, name: str | None = None) -> Node:
    """The value of a variable before it is raised by one; OutOfRangeError once it is `limit`."""
    return rename(build(CountUpTo(ref, int(limit)), ()), name)


@lined
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Node:
    """The value, `num_epochs` times, then OutOfRangeError. The count is a local variable."""
    node = convert(tensor)
    if num_epochs is None:
        return node
    if num_epochs <= 0:
        raise GraphError(f"limit_epochs: got num_epochs {num_epochs}, expected 1 or more.")
    keys = [GraphKeys.LOCAL_VARIABLES]
    with control_dependencies(None):
        epochs = Variable(np.int64(0), False, "epochs", int64, collections=keys)
    with control_dependencies([count_up_to(epochs, num_epochs)]):
        return identity(node, name)


@lined
def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """A queue of the rows of a value, again and again or `num_epochs` times, filled by a thread."""
    node = convert(input_tensor)
    if element_shape is None and isinstance(node.shape, UnknownShape):
        raise GraphError(
            "input_producer: the shape of an element is not known. Give element_shape."
        )
    inner = tuple(node.shape)[1:] if element_shape is None else tuple(element_shape)
    with name_scope(name, "input_producer"):
        rows = random_shuffle(node, seed) if shuffle else node
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [node.dtype], [inner], shared_name=shared_name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])]))
    return queue


def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """A queue of the integers from 0 up to `limit`, in a new order for each epoch."""
    more = ((), num_epochs, shuffle, seed, capacity, shared_name, name or "input_producer")
    return input_producer(counted(limit), *more)


@lined
def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Node]:
    """One row of each of the values, those that belong together, another one in each run."""
    nodes = [convert(value) for value in tensor_list]
    if not nodes:
        raise GraphError("slice_input_producer: got no values, expected a list of one or more.")
    first = nodes[0]
    count = first.shape[0] if first.shape.ndims else None
    limit = shape(first)[0] if count is None else count
    more = (num_epochs, shuffle, seed, capacity, shared_name, name)
    index = range_input_producer(limit, *more).dequeue()
    return [gather(node, index) for node in nodes]


# ── batches ─────────────────────────────────────────────────────────────────────────────────────


@lined
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of what threads compute from `tensors`, in its structure.

    Args:
        tensors: a value, a list or a dict of them; one element of the batch, or with
            `enqueue_many` several rows of it.
        dynamic_pad: fill shorter elements of a batch with zeros.
        allow_smaller_final_batch: give what is left at the end, too.
    """
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    with name_scope(name, "batch"):
        values = _Values(tensors, shapes, enqueue_many)
        queue = kind(capacity, values.dtypes, values.shapes, shared_name=shared_name)
        return values.batches(queue, batch_size, num_threads, allow_smaller_final_batch)


@lined
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """As `batch`, drawn at random from a queue in which `min_after_dequeue` elements stay."""
    with name_scope(name, "shuffle_batch"):
        values = _Values(tensors, shapes, enqueue_many)
        queue = RandomShuffleQueue(
            capacity, min_after_dequeue, values.dtypes, values.shapes, seed=seed,
            shared_name=shared_name,
        )  # fmt: skip
        return values.batches(queue, batch_size, num_threads, allow_smaller_final_batch)


class _Values:
    """What is put into batches: nodes in a row, and the structure that they came in."""

    def __init__(self, tensors: Any, shapes: Any, many: bool) -> None:
        self.keys = sorted(tensors) if isinstance(tensors, Mapping) else None
        self.alone = not isinstance(tensors, Mapping | list | tuple)
        if self.keys is not None:
            listed = [tensors[key] for key in self.keys]
        else:
            listed = [tensors] if self.alone else list(tensors)
        self.nodes = [convert(value) for value in listed]
        if not self.nodes:
            raise GraphError("batch: got no values, expected one or more.")
        self.dtypes = [node.dtype for node in self.nodes]
        self.many = many
        self.shapes = list(shapes) if shapes is not None else [self._inner(n) for n in self.nodes]

    def batches(self, queue: QueueBase, size: Any, threads: int, smaller: bool) -> Any:
        """Return batches out of `queue`, which as many threads are to fill."""
        put = queue.enqueue_many if self.many else queue.enqueue
        add_queue_runner(QueueRunner(queue, [put(self.nodes) for _ in range(threads)]))
        found = queue.dequeue_up_to(size) if smaller else queue.dequeue_many(size)
        listed = found if isinstance(found, list) else [found]
        if self.keys is not None:
            return dict(zip(self.keys, listed, strict=True))
        return listed[0] if self.alone else listed

    def _inner(self, node: Node) -> tuple[Any, ...]:
        """Return the shape of one element."""
        if isinstance(node.shape, UnknownShape):
            raise GraphError(
                f"batch: the shape of {node.name!r} is not known (built at {node.location}). Use "
                "set_shape, or give shapes."
            )
        return tuple(node.shape)[1:] if self.many else tuple(node.shape)
