"""Train one small model with four communication hooks and write the curves as a page.

python labs/demos/training_curves/build.py            writes training_curves.html beside this file
python labs/demos/training_curves/build.py PATH       writes it there
"""

import sys
from pathlib import Path

from ddp_lab.show import TrainingCurves

sys.path.insert(0, str(Path(__file__).parent))
from runs import HOOKS, losses

PAGE = Path(__file__).with_name("training_curves.html")
TITLE = "One model, two ranks, four ways to send gradients"


def main(arguments: list[str]) -> None:
    runs = {name: losses(name) for name in HOOKS}
    chart = TrainingCurves({name: run for name, (run, _) in runs.items()}, title=TITLE, log_y=True)
    for name, (_, sent) in runs.items():
        chart.note(name, sent)
    print(chart.save(Path(arguments[0]) if arguments else PAGE))


if __name__ == "__main__":
    main(sys.argv[1:])
