"""The memory of a session: what its operators find there, from one run to the next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import CPU, Array, Device
from .waits import all_stuck

if TYPE_CHECKING:
    from .node import Node


class State:
    """The memory of a session, as its operators see it.

    Attributes:
        values: the array of every initialised variable.
        generators: the random generator of every random node.
        resources: what else lives between runs: the elements of queues, the places of iterators.
        limit_s: how long a run may wait for a queue; None for as long as it takes.
        lock: held by whoever makes a resource or counts a variable up, and never while waiting.
        abandoned: whether the session is closed.
    """

    def __init__(self, place: Device = CPU) -> None:
        self.device = place
        self.values: dict[Node, Array] = {}
        self.generators: dict[Any, np.random.Generator] = {}
        self.resources: dict[Any, Any] = {}
        self.limit_s: float | None = None
        self.lock = threading.RLock()
        self.abandoned = False
        self._idle = set(threading.enumerate())
        self.take_part()

    def generator(self, key: Any, seed: Sequence[int] | None) -> np.random.Generator:
        """Return the generator of a random node, made at its first use from `seed`."""
        found = self.generators.get(key)
        if found is None:
            with self.lock:  # of two threads that come first both get the same
                found = self.generators.setdefault(key, np.random.default_rng(seed))
        return found

    def resource(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` made when this key was first asked for; `make` must not wait."""
        with self.lock:
            found = self.resources.get(key)
            if found is None:
                found = self.resources[key] = make()
                if self.abandoned:
                    found.abandon()
            return found

    def take_part(self) -> None:
        """Count this thread among those that use the session, though it may have come before it."""
        self._idle.discard(threading.current_thread())

    def alone(self) -> bool:
        """Tell whether no other thread could still fill or empty a queue: all that could wait.

        Threads that were there before the session, and have never used it, count as idle: a
        notebook's kernel and many a library have some.
        """
        return all_stuck(self._idle)

    def abandon(self) -> None:
        """Wake every thread that waits for something of this session; none waits from now on."""
        with self.lock:
            self.abandoned = True
            found = list(self.resources.values())
        for resource in found:  # each takes a lock of its own, under which others ask for this one
            resource.abandon()
