"""Write the demo as a page that computes without a kernel or a network.

python labs/demos/lineage/build.py            writes lineage.html beside this file
python labs/demos/lineage/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import Lineage

PAGE = Path(__file__).with_name("lineage.html")


def main(arguments: list[str]) -> None:
    print(Lineage().save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
