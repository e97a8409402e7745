"""Write the demo of continuous batches as a page that plays without a kernel or a network.

python labs/demos/continuous_batching/build.py         writes continuous_batching.html beside it
python labs/demos/continuous_batching/build.py PATH    writes it there
"""

import sys
from pathlib import Path

import numpy as np

from minitorch.serve import simulate_generation
from minitorch.show import Scene, page, see_generation

PAGE = Path(__file__).with_name("continuous_batching.html")
SLOTS = 4
COSTS = {"step_ms": 5.0, "per_slot_ms": 0.5, "prompt_ms_per_token": 0.2}


def load(mean_gap_ms: float = 8.0, n: int = 14) -> list[tuple[float, int, int]]:
    """Return requests that come at random, one short reply to each long one or so."""
    rng = np.random.default_rng(0)
    arrivals = np.cumsum(rng.exponential(mean_gap_ms, n)) - mean_gap_ms / 2
    news = np.where(rng.random(n) < 0.6, rng.integers(2, 6, n), rng.integers(12, 21, n))
    return [(max(0.0, float(at)), 12, int(new)) for at, new in zip(arrivals, news, strict=True)]


def scenes() -> list[Scene]:
    """Return static and continuous batches of one load, a tab each, on one axis."""
    requests = load()
    runs = {
        name: simulate_generation(requests, slots=SLOTS, batching=name, **COSTS)
        for name in ("static", "continuous")
    }
    until_ms = max(run.iterations[-1].ended_ms for run in runs.values())
    titles = {
        "static": "Static batches: all wait for the longest (simulated)",
        "continuous": "Continuous batches: a slot that is left is taken at once (simulated)",
    }
    return [
        see_generation(requests, run, until_ms=until_ms, title=titles[name], tab=name.title())
        for name, run in runs.items()
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
