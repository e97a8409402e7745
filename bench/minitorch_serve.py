"""Prediction serving: batching against none, the tail under an open loop, overhead, a rival.

    python bench/minitorch_serve.py

The model is linear, 784 float32 to 10, in a container of its own; the goal is 20 ms. All sides take
turns in one run. Only answers of the model within the goal count; defaults do not.

With `SERVE_RIVAL=PYTHON`, the python of a throw-away environment that has bentoml, the same model
is also served by BentoML (adaptive batching, goal 20 ms), and both are loaded over HTTP.
"""

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from minitorch.serve import Server, load

GOAL_MS, ROUNDS, SECONDS, CLIENTS = 20.0, 3, 1.5, 256
RNG = np.random.default_rng(0)
W = RNG.normal(size=(784, 10)).astype(np.float32)
INPUTS = RNG.normal(size=(20_000, 784)).astype(np.float32)


def linear(batch: np.ndarray) -> np.ndarray:
    return (batch @ W).argmax(axis=1)


def nothing(batch: np.ndarray) -> np.ndarray:
    return np.zeros(len(batch))


class Always64:
    limit = 64

    def __init__(self, goal_ms: float) -> None:
        pass

    def observe(self, size: int, took_ms: float) -> None:
        pass


async def served(model: Any, **options: Any) -> Server:
    server = await Server(cache_mib=0, **options).__aenter__()
    await server.deploy("model", model)
    await server.link("app", ["model"], default=-1)
    return server


async def rate(server: Server, seconds: float = SECONDS) -> float:
    """Return the answers a second in time, with as many clients as keep it busy (closed loop)."""
    loop = asyncio.get_running_loop()
    end, in_time = loop.time() + seconds, 0

    async def client(at: int) -> None:
        nonlocal in_time
        while loop.time() < end:
            answer = await server.predict("app", INPUTS[at % len(INPUTS)])
            in_time += not answer.is_default
            at += CLIENTS
            await asyncio.sleep(0)

    await asyncio.gather(*map(client, range(CLIENTS)))
    return in_time / seconds


async def overhead_us(server: Server, batches: int = 50) -> tuple[float, float]:
    """Return processor and wall microseconds a query of a front that is asked 64 at a time."""
    cpu, wall = time.process_time(), time.perf_counter()
    for at in range(0, 64 * batches, 64):
        await asyncio.gather(*[server.ask("app", x) for x in INPUTS[at : at + 64]])
    count = 64 * batches
    return (time.process_time() - cpu) / count * 1e6, (time.perf_counter() - wall) / count * 1e6


async def main() -> None:
    sides = {name: await served(linear, slo_ms=GOAL_MS, batching=name)
             for name in ("none", "aimd", "quantile")}  # fmt: skip
    idle = await served(nothing, slo_ms=10_000.0, batching=Always64)
    rates: dict[str, list[float]] = {name: [] for name in sides}
    overheads = []
    for _ in range(ROUNDS):
        for name, server in sides.items():
            rates[name].append(await rate(server))
        overheads.append(await overhead_us(idle))
    print(f"closed loop, {CLIENTS} clients, answers in time a second (median of {ROUNDS}):")
    plain = median(rates["none"])
    for name, found in rates.items():
        ratios = [f / n for f, n in zip(found, rates["none"], strict=True)]
        print(f"  {name:9} {median(found):9,.0f}   {median(ratios):5.1f} x none")
    for share in (0.5, 2.0):
        print(f"open loop at {share * plain:,.0f} queries a second, {share} x what none can:")
        for name, server in sides.items():
            found = await load(server, "app", INPUTS, share * plain, SECONDS)
            late = (found.defaults + found.errors) / found.sent
            print(f"  {name:9} p50 {np.median(found.latency_ms):7.2f} ms   p99 {found.p99_ms:7.2f} ms   "
                  f"{late:6.1%} by default")  # fmt: skip
    cpu, wall = (median(times) for times in zip(*overheads, strict=True))
    print(f"front and transport, 64 a batch: {cpu:.1f} us of the front's processor a query, "
          f"{wall:.1f} us in all")  # fmt: skip
    for server in (*sides.values(), idle):
        await server.__aexit__()
    if rival := os.environ.get("SERVE_RIVAL"):
        await beside(rival)


# ---- BentoML, over HTTP as we are


OURS = """
import numpy as np
options = {"slo_ms": 20.0, "cache_mib": 0}
W = np.random.default_rng(0).normal(size=(784, 10)).astype(np.float32)
def linear(batch): return (batch @ W).argmax(axis=1)
async def setup(server):
    await server.deploy("model", linear)
    await server.link("app", ["model"], default=-1)
"""
THEIRS = """
import bentoml, numpy as np
W = np.random.default_rng(0).normal(size=(784, 10)).astype(np.float32)
@bentoml.service(workers=1)
class Linear:
    @bentoml.api(batchable=True, max_batch_size=512, max_latency_ms=20)
    def predict(self, x: np.ndarray) -> np.ndarray:
        return (np.asarray(x, np.float32) @ W).argmax(axis=1)
"""


@contextmanager
def process(command: list[str], cwd: str) -> Iterator[None]:
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          start_new_session=True) as running:  # fmt: skip
        try:
            yield
        finally:
            running.terminate()
            running.wait(30)


async def http_load(url: str, bodies: list[bytes], rate_a_s: float, seconds: float) -> Any:
    """Send bodies open loop and return the latencies in ms from when each was due, and errors."""
    import httpx

    due = np.cumsum(np.random.default_rng(0).exponential(1 / rate_a_s, int(rate_a_s * seconds)))
    latencies, errors = [], 0
    async with httpx.AsyncClient(timeout=10, limits=httpx.Limits(max_connections=64)) as client:
        for _ in range(200):
            try:
                if (await client.post(url, content=bodies[0])).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)
        start = time.perf_counter()

        async def one(at: int) -> None:
            nonlocal errors
            await asyncio.sleep(max(0.0, start + due[at] - time.perf_counter()))
            try:
                answer = await client.post(url, content=bodies[at % len(bodies)])
                errors += answer.status_code != 200
            except httpx.TransportError:
                errors += 1
            latencies.append((time.perf_counter() - start - due[at]) * 1e3)

        await asyncio.gather(*map(one, range(len(due))))
    return np.quantile(latencies, (0.5, 0.99)), errors, len(due) / (time.perf_counter() - start)


async def beside(python: str) -> None:
    import json
    import sys

    ours = [json.dumps({"x": x.tolist()}).encode() for x in INPUTS[:200]]
    theirs = [json.dumps({"x": [x.tolist()]}).encode() for x in INPUTS[:200]]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ours.py").write_text(OURS)
        Path(folder, "theirs.py").write_text(THEIRS)
        env_python = Path(python).parent
        sides = {
            "ours": ([sys.executable, "-m", "minitorch.serve", "ours.py", "--port", "8731"],
                     "http://127.0.0.1:8731/apps/app/predict", ours),
            "bentoml": ([str(env_python / "bentoml"), "serve", "theirs:Linear", "--port", "8732"],
                        "http://127.0.0.1:8732/predict", theirs),
        }  # fmt: skip
        for name, (command, url, bodies) in sides.items():
            with process(command, folder):
                (p50, p99), errors, done = await http_load(url, bodies, 100.0, 5.0)
            print(f"  HTTP, 100 a second: {name:8} p50 {p50:7.2f} ms  p99 {p99:7.2f} ms  "
                  f"{done:5.0f} a second, {errors} errors")  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main())
