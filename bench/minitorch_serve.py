"""Prediction serving: batching against none, the tail under an open loop, overhead, a rival.

    python bench/minitorch_serve.py

The model is linear, 784 float32 to 10, in a container of its own; the goal is 20 ms. All sides take
turns in one run. Only answers of the model within the goal count; defaults do not.

With `SERVE_RIVAL=PYTHON`, the python of a throw-away environment that has bentoml, the same model
is instead served over HTTP beside BentoML (adaptive batching, goal 20 ms), with the same load.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    if rival := os.environ.get("SERVE_RIVAL"):
        await beside(rival)
        return
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
            p50_ms = np.median(found.latency_ms)
            print(f"  {name:9} p50 {p50_ms:7.2f} ms   p99 {found.p99_ms:7.2f} ms   "
                  f"{late:6.1%} by default")  # fmt: skip
    cpu, wall = (median(times) for times in zip(*overheads, strict=True))
    print(f"front and transport, 64 a batch: {cpu:.1f} µs of the front's processor a query, "
          f"{wall:.1f} µs in all")  # fmt: skip
    for server in (*sides.values(), idle):
        await server.__aexit__()


# ---- BentoML, over HTTP as we are


OURS = """
import numpy as np
options = {"slo_ms": 20.0, "cache_mib": 0}
W = np.random.default_rng(0).normal(size=(784, 10)).astype(np.float32)
def linear(batch): return (batch @ W).argmax(axis=1)
async def setup(server):
    await server.deploy("model", linear)
    await server.link("app", ["model"])  # no default: what is late is an error
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
def process(command: list[str], folder: str) -> Iterator[None]:
    environment = {**os.environ, "BENTOML_HOME": folder, "BENTOML_DO_NOT_TRACK": "True"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, env=environment, **silent) as running:
        try:
            yield
        finally:
            running.terminate()
            running.wait(30)


class Client:
    """Connections that stay open, for the cost of a request should be the server's."""

    def __init__(self, port: int, path: str, bodies: list[bytes]) -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._port = port
        self._requests = [
            f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body for body in bodies
        ]
        self._free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def post(self, at: int) -> bool:
        """Tell whether the server has answered 200."""
        head = b""
        while not head:
            connection = self._free.pop() if self._free else await self._open()
            reader, writer = connection
            with suppress(asyncio.IncompleteReadError, ConnectionError):  # closed as it rested
                writer.write(self._requests[at % len(self._requests)])
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
        self._free.append(connection)
        return head.startswith(b"http/1.1 200")

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._port)

    async def ready(self) -> None:
        for _ in range(300):
            try:
                if await self.post(0):
                    return
            except (OSError, asyncio.IncompleteReadError):
                pass
            await asyncio.sleep(0.2)
        raise SystemExit(f"nothing answers at port {self._port}")

    async def open_loop(self, per_s: float, seconds: float) -> tuple[np.ndarray, float]:
        """Return latencies in ms from when each was due, and the share answered within the goal."""
        due = np.cumsum(np.random.default_rng(0).exponential(1 / per_s, int(per_s * seconds)))
        found: list[tuple[float, bool]] = []
        start = time.perf_counter() + 0.1

        async def one(at: int) -> None:
            await asyncio.sleep(max(0.0, start + due[at] - time.perf_counter()))
            answered = await self.post(at)
            took_ms = (time.perf_counter() - start - due[at]) * 1e3
            found.append((took_ms, answered and took_ms <= GOAL_MS))

        await asyncio.gather(*map(one, range(len(due))))
        took_ms, in_time = zip(*found, strict=True)
        return np.quantile(took_ms, (0.5, 0.99)), float(np.mean(in_time))

    async def closed_loop(self, clients: int, seconds: float) -> float:
        """Return the answers a second to so many clients that never rest."""
        end, answers = time.perf_counter() + seconds, 0

        async def one(at: int) -> None:
            nonlocal answers
            while time.perf_counter() < end:
                answers += await self.post(at)
                at += clients

        await asyncio.gather(*map(one, range(clients)))
        return answers / seconds


async def beside(python: str) -> None:
    ours = [json.dumps({"x": x.tolist()}).encode() for x in INPUTS[:400]]
    theirs = [json.dumps({"x": [x.tolist()]}).encode() for x in INPUTS[:400]]
    bentoml = str(Path(python).with_name("bentoml"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "ours.py").write_text(OURS)
        Path(folder, "theirs.py").write_text(THEIRS)
        with (
            process([sys.executable, "-m", "minitorch.serve", "ours.py", "--port", "8731"], folder),
            process([bentoml, "serve", "theirs:Linear", "--port", "8732"], folder),
        ):
            sides = {
                "ours": Client(8731, "/apps/app/predict", ours),
                "bentoml": Client(8732, "/predict", theirs),
            }
            for client in sides.values():
                await client.ready()
                await client.closed_loop(32, 1.0)  # until controllers have seen something
            for per_s in (50.0, 100.0, 200.0):
                for name, client in sides.items():
                    (p50, p99), in_time = await client.open_loop(per_s, 5.0)
                    print(f"  HTTP, open loop, {per_s:3.0f} a second: {name:8} p50 {p50:7.2f} ms  "
                          f"p99 {p99:7.2f} ms  {in_time:6.1%} within the goal")  # fmt: skip
            for name, client in sides.items():
                rates = [await client.closed_loop(32, 3.0) for _ in range(ROUNDS)]
                print(f"  HTTP, closed loop, 32 clients: {name:8} {median(rates):6.0f} a second")


if __name__ == "__main__":
    asyncio.run(main())
