"""Run every algorithm on the virtual clock and write the explorer as a page without a kernel.

python labs/demos/collectives_explorer/build.py            writes the page beside this file
python labs/demos/collectives_explorer/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import CollectivesExplorer, explore

RANKS = [2, 3, 4, 5, 6, 7, 8, 12, 16]
PAGE = Path(__file__).with_name("collectives_explorer.html")


def main(arguments: list[str]) -> None:
    chart = CollectivesExplorer(explore(RANKS), ranks=8)
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
