"""The lab in the guide for authors does what the guide says."""

import re
from pathlib import Path

import pytest

from autograder.audit.audit import audit
from autograder.audit.mutation import mutants_of
from autograder.audit.variants import Trials
from autograder.authoring.release import CHECKS, contradictions
from autograder.authoring.source import find_labs, load_lab, load_wrong_answers
from autograder.checks import load_checks
from autograder.cli import main
from autograder.records import Lab

GUIDE = Path(__file__).parents[2] / "docs" / "writing_labs.md"
FILE = re.compile(r"^`(\w+)/(\w+\.py)`:\n\n```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    for directory, name, text in FILE.findall(GUIDE.read_text(encoding="utf-8")):
        (tmp_path / directory).mkdir(exist_ok=True)
        (tmp_path / directory / name).write_text(text, encoding="utf-8")
    (found,) = find_labs(tmp_path)
    return load_lab(found)


def test_the_guides_lab_proves_itself_and_survives_its_audit(lab: Lab) -> None:
    assert len(load_wrong_answers(lab.directory)) == 3
    with Trials(lab, jobs=1) as trials:
        assert list(contradictions(lab, load_checks(lab.directory / CHECKS), trials)) == []
    assert audit(lab)["survivors"] == []
    assert sum(1 for q in lab.questions for _ in mutants_of(q.solution)) > 0


def test_the_guides_commands_exist() -> None:
    commands = set(re.findall(r"^    autograder (\S+)", GUIDE.read_text(encoding="utf-8"), re.M))
    assert {"release", "audit", "check"} <= commands
    for command in commands:
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert caught.value.code == 0
