"""What grading costs: a table of measured against goal, and their ratio.

The core time of a submission is wall time times judges: an upper bound that misses no process,
as counts of children's CPU do, which forget sandboxes that were killed.
"""

import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autograder.farm import Farm
from autograder.notebook import solution_notebook
from autograder.paths import Item
from autograder.records import Lab
from autograder.source import load_lab

SAMPLE = Path(__file__).parent.parent / "tests/autograder/sample_labs/scale_and_sum"
SUBMISSIONS = 300
JOBS = 2


def main() -> None:
    lab = load_lab(SAMPLE)
    print(f"{'':<44}{'measured':>10}{'goal':>8}{'ratio':>8}")
    for name, measured, goal in rows(lab):
        print(f"{name:<44}{measured:>10.3f}{goal:>8.3f}{measured / goal:>8.2f}")


def rows(lab: Lab) -> Iterator[tuple[str, float, float]]:
    command = [sys.executable, "-m", "autograder", "--help"]
    yield "--help, s", best(lambda: run(command)), 0.15
    with contextlib.redirect_stdout(io.StringIO()):
        check = notebook_check(lab)
        check()
        took = best(check)
    yield "check of one question in the notebook, s", took, 0.05
    wall_s = farm(lab)
    yield f"{SUBMISSIONS} submissions, {JOBS} judges, s", wall_s, 30.0
    yield "core time of one of them, at most, s", JOBS * wall_s / SUBMISSIONS, 0.15


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def best(action: Callable[[], object], times: int = 7) -> float:
    """Return the least of several wall times: the others had company."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append(time.perf_counter() - began)
    return min(found)


def notebook_check(lab: Lab) -> Callable[[], object]:
    from autograder.checks import load_checks, run_check
    from autograder.local import LocalStudent

    namespace: dict[str, object] = {}
    for question in lab.questions:
        if not question.manual:
            exec("import numpy as np\n" + question.solution, namespace)
    checks = load_checks(lab.directory / "checks.py").of("scale")
    return lambda: [run_check(check, LocalStudent(namespace), seed=1) for check in checks]


def farm(lab: Lab) -> float:
    """Return the wall time of grading many submissions, the start of the judges included."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lab.ipynb"
        path.write_text(solution_notebook(lab))
        items = [Item(path, f"s{number}") for number in range(SUBMISSIONS)]
        began = time.perf_counter()
        found = list(Farm(lab, Path(directory), jobs=JOBS).grade(items))
        took = time.perf_counter() - began
        if any(one.report["score"] != one.report["max_score"] for one in found):
            raise SystemExit("a solution lost points: the measurement means nothing")
        return took


if __name__ == "__main__":
    main()
