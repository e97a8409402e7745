"""Who is answered next: queries by deadline, formed into batches, given to containers that rest.

A `Dispatcher` knows no process, no socket and no event loop: it has a clock, and lanes that run a
batch and say when it is done. The server gives it containers, `simulate` gives it numbers.

May import: batching, clock, errors.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Any

from minitorch.errors import DeadlineMissed, ServeError
from minitorch.serve.batching import Controller, LatencyLine
from minitorch.serve.clock import Clock

Group = tuple[str, tuple[int, ...]]  # dtype and shape
Answer = Callable[[Any, ServeError | None], object]
PROBE_MS = 500.0  # a lane that is too slow for every query is tried again after this long


@dataclass(slots=True, eq=False)
class Query:
    """One input on its way to an answer."""

    x: Any
    group: Group  # only queries of one group are in one batch
    asked_ms: float
    due_ms: float
    answer: Answer  # called once, with a value or with an error
    alone: bool = False  # to be computed by itself, since a container has died with it


@dataclass(eq=False)
class Lane:
    """A container as the dispatcher sees it: it runs one batch at a time."""

    controller: Controller
    run: Callable[[list[Query]], None]
    latency: LatencyLine = field(default_factory=LatencyLine)
    batch: list[Query] = field(default_factory=list)
    began_ms: float = 0.0


class Dispatcher:
    """The queue before the containers of one model.

    Args:
        soon: calls back after what is happening now; queries that come together are seen together.
        drops: whether queries that cannot be answered in time are told so rather than computed.
    """

    def __init__(
        self, clock: Clock, soon: Callable[[Callable[[], None]], object], delay_ms: float = 0.0,
        drops: bool = True,
    ) -> None:  # fmt: skip
        self.clock = clock
        self._soon = soon
        self._delay_ms = delay_ms
        self._drops = drops
        self._lanes: list[Lane] = []
        self._heaps: dict[Group, list[tuple[float, int, Query]]] = {}
        self._numbers = count()
        self._is_awaited = False

    def submit(self, query: Query) -> None:
        """Put a query in its place; it is answered, or told that it cannot be, exactly once."""
        if self._drops:
            now_ms = self.clock.now_ms()
            while (heap := self._heaps.get(query.group)) and heap[0][0] <= now_ms:
                self._drop(query.group)
        heap = self._heaps.setdefault(query.group, [])
        heapq.heappush(heap, (query.due_ms, next(self._numbers), query))
        self._wake()

    def add(self, lane: Lane) -> None:
        """Give work to a lane from now on."""
        self._lanes.append(lane)
        self._wake()

    def remove(self, lane: Lane) -> None:
        """Give it no more work; what it has it may finish."""
        if lane in self._lanes:
            self._lanes.remove(lane)

    def finish(self, lane: Lane, took_ms: float) -> list[Query]:
        """Take the batch off a lane that has run it; `took_ms` is the evaluation alone."""
        batch, lane.batch = lane.batch, []
        lane.controller.observe(len(batch), took_ms)
        lane.latency.observe(len(batch), self.clock.now_ms() - lane.began_ms)
        self._wake()
        return batch

    def fail(self, lane: Lane, error: ServeError) -> None:
        """Take the batch off a lane that has died: each query gets one more try, by itself."""
        self.remove(lane)
        batch, lane.batch = lane.batch, []
        for query in batch:
            if query.alone:
                query.answer(None, error)
            else:
                query.alone = True
                self.submit(query)

    def _wake(self) -> None:
        if not self._is_awaited and any(not lane.batch for lane in self._lanes):
            self._is_awaited = True
            self._soon(self._pump)

    def _pump(self) -> None:
        """Give a batch to each lane that rests, the one that has rested longest first."""
        self._is_awaited = False
        resting = [lane for lane in self._lanes if not lane.batch]
        for lane in sorted(resting, key=attrgetter("began_ms")):
            if not self._heaps:
                return
            if batch := self._form(lane):
                lane.batch = batch
                lane.began_ms = self.clock.now_ms()
                lane.run(batch)

    def _form(self, lane: Lane) -> list[Query]:
        """Return the next batch for a lane: earliest deadline first, as many as end in time.

        A query with too little time left for a batch of the wanted size gives way: for its sake all
        those behind it would be late too. Half of the goal is for waiting, half for the batch.
        """
        now_ms = self.clock.now_ms()
        while self._heaps:
            group = min(self._heaps, key=lambda group: self._heaps[group][0][:2])
            heap = self._heaps[group]
            first = heap[0][2]
            size: float = 1 if first.alone else min(lane.controller.limit, len(heap))
            if self._drops:
                left_ms = first.due_ms - now_ms
                fits = lane.latency.fits(left_ms)
                enough = min(size, lane.latency.fits((first.due_ms - first.asked_ms) / 2))
                enough = enough if len(heap) > enough else enough / 2
                is_probe = now_ms - lane.began_ms > PROBE_MS
                in_vain = lane.latency.hopeless(left_ms) and not is_probe
                if left_ms <= 0 or in_vain or fits < enough:
                    self._drop(group)
                    continue
                size = min(size, fits)
            until_ms = first.asked_ms + self._delay_ms
            if first.alone or len(heap) >= lane.controller.limit or now_ms >= until_ms:
                return self._take(group, int(size))
            self.clock.call_at(until_ms, self._wake)
            return []
        return []

    def _take(self, group: Group, size: int) -> list[Query]:
        heap = self._heaps[group]
        batch = [heapq.heappop(heap)[2]]
        while len(batch) < size and heap and not heap[0][2].alone:
            batch.append(heapq.heappop(heap)[2])
        if not heap:
            del self._heaps[group]
        return batch

    def _drop(self, group: Group) -> None:
        (query,) = self._take(group, 1)
        query.answer(None, DeadlineMissed("predict: the query cannot be answered in time."))
