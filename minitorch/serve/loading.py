"""An honest load: queries are due at times drawn beforehand, and are sent whatever has come back.

A closed loop sends the next query when an answer is there, and so asks less of a server that is
slow: the very queries that would have waited are never sent ("coordinated omission").

May import: server.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.serve.server import Prediction, Server


@dataclass
class Load:
    """What a load has found.

    Attributes:
        latency_ms: of every query that was due, from then until it was answered or told.
        defaults, errors: how many were answered by the default, and by an error.
    """

    latency_ms: list[float] = field(default_factory=list)
    defaults: int = 0
    errors: int = 0

    @property
    def sent(self) -> int:
        """How many queries there were."""
        return len(self.latency_ms)

    @property
    def p50_ms(self) -> float:
        """The median latency."""
        return float(np.quantile(self.latency_ms, 0.5)) if self.latency_ms else 0.0

    @property
    def p99_ms(self) -> float:
        """The latency that one query in a hundred exceeds."""
        return float(np.quantile(self.latency_ms, 0.99)) if self.latency_ms else 0.0


async def load(
    server: Server, app: str, inputs: Sequence[Any], rate: float, seconds: float, seed: int = 0
) -> Load:
    """Send queries at random times, independent of the answers (open loop, Poisson).

    Args:
        inputs: taken in turns.
        rate: queries a second, on average.

    Raises:
        ArgumentError: no inputs, or a rate or a time that is not positive.
        UnknownApp, ShapeError, DTypeError: as `Server.predict`.
    """
    if not len(inputs) or not 0 < rate < np.inf or not 0 < seconds < np.inf:
        raise ArgumentError(
            f"load: got {len(inputs)} inputs, rate {rate}, {seconds} s: expected all positive."
        )
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate * seconds)
    due_s = np.sort(rng.uniform(0, seconds, count)).tolist()  # a Poisson process, given its count
    found = Load()
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    waiting = []

    def note(due_s: float, future: "asyncio.Future[Prediction]") -> None:
        found.latency_ms.append((loop.time() - due_s) * 1e3)
        if future.cancelled() or future.exception() is not None:
            found.errors += 1
        else:
            found.defaults += future.result().is_default

    for number, due in enumerate(due_s):
        while (wait_s := start_s + due - loop.time()) > 0:
            await asyncio.sleep(wait_s)
        future = server.ask(app, inputs[number % len(inputs)])
        future.add_done_callback(partial(note, start_s + due))
        waiting.append(future)
        if number % 64 == 63:  # when behind, the answers must come through all the same
            await asyncio.sleep(0)
    await asyncio.gather(*waiting, return_exceptions=True)
    return found
