"""Generation: continuous batches against static ones, and what front and transport cost a token.

    python bench/minitorch_generate.py

More requests wait than are served; lengths of replies lie between 10 and 200. The model sleeps for
a step (5 ms, and 0.05 ms a slot) and for a prompt (0.01 ms a token), so that both sides have the
same accelerator whatever else runs here. The overhead is taken of a model that does nothing.

What continuous batches gain is at most the longest reply of a batch over the mean one, so it
depends on how lengths are spread: each spread has a row, with what the simulator says.
"""

import asyncio
import time
from statistics import median
from typing import Any

import numpy as np

from minitorch.serve import Server, simulate_generation

SLOTS, PROMPT, REQUESTS, ROUNDS = 16, 20, 800, 3
FROM_S, TO_S = 1.0, 8.0  # when tokens are counted
COSTS = {"step_ms": 5.0, "per_slot_ms": 0.05, "prompt_ms_per_token": 0.01}
RNG = np.random.default_rng(0)
SHORT, LONG = RNG.integers(10, 31, REQUESTS), RNG.integers(150, 201, REQUESTS)
SPREADS = {
    "uniform": RNG.integers(10, 201, REQUESTS),
    "log-uniform": np.exp(RNG.uniform(np.log(10), np.log(200), REQUESTS)).astype(int),
    "4 short to 1 long": np.where(RNG.random(REQUESTS) < 0.8, SHORT, LONG),
}


class Sleeping:
    """Takes as long as the costs say."""

    scale = 1e-3

    def start(self, slot: int, tokens: list[int]) -> np.ndarray:
        time.sleep(self.scale * COSTS["prompt_ms_per_token"] * len(tokens))
        return np.zeros(64, np.float32)

    def step(self, slots: list[int], tokens: list[int]) -> np.ndarray:
        time.sleep(self.scale * (COSTS["step_ms"] + COSTS["per_slot_ms"] * len(slots)))
        return np.zeros((len(slots), 64), np.float32)

    def free(self, slot: int) -> None:
        pass


class Nothing(Sleeping):
    """Takes no time."""

    scale = 0.0


async def served(make: Any, batching: str = "continuous") -> Server:
    server = await Server().__aenter__()
    await server.deploy_generator("model", make, slots=SLOTS, batching=batching)
    await server.link("app", ["model"])
    return server


async def read(server: Server, new: int, gaps_ms: list[float]) -> None:
    last_s = None
    async for _ in server.generate("app", range(PROMPT), max_tokens=new):
        now_s = time.perf_counter()
        if last_s is not None:
            gaps_ms.append(1e3 * (now_s - last_s))
        last_s = now_s


async def rate(server: Server, news: list[int]) -> tuple[float, float]:
    """Return tokens a second, and p99 of the ms between tokens as readers see them."""
    gaps_ms: list[float] = []
    readers = [asyncio.create_task(read(server, new, gaps_ms)) for new in news]
    await asyncio.sleep(FROM_S)
    gaps_ms.clear()
    before, began_s = server.metrics()["models"]["model"]["tokens"], time.perf_counter()
    await asyncio.sleep(TO_S - FROM_S)
    count, took_s = server.metrics()["models"]["model"]["tokens"], time.perf_counter() - began_s
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    return (count - before) / took_s, float(np.quantile(gaps_ms, 0.99))


def simulated_rate(news: list[int], batching: str) -> float:
    """Return tokens a second in the same window of a simulation."""
    load = [(0.0, PROMPT, new) for new in news]
    found = simulate_generation(load, slots=SLOTS, batching=batching, **COSTS)  # type: ignore[arg-type]
    tokens = sum(len(i.starts or i.steps) for i in found.iterations
                 if FROM_S <= i.ended_ms / 1e3 <= TO_S)  # fmt: skip
    return tokens / (TO_S - FROM_S)


async def overhead_us(server: Server) -> tuple[float, float]:
    """Return processor and wall microseconds a token of the front, with all slots in use."""
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(read(server, 400, []) for _ in range(SLOTS)))
    count = 400 * SLOTS
    return (time.process_time() - cpu) / count * 1e6, (time.perf_counter() - wall) / count * 1e6


async def main() -> None:
    idle = await served(Nothing)
    costs = [await overhead_us(idle) for _ in range(ROUNDS)]
    await idle.__aexit__()
    cpu, wall = (median(times) for times in zip(*costs, strict=True))
    print(f"{SLOTS} slots, a model that takes no time: {cpu:.1f} us of the front's processor "
          f"a token, {wall:.1f} us in all")  # fmt: skip
    sides = {name: await served(Sleeping, name) for name in ("continuous", "static")}
    for spread, lengths in SPREADS.items():
        news = [int(new) for new in lengths]
        found = {name: await rate(server, news) for name, server in sides.items()}
        print(f"{spread}, mean {np.mean(news):.0f}:")
        for name, (per_s, p99_ms) in found.items():
            print(f"  {name:10} {per_s:6.0f} tokens a second, p99 between tokens {p99_ms:5.2f} ms"
                  f"   (simulated {simulated_rate(news, name):6.0f})")  # fmt: skip
        print(f"  ratio {found['continuous'][0] / found['static'][0]:.2f}")
    for server in sides.values():
        await server.__aexit__()


if __name__ == "__main__":
    asyncio.run(main())
