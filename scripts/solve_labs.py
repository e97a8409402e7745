#!/usr/bin/env python
"""Solve all labs in order, as a learner would who knows every answer: `scripts/solve_labs.py`.

Each lab is handed out, the answer regions alone are copied into its notebook, the notebook runs
from top to bottom in one kernel (`pytest --nbval-lax`), and is graded in the sandbox. All labs
share one working folder, so that later ones find the pieces of earlier ones. Prints a line a lab;
exits 1 unless each has full marks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder.authoring.regions import parts_of, solution_text
from autograder.authoring.source import find_labs, load_lab
from autograder.grading.grade import LabGrader
from autograder.grading.report import to_text
from autograder.learner.progress import NOTEBOOK, LabProgress, lab_progress
from autograder.records import Lab, Report
from autograder.service.running.handout import hand_out

LABS = Path(__file__).parents[1] / "labs"
CELL_S = 240  # for one cell: none takes a quarter of it on two cores


def solve(lab: Lab, work: Path) -> Path:
    """Hand `lab` out into `work`, copy its answer regions in, and return the notebook's path."""
    problems = hand_out([lab.directory], work)
    if problems:
        raise SystemExit("\n".join(problems))
    path = work / lab.name / NOTEBOOK
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell, written in zip(lab.cells, notebook["cells"], strict=True):
        if any(part.region == "SOLUTION" for part in parts_of(cell, lab.directory)):
            written["source"] = solution_text(cell, lab.directory).splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def run(notebook: Path) -> "subprocess.CompletedProcess[str]":
    """Run a notebook in a kernel of its own, beside its lab, by `pytest --nbval-lax`."""
    folder = notebook.parent
    command = [sys.executable, "-m", "pytest", "-q", "--nbval-lax", notebook.name]
    command += [f"--nbval-cell-timeout={CELL_S}", "-p", "no:cacheprovider", "--rootdir=."]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory(prefix="ipython-") as own:
        return subprocess.run(
            command,
            cwd=folder,
            env={**environment, "IPYTHONDIR": own},
            capture_output=True,
            text=True,
            check=False,
        )


def progress_of(notebook: Path) -> LabProgress:
    """Return what the checks inside the notebook said when it ran."""
    return lab_progress(notebook.parent)


def grade(lab: Lab, notebook: Path) -> Report:
    """Return the judge's report on the notebook, from the sandbox, hidden checks included."""
    return LabGrader(lab).grade(notebook.read_bytes())


def main(argv: Sequence[str] | None = None) -> int:
    """Solve the labs named, all by default, and print what became of each."""
    parser = argparse.ArgumentParser(description="Solve the labs from their starters, in order.")
    parser.add_argument("labs", nargs="*", help="directories of labs; default: all")
    arguments = parser.parse_args(argv)
    paths = [Path(name) for name in arguments.labs] or find_labs(LABS)
    whole = True
    with tempfile.TemporaryDirectory(prefix="labs-") as work:
        for path in paths:
            whole = _solve_one(load_lab(path), Path(work)) and whole
    return 0 if whole else 1


def _solve_one(lab: Lab, work: Path) -> bool:
    notebook = solve(lab, work)
    process = run(notebook)
    if process.returncode:
        print(f"{lab.name}: stopped\n{process.stdout[-3000:]}", flush=True)
        return False
    here, report = progress_of(notebook), grade(lab, notebook)
    print(
        f"{lab.name}: {here.correct} of {here.questions} questions correct in the notebook, "
        f"graded {report.score:g} of {report.max_score:g}",
        flush=True,
    )
    if report.score < report.max_score:
        print(to_text(report))
    return here.is_finished and report.score == report.max_score


if __name__ == "__main__":
    sys.exit(main())
