"""Run every algorithm on the virtual clock and write the explorer as a page without a kernel.

python labs/demos/collectives_explorer/build.py            writes the page beside this file
python labs/demos/collectives_explorer/build.py PATH       writes it there
python labs/demos/collectives_explorer/build.py --record   times all-reduces over a link anew

What was timed, on four hosts, is kept in recorded.json, and drawn beside the lines.
"""

import json
import sys
from pathlib import Path

from ddp_lab.show import CollectivesExplorer, explore
from ddp_lab.show.collectives_explorer import record

RANKS = [2, 3, 4, 5, 6, 7, 8, 12, 16]
PAGE = Path(__file__).with_name("collectives_explorer.html")
KEPT = Path(__file__).with_name("recorded.json")


def main(arguments: list[str]) -> None:
    if arguments == ["--record"]:
        KEPT.write_text(json.dumps(record(ranks=4, rounds=40), indent=1) + "\n", encoding="utf-8")
        arguments = []
    recorded = json.loads(KEPT.read_text(encoding="utf-8"))
    chart = CollectivesExplorer(explore(RANKS), ranks=8, recorded=recorded)
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
