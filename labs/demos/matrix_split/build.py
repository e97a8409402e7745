"""Write the demo as a page that computes without a kernel or a network.

python labs/demos/matrix_split/build.py            writes matrix_split.html beside this file
python labs/demos/matrix_split/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import MatrixSplit

PAGE = Path(__file__).with_name("matrix_split.html")


def main(arguments: list[str]) -> None:
    print(MatrixSplit(way="column_row", ranks=2).save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
