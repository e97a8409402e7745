"""Write the demo as a page that computes without a kernel or a network.

python labs/demos/distribution_options/build.py         writes distribution_options.html here
python labs/demos/distribution_options/build.py PATH    writes it there
"""

import json
import sys
from pathlib import Path

from ddp_lab.show import DistributionOptions

PAGE = Path(__file__).with_name("distribution_options.html")
RECORDED = PAGE.with_name("recorded.json")  # written by recorded.py


def main(arguments: list[str]) -> None:
    chart = DistributionOptions(json.loads(RECORDED.read_text(encoding="utf-8")))
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
