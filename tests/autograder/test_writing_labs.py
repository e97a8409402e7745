"""The lab in the guide for authors does what the guide says."""

import json
import re
from pathlib import Path

import pytest

from autograder.audit.audit import audit
from autograder.audit.mutation import mutants_of
from autograder.audit.variants import Trials
from autograder.authoring.release import CHECKS, contradictions
from autograder.authoring.source import find_labs, load_lab, load_wrong_answers
from autograder.checks import load_checks
from autograder.grading.grade import LabGrader
from autograder.records import Lab

GUIDE = Path(__file__).parents[2] / "docs" / "writing_labs.md"
FILE = re.compile(r"^`(\w+)/(\w+\.py)`:\n\n```python\n(.*?)^```$", re.M | re.S)


def written(name: str, folder: Path) -> Lab:
    """Return a lab of the guide, with its files in a folder."""
    for directory, file, text in FILE.findall(GUIDE.read_text(encoding="utf-8")):
        (folder / directory).mkdir(exist_ok=True)
        (folder / directory / file).write_text(text, encoding="utf-8")
    assert [path.name for path in find_labs(folder)] == ["growth", "halves"]
    return load_lab(folder / name)


@pytest.fixture(params=["halves", "growth"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    return written(request.param, tmp_path)


def test_the_guides_labs_prove_themselves_and_survive_their_audits(lab: Lab) -> None:
    assert len(load_wrong_answers(lab.directory)) >= 3
    with Trials(lab, jobs=1) as trials:
        assert list(contradictions(lab, load_checks(lab.directory / CHECKS), trials)) == []
    assert audit(lab, jobs=1)["survivors"] == []
    assert sum(1 for q in lab.questions for _ in mutants_of(q.solution)) > 0


def test_a_slow_answer_is_told_so_by_name(tmp_path: Path) -> None:
    lab = written("growth", tmp_path)
    slow = "import numpy as np\n" + load_wrong_answers(lab.directory)[0].text
    notebook = {"cells": [{"cell_type": "code", "source": slow}], "metadata": {}}
    report = LabGrader(lab).grade(json.dumps(notebook).encode())
    timed = next(r for r in report.results if r.name == "each_number_is_added_once")
    assert "times as long as a reference" in timed.output
