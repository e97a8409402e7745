"""A real run of the prediction server, for the page: one container, an open load, a 20 ms goal.

    python labs/demos/adaptive_batching/recorded.py     records a run anew into recorded.json

The machine should have nothing else to do meanwhile. The model sleeps for what a batch costs, and answers when it began and ended, by the clock that all
processes of a machine share.
"""

import asyncio
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.serve import Batch, Server, Simulation

KEPT = Path(__file__).with_name("recorded.json")
GOAL_MS, RATE, QUERIES = 20.0, 2.0, 60  # a ms, in all
FIXED_MS, PER_ITEM_MS = 3.0, 0.2


def model(batch: np.ndarray) -> list[list[float]]:
    """Return when this batch began and ended, for each query in it."""
    began = time.monotonic()
    time.sleep((FIXED_MS + PER_ITEM_MS * len(batch)) / 1e3)
    return [[began * 1e3, time.monotonic() * 1e3]] * len(batch)


async def run() -> tuple[list[float], Simulation]:
    """Return when queries were asked, and what happened, in ms from the first."""
    loop = asyncio.get_running_loop()
    gaps_s = np.random.default_rng(0).exponential(1 / RATE / 1e3, QUERIES)
    async with Server(slo_ms=GOAL_MS, cache_mib=0) as server:
        await server.deploy("model", model)
        await server.link("app", ["model"], default=[])
        for x in range(200):  # until the controller has seen something
            await asyncio.gather(*[server.predict("app", [x, i]) for i in range(x % 12)])
        asked_ms, answers = [], []
        due_s = loop.time()
        for number, gap_s in enumerate(gaps_s):
            due_s += gap_s
            while loop.time() < due_s:
                await asyncio.sleep(0)
            asked_ms.append(loop.time() * 1e3)
            answers.append(server.ask("app", [number, -1]))
        found = await asyncio.gather(*answers)
    return asked_ms, story(asked_ms, [answer.value for answer in found],
                           [answer.latency_ms for answer in found])  # fmt: skip


def story(asked_ms: list[float], values: list[Any], latency_ms: list[float]) -> Simulation:
    """Return a run as `simulate` would say it; a query without an answer was dropped."""
    batches: dict[tuple[float, float], list[int]] = {}
    for number, value in enumerate(values):
        if value:
            batches.setdefault(tuple(value), []).append(number)
    runs = [Batch(0, began, ended, tuple(queries)) for (began, ended), queries in batches.items()]
    latencies = [t if value else float("inf") for t, value in zip(latency_ms, values, strict=True)]
    return Simulation(latencies, sorted(runs, key=lambda run: run.began_ms))


def moved(asked_ms: list[float], found: Simulation) -> dict[str, Any]:
    """Return a run as plain data, from the first query on, in hundredths of a ms."""
    start = asked_ms[0]
    runs = [
        {**asdict(run), "began_ms": round(run.began_ms - start, 2),
         "ended_ms": round(run.ended_ms - start, 2)} for run in found.runs
    ]  # fmt: skip
    latencies = [round(t, 2) if t < 1e9 else None for t in found.latency_ms]
    return {"asked_ms": [round(t - start, 2) for t in asked_ms], "runs": runs,
            "latency_ms": latencies}  # fmt: skip


def kept() -> tuple[list[float], Simulation]:
    """Return the run that lies beside this file."""
    found = json.loads(KEPT.read_text(encoding="utf-8"))
    runs = [Batch(**{**run, "queries": tuple(run["queries"])}) for run in found["runs"]]
    latencies = [float("inf") if t is None else t for t in found["latency_ms"]]
    return found["asked_ms"], Simulation(latencies, runs)


if __name__ == "__main__":
    KEPT.write_text(json.dumps(moved(*asyncio.run(run())), indent=1), encoding="utf-8")
    print(KEPT)
