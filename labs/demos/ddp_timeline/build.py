"""Write the DDP timeline as a page that computes without a kernel or a network.

python labs/demos/ddp_timeline/build.py            writes ddp_timeline.html beside this file
python labs/demos/ddp_timeline/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import DdpTimeline

PAGE = Path(__file__).with_name("ddp_timeline.html")


def main(arguments: list[str]) -> None:
    chart = DdpTimeline(layers=24, forward_ms=9, backward_ms=18, mib=100, ranks=8)
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
