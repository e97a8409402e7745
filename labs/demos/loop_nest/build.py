"""Write loop nests at work as a page that plays without a kernel or a network.

python labs/demos/loop_nest/build.py         writes loop_nest.html beside this file
python labs/demos/loop_nest/build.py PATH    writes it there
"""

import sys
from dataclasses import replace
from pathlib import Path

from minitorch.compile import Schedule
from minitorch.show import Scene, page, walk_schedule

PAGE = Path(__file__).with_name("loop_nest.html")
# Blocks of a size that also processors with 16 vector registers hold: the page is the same everywhere.
TASK = ("matmul", 32, 64, 32)
SCHEDULES = {
    "Small blocks": {"rows": 4, "lanes": 8},
    "Register block": {"rows": 4, "vectors": 2, "lanes": 8},
    "Tiles": {"rows": 4, "vectors": 2, "lanes": 8, "tile_k": 16, "tile_n": 32, "order": "nkm"},
    "Packed": {
        "rows": 4, "vectors": 2, "lanes": 8, "unroll": 4, "tile_m": 16, "tile_k": 16,
        "tile_n": 32, "order": "nkm", "pack_a": True, "pack_b": True,
    },
}  # fmt: skip


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    return [
        replace(walk_schedule(Schedule(TASK, point), title=name), tab=name)
        for name, point in SCHEDULES.items()
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
