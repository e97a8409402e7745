"""Record the race: three searches on recorded tables, the median of their curves over 20 seeds.

python labs/demos/search_race/recorded.py      writes recorded.json beside this file
"""

import json
from pathlib import Path

import numpy as np

from minitorch.compile import recorded, tune

TASKS = (("matmul", 512, 512, 512), ("matmul", 256, 256, 256))
SEARCHES = ("random", "genetic", "learned")
TRIALS, SEEDS = 96, 20


def curve(task: tuple[str, int, int, int], search: str) -> list[float]:
    """Return the median, over seeds, of the best after each trial over the best of all."""
    table = recorded(task)
    runs = [
        tune(task, TRIALS, search, table, seed, start_from=(), space=table.space).curve()
        for seed in range(SEEDS)
    ]
    return [round(float(x), 4) for x in np.median(runs, axis=0) / table.seconds.min()]


def main() -> None:
    races = {" ".join(map(str, t)): {s: curve(t, s) for s in SEARCHES} for t in TASKS}
    Path(__file__).with_name("recorded.json").write_text(json.dumps(races) + "\n")


if __name__ == "__main__":
    main()
