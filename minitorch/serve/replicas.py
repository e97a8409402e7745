"""Replicas: containers that answer batches of a dispatcher's queries.

May import: batching, containers, counts, dispatch, errors, wire.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from minitorch.errors import ContainerDied, ModelFailed
from minitorch.serve.batching import Controller
from minitorch.serve.containers import Container, Hub
from minitorch.serve.counts import Counts
from minitorch.serve.dispatch import Dispatcher, Lane, Query
from minitorch.serve.wire import pack_array, unpack_results


@dataclass(eq=False)
class Model:
    """A deployed model: its queue, its containers, what was counted."""

    name: str
    dispatcher: Dispatcher
    make_controller: Callable[[], Controller]
    hang_ms: float
    version: int = 0
    counts: Counts = field(default_factory=Counts)
    containers: "list[Replica]" = field(default_factory=list)
    deploying: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_serving(self) -> bool:
        """Tell whether a container of it takes work."""
        return any(container.is_serving for container in self.containers)

    def replace(self, fresh: "list[Replica]") -> None:
        """Have the containers of a new version answer, and the old ones end."""
        old, self.containers = self.containers, fresh
        self.version += 1
        for container in fresh:
            container.join()
        for container in old:
            container.retire()


class Replica(Container):
    """One replica of a model: a container with a lane."""

    def __init__(self, model: Model, data: bytes, hub: Hub) -> None:
        self._model = model
        self._lane = Lane(model.make_controller(), self._run)
        super().__init__(model.name, data, hub, model.dispatcher.clock, model.counts)

    def join(self) -> None:
        """Take batches, where it is ready and of the version that answers."""
        if self.is_serving and self in self._model.containers:
            self._model.dispatcher.add(self._lane)

    def _run(self, batch: list[Query]) -> None:
        dtype, shape = batch[0].group
        data = b"".join([query.x for query in batch])
        self._send(pack_array(dtype, (len(batch), *shape), data), self._model.hang_ms)

    def _take_results(self, frames: list[bytes]) -> None:
        results, errors, took_ms = unpack_results(*frames)
        batch = self._model.dispatcher.finish(self._lane, took_ms)
        self._counts.batches += 1
        self._counts.queries += len(batch)
        left = iter(results)
        for at, query in enumerate(batch):
            if at in errors:
                blamed, words = errors[at]
                query.answer(None, ModelFailed(f"predict: {self._name}: {words}", blamed))
            else:
                query.answer(next(left), None)
        if self._is_over:
            self.stop()

    def _return_work(self) -> None:
        lane, self._lane = self._lane, Lane(self._model.make_controller(), self._run)
        words = f"predict: the container of {self._name} ended with the query."
        self._model.dispatcher.fail(lane, ContainerDied(words))

    def retire(self) -> None:
        """Take no more batches, and end when the last is done."""
        self._is_over = True
        self._model.dispatcher.remove(self._lane)
        if not self._lane.batch:
            self.stop()

    def stop(self) -> None:
        self._model.dispatcher.remove(self._lane)
        super().stop()
