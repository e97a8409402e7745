"""Write the demo of batches and deadlines as a page that plays without a kernel or a network.

python labs/demos/adaptive_batching/build.py         writes adaptive_batching.html beside this file
python labs/demos/adaptive_batching/build.py PATH    writes it there
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

from minitorch.serve import simulate
from minitorch.show import Scene, page
from minitorch.show.serving_scene import see_serving

PAGE = Path(__file__).with_name("adaptive_batching.html")
GOAL_MS, COST = 20.0, (3.0, 0.2)


def recorded() -> Scene:
    """Return the run that was recorded, as a scene."""
    spec = importlib.util.spec_from_file_location("recorded", PAGE.with_name("recorded.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    asked_ms, found = module.kept()
    title = "A real container, two queries a ms, a goal of 20 ms"
    return see_serving(asked_ms, found, GOAL_MS, title=title, tab="Recorded")


def simulated(batching: str, title: str, tab: str) -> Scene:
    """Return the same load on a virtual clock."""
    arrivals = np.cumsum(np.random.default_rng(0).exponential(0.5, 60)).tolist()
    found = simulate([COST], arrivals, batching, GOAL_MS)
    return see_serving(arrivals, found, GOAL_MS, title=title, tab=tab)


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    return [
        recorded(),
        simulated("aimd", "The same load, simulated: batches grow by one", "AIMD"),
        simulated("none", "The same load, one query at a time: the queue only grows", "None"),
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
