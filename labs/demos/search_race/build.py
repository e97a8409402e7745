"""Write the race of three searches as a page that plays without a kernel or a network.

python labs/demos/search_race/build.py         writes search_race.html beside this file
python labs/demos/search_race/build.py PATH    writes it there
"""

import json
import sys
from pathlib import Path

from minitorch.show import Scene, page, race_searches

PAGE = Path(__file__).with_name("search_race.html")
RECORDED = Path(__file__).with_name("recorded.json")


def scenes() -> list[Scene]:
    """Return what the page shows, a tab each."""
    races = json.loads(RECORDED.read_text(encoding="utf-8"))
    return [
        race_searches(curves, title=f"{task}: medians of 20 searches", tab=task)
        for task, curves in races.items()
    ]


def main(arguments: list[str]) -> None:
    path = Path(arguments[0]) if arguments else PAGE
    path.write_text(page(scenes()), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
