"""Write the scaling curves as a page that computes without a kernel or a network.

python labs/demos/scaling_curves/build.py            writes scaling_curves.html beside this file
python labs/demos/scaling_curves/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import ScalingCurves

PAGE = Path(__file__).with_name("scaling_curves.html")


def main(arguments: list[str]) -> None:
    chart = ScalingCurves(model="VGG-16, P100s")
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
