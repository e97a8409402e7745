"""An honest load: queries are due at times drawn beforehand, and are sent whatever has come back.

A closed loop sends the next query when an answer is there, and so asks less of a server that is
slow: the very queries that would have waited are never sent ("coordinated omission").

May import: NumPy, errors, server.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.serve.server import Server


@dataclass
class Load:
    """What a load has found."""

    latency_ms: list[float]  # of every query that was due, from then until it was answered or told
    defaults: int  # how many were answered by the default
    errors: int  # and by an error

    @property
    def sent(self) -> int:
        """How many queries there were."""
        return len(self.latency_ms)

    @property
    def p99_ms(self) -> float:
        """The latency that one query in a hundred exceeds."""
        return float(np.quantile(self.latency_ms or 0.0, 0.99))


async def load(
    server: Server, app: str, inputs: Sequence[object], rate: float, seconds: float, seed: int = 0
) -> Load:
    """Send queries at random times, independent of the answers (open loop, Poisson).

    Args:
        inputs: taken in turns.
        rate: queries a second, on average.
    """
    if not len(inputs) or not 0 < rate < np.inf or not 0 < seconds < np.inf:
        raise ArgumentError(
            f"load: got {len(inputs)} inputs, rate {rate}, {seconds} s: expected all positive."
        )
    rng = np.random.default_rng(seed)
    count = rng.poisson(rate * seconds)
    loop = asyncio.get_running_loop()
    due_s = loop.time() + np.sort(rng.uniform(0, seconds, count))  # Poisson, given its count
    latency_ms: list[float] = []
    waiting = []

    def note(due_s: float, _: object) -> None:
        latency_ms.append(1e3 * (loop.time() - due_s))

    for number, due in enumerate(due_s.tolist()):
        while (wait_s := due - loop.time()) > 0:
            await asyncio.sleep(wait_s)
        future = server.ask(app, inputs[number % len(inputs)])
        future.add_done_callback(partial(note, due))
        waiting.append(future)
        if number % 64 == 63:  # when behind, the answers must come through all the same
            await asyncio.sleep(0)
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.sleep(0)  # what was answered before `gather` is noted in the loop's next turn
    errors = sum(isinstance(answer, BaseException) for answer in answers)
    defaults = sum(getattr(answer, "is_default", False) for answer in answers)
    return Load(latency_ms, defaults, errors)
