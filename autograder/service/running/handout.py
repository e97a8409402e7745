"""What a learner is handed to work on at home: each lab's notebook, once, and what goes with it.

The notebook belongs to the learner from then on and is never written again. The checks and the
manifest belong to the lab, and follow it when it changes. Proving the lab is `release`'s task.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from autograder.authoring.manifest import MANIFEST, NOTEBOOK
from autograder.authoring.release import learner_files, write_files
from autograder.authoring.source import SOURCE, load_lab
from autograder.checks import load_checks
from autograder.errors import LabError
from autograder.grading.grade import CHECKS

PAGE = "README.md"  # the way through the labs; JupyterLab opens on it


def hand_out(labs: Iterable[Path], work: Path) -> list[str]:
    """Bring `work` up to date with the labs; return a line for each that could not be had.

    The page that stands beside the labs goes beside the notebooks.
    """
    problems = []
    for lab in labs:
        try:
            _hand_out(lab, work / lab.name)
        except (LabError, OSError) as error:
            problems.append(f"start: {lab.name} is left out: {str(error).splitlines()[0]}")
        if (lab.parent / PAGE).is_file():
            shutil.copy(lab.parent / PAGE, work / PAGE)
    return problems


def _hand_out(directory: Path, target: Path) -> None:
    if _is_current(directory, target):
        return
    files = learner_files(load_lab(directory), load_checks(directory / CHECKS))
    if (target / NOTEBOOK).exists():
        del files[NOTEBOOK]
    write_files(directory, target, files)


def _is_current(directory: Path, target: Path) -> bool:
    """Return whether everything is there and the manifest, written last, is the youngest."""
    if not all((target / name).is_file() for name in (NOTEBOOK, CHECKS, MANIFEST)):
        return False
    written = (target / MANIFEST).stat().st_mtime
    return all((directory / name).stat().st_mtime < written for name in (SOURCE, CHECKS))
