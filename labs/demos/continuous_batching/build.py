"""Write the demo of continuous batches as a page that plays without a kernel or a network.

python labs/demos/continuous_batching/build.py         writes continuous_batching.html beside it
python labs/demos/continuous_batching/build.py PATH    writes it there
"""

import json
import sys
from pathlib import Path
from typing import Any

from minitorch.serve.generation import GenerationSimulation, Iteration
from minitorch.show import Scene, page, see_generation
from minitorch.show.autodiff_scene import draggable

PAGE = Path(__file__).with_name("continuous_batching.html")
RECORDED = PAGE.with_name("recorded.json")  # written by recorded.py
TITLES = {
    "static": "Static batches: all wait for the longest (recorded)",
    "continuous": "Continuous batches: a slot that is left is taken at once (recorded)",
}


def run_of(record: dict[str, Any]) -> GenerationSimulation:
    """Return a record in the form in which simulations are."""
    iterations = [
        Iteration(
            began_ms, ended_ms, tuple(requests if call == "start" else ()),
            tuple(requests if call == "step" else ()), tuple(slots),
        )
        for call, began_ms, ended_ms, requests, slots in record["calls"]
    ]  # fmt: skip
    tokens = sum(new for _, _, new in record["requests"])
    per_s = 1e3 * tokens / iterations[-1].ended_ms
    return GenerationSimulation(record["first_token_ms"], record["done_ms"], per_s, [], iterations)


def scenes() -> list[Scene]:
    """Return static and continuous batches, a tab each, in which the load can be dragged."""
    records = json.loads(RECORDED.read_text(encoding="utf-8"))
    loads = [float(load) for load in records["static"]]

    def at(batching: str, load: float) -> Scene:
        both = {name: runs[f"{load:g}"] for name, runs in records.items()}
        record = both[batching]
        until_ms = max(other["calls"][-1][2] for other in both.values())
        return see_generation(
            record["requests"], run_of(record), until_ms=until_ms, load=load,
            title=TITLES[batching], tab=batching.title(),
        )  # fmt: skip

    return [draggable(lambda load, b=name: at(b, load), "load", loads) for name in TITLES]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
