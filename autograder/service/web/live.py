"""Pages that wait for a change: one question to the database a second, however many wait.

A page says which state it shows and gets an answer when there is another, or after a while. Beyond
`MOST` of them the answer comes at once, and the page asks again later (`course.js`).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from fastapi.concurrency import run_in_threadpool

MOST = 200  # of the server's 640 connections
HOLD_S = 25.0  # proxies hang up on what is silent for 30 or 60 s
_LOOK_S = 1.0

States = Callable[[Collection[int]], Mapping[int, str]]


class Live:
    """Whoever waits for a submission to change; `states` reads the states of some."""

    def __init__(self, states: States) -> None:
        self._states = states
        self._waiting: dict[asyncio.Future[str], tuple[int, str]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def wait_for_change(self, number: int, seen: str) -> str:
        """Return the state of a submission once it is not `seen` any more, or after a while."""
        state = (await run_in_threadpool(self._states, [number])).get(number, seen)
        if state != seen or len(self._waiting) >= MOST:
            return state
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = (number, seen)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            return await asyncio.wait_for(answer, HOLD_S)
        except TimeoutError:
            return seen
        finally:
            self._waiting.pop(answer, None)

    async def _look(self) -> None:
        """Ask for all that are waited for, until nobody waits."""
        while self._waiting:
            await asyncio.sleep(_LOOK_S)
            numbers = {number for number, _ in self._waiting.values()}
            states = await run_in_threadpool(self._states, numbers)
            for answer, (number, seen) in list(self._waiting.items()):
                if states.get(number, seen) != seen and not answer.done():
                    answer.set_result(states[number])
