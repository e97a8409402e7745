"""What one lab measures of a machine: kept, shown, taken by later labs, or measured anew."""

import json
from pathlib import Path

import pytest

from autograder import keep_rates, kept_rate, progress
from autograder.service.running.handout import hand_out

LAB = """# %% tags="setup"
from autograder import lab
q = lab("the_machine")
# %% question="two" points="1"
### BEGIN STARTER
# two = ...
### END STARTER
### BEGIN SOLUTION
two = 2
### END SOLUTION
"""
CHECKS = """from autograder.checks import check, close

@check("two")
def it_is_two(student, rng):
    close(student.value("two"), 2, called="two")
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A learner's folder with the lab that measures and one that comes later."""
    for name in ("00_the_machine", "01_later"):
        source = tmp_path / "labs" / name
        source.mkdir(parents=True)
        (source / "lab.py").write_text(LAB.replace("the_machine", name[3:]))
        (source / "checks.py").write_text(CHECKS)
    assert hand_out(sorted((tmp_path / "labs").iterdir()), tmp_path / "work") == []
    return tmp_path / "work"


def never(name: str) -> float:
    raise AssertionError(f"{name} was measured again")


def test_a_rate_that_was_kept_is_taken_by_a_later_lab_and_shown(work: Path, capsys) -> None:
    keep_rates({"messages": 30_000, "calls": 2.5e7}, directory=work / "00_the_machine")
    assert kept_rate("messages", never, directory=work / "01_later") == 30_000
    assert capsys.readouterr().out == "messages a second: 3e+04, as you measured in lab 00.\n"
    text = "This machine, each second: 3e+04 messages, 2.5e+07 calls."
    assert text in str(progress(work)) and text in progress(work)._repr_html_()


def test_a_rate_that_is_missing_is_measured(work: Path, capsys) -> None:
    keep_rates({"calls": 1.0}, directory=work / "00_the_machine")
    assert kept_rate("messages", lambda name: 7.0 * len(name), directory=work / "01_later") == 56
    assert "messages a second: 56, measured now" in capsys.readouterr().out
    assert kept_rate("messages", lambda name: 3.0, directory=work.parent.parent) == 3.0


def change(work: Path, text: str) -> None:
    (work / "00_the_machine" / ".rates.json").write_text(text)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"machine": 1}', '{"machine": "x", "rates": {"a": []}}']
)
def test_a_file_that_cannot_be_read_counts_as_missing(work: Path, text: str) -> None:
    change(work, text)
    assert kept_rate("messages", lambda name: 5.0, directory=work / "01_later") == 5.0
    assert "This machine" not in str(progress(work))


def test_what_another_machine_has_measured_is_not_taken(work: Path) -> None:
    keep_rates({"messages": 1.0}, directory=work / "00_the_machine")
    path = work / "00_the_machine" / ".rates.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"machine": "another one"}))
    assert kept_rate("messages", lambda name: 5.0, directory=work / "01_later") == 5.0
    assert "This machine" not in str(progress(work))


def test_nothing_is_kept_beside_a_labs_source(work: Path) -> None:
    source = work.parent / "labs" / "00_the_machine"
    keep_rates({"messages": 1.0}, directory=source)
    assert not (source / ".rates.json").exists()
