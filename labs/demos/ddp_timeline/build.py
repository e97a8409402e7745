"""Write the DDP timeline as a page that computes without a kernel or a network.

python labs/demos/ddp_timeline/build.py            writes ddp_timeline.html beside this file
python labs/demos/ddp_timeline/build.py PATH       writes it there

The step drawn below the prediction is the one in recorded.json; `recorded.py` records another.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from recorded import KEPT, timeline  # it lies beside this file

PAGE = HERE / "ddp_timeline.html"


def main(arguments: list[str]) -> None:
    facts = json.loads(KEPT.read_text(encoding="utf-8"))
    chart = timeline(facts, "A step of data-parallel training, predicted and recorded")
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
