"""Write the timeline of parameter servers as a page that computes without a kernel or a network.

python labs/demos/parameter_servers/build.py            writes the page beside this file
python labs/demos/parameter_servers/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import ServerTimeline

PAGE = Path(__file__).with_name("parameter_servers.html")


def main(arguments: list[str]) -> None:
    chart = ServerTimeline("Workers and a parameter server on a clock", seed=3)
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
