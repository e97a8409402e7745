"""Write the demo as a page that computes without a kernel or a network.

python labs/demos/roofline/build.py            writes roofline.html beside this file
python labs/demos/roofline/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import Roofline

PAGE = Path(__file__).with_name("roofline.html")


def main(arguments: list[str]) -> None:
    print(Roofline().save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
