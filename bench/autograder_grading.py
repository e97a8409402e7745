"""What grading costs: a table of measured against goal, and their ratio.

    python bench/autograder_grading.py [--nbgrader PYTHON]

The core time of a submission is wall time times judges: an upper bound that misses no process,
as counts of children's CPU do, which forget sandboxes that were killed.

With the Python of an environment where nbgrader 0.9.6, ipykernel and numpy are installed, nbgrader
grades the same answers, tested by as many asserts, and its CPU time of one more submission is the
measure: ours may take a tenth of it. Such an environment is best a throwaway one:

    python -m venv DIR && DIR/bin/pip install nbgrader==0.9.6 ipykernel numpy
"""

import argparse
import contextlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.grading.judges import Judges
from autograder.grading.paths import Item
from autograder.records import Lab

SAMPLE = Path(__file__).parent.parent / "tests/autograder/sample_labs/scale_and_sum"
SUBMISSIONS = 300
JOBS = 2
OF_NBGRADER = 0.1  # what a submission may cost of what it costs there
NBGRADER_S = 1.5  # where it is not measured
NBGRADER_SUBMISSIONS = 6

TESTS = {
    "scale": [
        "x = np.random.normal(size=(3, 4))",
        "assert np.allclose(scale(x, 2.5), 2.5 * x)",
        "assert np.allclose(scale(x, -1.5), -1.5 * x)",
    ],
    "predicted_size": ["assert predicted_size == 3"],
    "sum_rows": [
        "x = np.random.normal(size=(4, 3))",
        "assert np.allclose(sum_rows(x), x.sum(axis=0))",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nbgrader", metavar="PYTHON", help="measure it too, in its environment")
    arguments = parser.parse_args()
    lab = load_lab(SAMPLE)
    theirs = nbgrader_cpu_s(lab, arguments.nbgrader) if arguments.nbgrader else NBGRADER_S
    print(f"{'':<44}{'measured':>10}{'goal':>8}{'ratio':>8}")
    for name, measured, goal in rows(lab, OF_NBGRADER * theirs):
        print(f"{name:<44}{measured:>10.3f}{goal:>8.3f}{measured / goal:>8.2f}", flush=True)
    if arguments.nbgrader:
        print(f"{'CPU time of one of them in nbgrader, s':<44}{theirs:>10.3f}")


def rows(lab: Lab, goal_s: float) -> Iterator[tuple[str, float, float]]:
    command = [sys.executable, "-m", "autograder", "--help"]
    yield "--help, s", best(lambda: run(command)), 0.15
    with contextlib.redirect_stdout(io.StringIO()):
        check = notebook_check(lab)
        check()
        took = best(check)
    yield "check of one question in the notebook, s", took, 0.05
    wall_s = judged(lab)
    yield f"{SUBMISSIONS} submissions, {JOBS} judges, s", wall_s, 30.0
    yield "core time of one of them, at most, s", JOBS * wall_s / SUBMISSIONS, goal_s


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
    from autograder.student.local import LocalStudent

    namespace: dict[str, object] = {}
    for question in lab.questions:
        if not question.manual:
            exec("import numpy as np\n" + question.solution, namespace)
    checks = load_checks(lab.directory / "checks.py").of("scale")
    return lambda: [run_check(check, LocalStudent(namespace), seed=1) for check in checks]


def judged(lab: Lab) -> float:
    """Return the wall time of grading many submissions, the start of the judges included."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "lab.ipynb"
        path.write_text(solution_notebook(lab))
        items = [Item(path, f"s{number}") for number in range(SUBMISSIONS)]
        began = time.perf_counter()
        found = list(Judges(lab, Path(directory), jobs=JOBS).grade(items))
        took = time.perf_counter() - began
        if any(one.report["score"] != one.report["max_score"] for one in found):
            raise SystemExit("a solution lost points: the measurement means nothing")
        return took


def nbgrader_cpu_s(lab: Lab, python: str) -> float:
    """Return the CPU time that nbgrader needs for one more submission of the lab's solution."""
    with tempfile.TemporaryDirectory() as directory:
        course = Path(directory)
        path = os.pathsep.join([str(Path(python).absolute().parent), os.environ["PATH"]])
        environment = {**os.environ, "HOME": directory, "OMP_NUM_THREADS": "1", "PATH": path}
        for name in ("JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "PYTHONPATH"):
            environment.pop(name, None)

        def nbgrader(*words: str) -> float:
            before = cpu_s()
            command = [python, "-m", "nbgrader", *words, "--course-dir", directory]
            done = subprocess.run(
                command, cwd=course, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"nbgrader {words[0]} failed:\n{done.stderr[-2000:]}")
            return cpu_s() - before

        write_notebook(course / "source/small/lab.ipynb", lab, released=False)
        nbgrader("generate_assignment", "small", "--create")
        took = {}
        for count in (1, NBGRADER_SUBMISSIONS):
            for number in range(count):
                path = course / f"submitted/{count}_{number}/small/lab.ipynb"
                write_notebook(path, lab, released=True)
            took[count] = nbgrader("autograde", "small", "--student", f"{count}_*")
        return (took[NBGRADER_SUBMISSIONS] - took[1]) / (NBGRADER_SUBMISSIONS - 1)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def write_notebook(path: Path, lab: Lab, *, released: bool) -> None:
    """Write nbgrader's source of the lab, or what a learner who solved it hands in."""
    cells = [cell("import numpy as np")]
    for question in lab.questions:
        if not question.manual:
            lines = [question.solution, "### BEGIN SOLUTION", "pass", "### END SOLUTION"]
            answer = lines[:1] if released else lines
            cells.append(cell("\n".join(answer), grade_id=question.name, solution=True))
            tests = "\n".join(TESTS[question.name])
            cells.append(cell(tests, grade_id=f"t_{question.name}", grade=True, points=1))
    content = {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 4}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def cell(text: str, **about: object) -> dict[str, object]:
    defaults = {"grade": False, "solution": False, "locked": False, "schema_version": 3}
    metadata = {"nbgrader": {**defaults, "task": False, **about}} if about else {}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": metadata,
        "outputs": [],
        "source": text,
    }


if __name__ == "__main__":
    main()
