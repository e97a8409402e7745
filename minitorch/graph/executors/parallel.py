"""The parallel executor: several threads take operators that are ready, the most urgent first.

Urgent is what has the longest way to go to the end of the run: the sum of the times along its
critical path, counted in operators at first and in measured seconds after the first runs. Each
operator computes what it would compute alone, from the same inputs, so the result has the same
bits; effects keep the order of the sequential run. NumPy releases the interpreter's lock while it
works on large arrays, which is where threads gain. What only hands a value on is done at once, by
whoever made it ready; a thread takes its next operator with the same lock under which it delivers
the last one, and another thread is only started, or woken, when there is something left for it.

Source: list scheduling by critical path, Graham, SIAM J. Appl. Math. 17(2), 1969.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from collections.abc import Sequence

import numpy as np

from ...arrays.library import CPU, Array, Device
from ...errors import GraphError
from ..control.cond import Merge, MergeIndex, Switch
from ..core.gradients import Identity
from ..core.node import Node
from ..core.variables import NoOp, Read, State
from .tokens.loop_nodes import NextIteration, Passing
from .tokens.program import OnEvent, Program
from .tokens.sequential import TokenStep
from .tokens.tagged import Firing, Tokens

HANDING_ON = (Identity, Merge, MergeIndex, NoOp, Passing, Read, Switch)
MEASURED_RUNS = 2
"""Runs after which urgency is counted anew: the first one alone would measure cold caches."""


class ParallelStep(TokenStep):
    """The run of `fetches` from `feeds` by `threads` threads, as many as there are cores."""

    def __init__(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        device: Device = CPU,
        *,
        threads: int | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.threads = os.cpu_count() or 1 if threads is None else threads
        if not isinstance(self.threads, int) or self.threads < 1:
            raise GraphError(f"Session: got threads={threads!r}, expected a number from 1 on.")
        super().__init__(fetches, feeds, device, on_event=on_event)
        self.ranks = critical_path(self.program, [1.0] * len(self.program.spots))
        nodes = (spot.node for spot in self.program.spots)
        # a source, or an operator that passes its input on, computes nothing
        self.at_once = [n.op is None or isinstance(n.op, HANDING_ON) for n in nodes]
        self.runs = 0

    def run(self, state: State, arrays: Sequence[Array]) -> dict[int, object]:
        """Return the values of what is outside all loops and fetched, by spot."""
        run = ParallelRun(self, state, arrays)
        try:
            run.work()
        finally:
            run.end()
        if run.error is not None:
            raise run.error
        if self.runs < MEASURED_RUNS:
            self.runs += 1
            self.ranks = critical_path(self.program, run.seconds)
        return run.found


class ParallelRun:
    """One run: what its threads share, under one lock."""

    def __init__(self, step: ParallelStep, state: State, arrays: Sequence[Array]) -> None:
        self.step, self.state, self.arrays = step, state, arrays
        self.found: dict[int, object] = {}
        self.seconds = [0.0] * len(step.program.spots)
        self.error: BaseException | None = None
        self._changed = threading.Condition(threading.Lock())
        self._ready: list[tuple[float, int, Firing]] = []
        self._small: list[Firing] = []
        self._workers: list[threading.Thread] = []
        self._count = self._running = self._waiting = self._done = 0
        self._stopped = False
        self._tokens = Tokens(step.program, self._put, step.keeper(self.found))
        self._tokens.start()

    def _put(self, firing: Firing) -> None:
        if firing.dead or self.step.at_once[firing.spot]:
            self._small.append(firing)
            return
        self._count += 1
        heapq.heappush(self._ready, (-self.step.ranks[firing.spot], self._count, firing))

    def work(self) -> None:
        """Take and run operators until none is left or one has failed."""
        with np.errstate(all="ignore"):  # which is for each thread its own
            try:
                firing = self._take()
                while firing is not None:
                    start = time.perf_counter()
                    value = self.step.value(firing, self.state, self.arrays)
                    seconds = time.perf_counter() - start
                    firing = self._take((firing, value, seconds))
            except BaseException as error:
                self._stop(error)

    def _take(self, done: tuple[Firing, object, float] | None = None) -> Firing | None:
        """Deliver what has been computed, and return what to compute next; None at the end."""
        with self._changed:
            if done is not None:
                firing, value, seconds = done
                self._running -= 1
                self.seconds[firing.spot] += seconds
                self._deliver(firing, value)
            self._hand_on()
            while not (self._ready or not self._running or self._stopped):
                self._waiting += 1
                self._changed.wait()
                self._waiting -= 1
            if self._stopped or not self._ready:
                self._changed.notify_all()
                return None
            self._running += 1
            taken = heapq.heappop(self._ready)[2]
            if self._ready:
                self._call_another()
            return taken

    def _hand_on(self) -> None:
        """Run what takes no time, and what that makes ready, as long as there is any."""
        while self._small:
            firing = self._small.pop()
            self._deliver(firing, self.step.value(firing, self.state, self.arrays))

    def _deliver(self, firing: Firing, value: object) -> None:
        frame, iteration = self._tokens.finish(firing, value)
        if self.step.on_event is not None:
            where = frame.label, iteration
            self.step.on_event(self.step.event(self._done, firing, where, value))
        self._done += 1

    def _call_another(self) -> None:
        """Wake or start a thread for what is left."""
        if self._waiting:
            self._changed.notify()
        elif len(self._workers) < self.step.threads - 1:
            name = f"graph-{len(self._workers) + 1}"
            worker = threading.Thread(target=self.work, name=name, daemon=True)
            self._workers.append(worker)
            worker.start()

    def end(self) -> None:
        """Wait for every thread, and let go of the tokens."""
        self._stop()
        for worker in self._workers:  # none is started once all is stopped
            worker.join()
        self._tokens.close()
        self._ready.clear()

    def _stop(self, error: BaseException | None = None) -> None:
        """Let every thread end after the operator it is at; keep the first error."""
        with self._changed:
            self._stopped = True
            self.error = self.error or error
            self._changed.notify_all()


def critical_path(program: Program, costs: Sequence[float]) -> list[float]:
    """Return for each spot the largest sum of costs on a way from it to an end.

    Ways end at NextIteration, so a loop counts as one iteration.
    """
    forward = [
        [] if isinstance(spot.node.op, NextIteration) else [user for user, _ in spot.users]
        for spot in program.spots
    ]
    missing = [len(users) for users in forward]
    sources: list[list[int]] = [[] for _ in forward]
    for i, users in enumerate(forward):
        for user in users:
            sources[user].append(i)
    ranks = list(costs)
    ready = [i for i, count in enumerate(missing) if not count]
    while ready:
        i = ready.pop()
        for source in sources[i]:
            ranks[source] = max(ranks[source], costs[source] + ranks[i])
            missing[source] -= 1
            if not missing[source]:
                ready.append(source)
    return ranks
