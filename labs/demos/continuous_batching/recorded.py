"""Serve the same requests in static and in continuous batches, at several loads, and record it.

python labs/demos/continuous_batching/recorded.py      writes recorded.json beside this file

The server is `minitorch.serve`, with a model in a process of its own that sleeps as long as a step
takes, and notes when each of its calls began and ended. When a token came is what its reader saw.
"""

import asyncio
import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.serve import Server

KEPT = Path(__file__).with_name("recorded.json")
BATCHINGS = ("static", "continuous")
LOADS = (4, 8, 16, 32)  # requests a second
SLOTS, PROMPT, REQUESTS = 4, 12, 10
STEP_S, SLOT_S, PROMPT_S = 0.025, 0.0025, 0.012  # a step, a slot in it, a prompt

Request = tuple[float, int, int]  # when it comes, in ms; tokens of its prompt; new tokens


def requests_of(per_s: float, n: int = REQUESTS) -> list[Request]:
    """Return requests that come at random, about three short replies to two long ones."""
    rng = np.random.default_rng(0)
    gaps_ms = rng.exponential(1e3 / per_s, n)
    news = np.where(rng.random(n) < 0.6, rng.integers(2, 5, n), rng.integers(10, 15, n))
    arrivals_ms = (np.cumsum(gaps_ms) - gaps_ms[0]).round(1)
    return [(at, PROMPT, new) for at, new in zip(arrivals_ms.tolist(), news.tolist(), strict=True)]


class Sleeper:
    """A model that sleeps, and writes a line a call: begin and end in s, requests, slots.

    The first token of a prompt is the number of its request.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._requests: dict[int, int] = {}

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        self._requests[slot] = tokens[0]
        self._sleep("start", [slot], PROMPT_S)
        return np.zeros(REQUESTS, np.float32)

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        self._sleep("step", slots, STEP_S + SLOT_S * len(slots))
        return np.zeros((len(slots), REQUESTS), np.float32)

    def free(self, slot: int) -> None:
        del self._requests[slot]

    def _sleep(self, call: str, slots: list[int], seconds: float) -> None:
        began_s = time.perf_counter()
        time.sleep(seconds)
        requests = [self._requests[slot] for slot in slots]
        row = [call, began_s, time.perf_counter(), requests, list(slots)]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


async def serve(requests: list[Request], batching: str, path: str) -> dict[str, list[float]]:
    """Return when readers saw their first and last tokens, in ms from their arrival."""
    first_token_ms, done_ms = ([0.0] * len(requests) for _ in range(2))

    async def read(server: Server, number: int, start_s: float) -> None:
        arrival_ms, prompt, new = requests[number]
        due_s = start_s + arrival_ms / 1e3
        await asyncio.sleep(due_s - time.perf_counter())
        async for _ in server.generate("app", [number] * prompt, max_tokens=new):
            done_ms[number] = 1e3 * (time.perf_counter() - due_s)
            first_token_ms[number] = first_token_ms[number] or done_ms[number]

    async with Server() as server:
        make = partial(Sleeper, path)
        await server.deploy_generator("model", make, slots=SLOTS, batching=batching)
        await server.link("app", ["model"])
        start_s = time.perf_counter() + 0.1
        await asyncio.gather(*(read(server, number, start_s) for number in range(len(requests))))
    return {"start_s": [start_s], "first_token_ms": first_token_ms, "done_ms": done_ms}


def run(requests: list[Request], batching: str) -> dict[str, Any]:
    """Return what happened: calls of the model, and what readers saw, in ms from the start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calls"
        seen = asyncio.run(serve(requests, batching, str(path)))
        calls = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (start_s,) = seen.pop("start_s")
    rows = [
        [call, *(round(1e3 * (at_s - start_s), 1) for at_s in (began_s, ended_s)), *who]
        for call, began_s, ended_s, *who in calls
    ]
    rounded = {name: [round(ms, 1) for ms in times] for name, times in seen.items()}
    return {"requests": requests, "calls": rows, **rounded}


def main() -> None:
    kept = {
        batching: {str(load): run(requests_of(load), batching) for load in LOADS}
        for batching in BATCHINGS
    }
    KEPT.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    for batching, runs in kept.items():
        for load, found in runs.items():
            print(f"{batching}, {load} requests a second: {len(found['calls'])} calls")


if __name__ == "__main__":
    main()
