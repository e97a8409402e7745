"""Write the demo as a page that plays without a kernel or a network.

python labs/demos/plan_on_mesh/build.py            writes plan_on_mesh.html beside this file
python labs/demos/plan_on_mesh/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import PlanOnMesh

PAGE = Path(__file__).with_name("plan_on_mesh.html")


def main(arguments: list[str]) -> None:
    print(PlanOnMesh().save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
