"""The sample lab as learners have it, and the session of a notebook that works on it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.manifest import to_manifest
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.public_checks import public_checks
from autograder.authoring.source import load_lab
from autograder.checks import load_checks
from autograder.learner.notebook_ui import Notebook
from autograder.learner.practice import Practice

SAMPLE = Path(__file__).parents[1] / "sample_labs" / "scale_and_sum"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """Return a folder `09_scale_and_sum` as release writes it."""
    lab = load_lab(SAMPLE)
    folder = tmp_path / "work" / "09_scale_and_sum"
    folder.mkdir(parents=True)
    hidden = [check.name for check in load_checks(SAMPLE / "checks.py").checks if check.hidden]
    text = (SAMPLE / "checks.py").read_text()
    (folder / "checks.py").write_text(public_checks(text, hidden))
    manifest = to_manifest(lab, ["scale"]).replace('"scale_and_sum"', '"09_scale_and_sum"')
    (folder / "lab.json").write_text(manifest)
    (folder / "lab.ipynb").write_text(learner_notebook(lab))
    (folder / "solution.ipynb").write_text(solution_notebook(lab))
    return folder


@dataclass
class Session:
    """A kernel without a kernel: `run` executes a cell and remembers it."""

    folder: Path
    namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    cells: list[str] = field(default_factory=list)
    connect: Callable[[], Any] | None = None
    ask: Callable[..., Any] | None = None
    _notebook: Notebook | None = None

    @property
    def q(self) -> Notebook:
        if self._notebook is None:
            practice = Practice(self.folder, self.namespace, lambda: self.cells)
            self._notebook = Notebook(practice, self.connect, self.ask)
        return self._notebook

    def run(self, text: str) -> None:
        self.cells.append(text)
        exec(text, self.namespace)


@pytest.fixture
def session(released: Path) -> Session:
    made = Session(released)
    made.run("import numpy as np")
    return made
