"""The memory of a session: what its operators find there, from one run to the next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import CPU, Array, Device

if TYPE_CHECKING:
    from .node import Node


class State:
    """The memory of a session, as its operators see it.

    Attributes:
        values: the array of every initialised variable.
        generators: the random generator of every random node.
        lock: held by whoever makes a generator or changes a variable.
    """

    def __init__(self, place: Device = CPU) -> None:
        self.device = place
        self.values: dict[Node, Array] = {}
        self.generators: dict[Any, np.random.Generator] = {}
        self.lock = threading.RLock()

    def generator(self, key: Any, seed: Sequence[int] | None) -> np.random.Generator:
        """Return the generator of a random node, made at its first use from `seed`."""
        found = self.generators.get(key)
        if found is None:
            with self.lock:  # of two threads that come first both get the same
                found = self.generators.setdefault(key, np.random.default_rng(seed))
        return found
