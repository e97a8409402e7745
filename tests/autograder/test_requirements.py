"""`@check(..., requires=...)`: what a check is worth while another one does not hold."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.audit.audit import audit
from autograder.audit.variants import Trials
from autograder.authoring.manifest import load_released
from autograder.authoring.notebook import solution_notebook
from autograder.authoring.public_checks import public_checks
from autograder.authoring.release import contradictions, release
from autograder.authoring.source import load_lab
from autograder.checks import load_checks
from autograder.errors import LabError
from autograder.formats.nbgrader import assert_check
from autograder.grading.grade import LabGrader
from autograder.learner.practice import Practice
from autograder.records import Outcome, Report

WITH_GATE = (
    '@check("sum_rows")\n',
    '@check("sum_rows", requires="rows_are_added")\n'
    "def no_number_is_negative_for_zeros(student, rng):\n"
    '    """zeros sum to nothing below zero"""\n'
    '    if (student.call("sum_rows", np.zeros((2, 3))) < 0).any():\n'
    '        raise Feedback("a sum of zeros is negative", hint="Begin at zero.")\n\n\n'
    '@check("sum_rows")\n',
)
IMPORT = ("from autograder.checks", "import numpy as np\nfrom autograder.checks")
ZEROS = "import numpy as np\ndef sum_rows(x):\n    return np.zeros(x.shape[1])"


@pytest.fixture
def gated(lab_copy: Callable[..., Path]) -> Path:
    return lab_copy(checks=(IMPORT, WITH_GATE))


def in_process(directory: Path) -> LabGrader:
    import contextlib

    from autograder.student.local import LocalStudent

    student = lambda limits: contextlib.nullcontext(LocalStudent())  # noqa: E731 - a fresh one each
    return LabGrader(load_lab(directory), open_student=student)


def by_check(report: Report) -> dict[str, tuple[Outcome, float, str]]:
    return {r.name: (r.outcome, r.score, r.output) for r in report.results}


def test_a_property_earns_nothing_until_what_it_requires_holds(gated, notebook) -> None:
    found = by_check(in_process(gated).grade(notebook([("code", ZEROS)])))
    said = "This holds, and counts once this does too: rows are added, columns stay."
    assert found["no_number_is_negative_for_zeros"] == (Outcome.INCORRECT, 0.0, said)
    assert "One number for each column" in found["rows_are_added"][2]


def test_a_right_answer_has_the_points_of_both(gated) -> None:
    lab = load_lab(gated)
    report = in_process(gated).grade(solution_notebook(lab).encode())
    assert report.score == report.max_score == 8.0
    with Trials(lab, jobs=1) as trials:
        assert list(contradictions(lab, load_checks(gated / "checks.py"), trials)) == []


def test_a_check_that_fails_keeps_its_own_message(gated, notebook) -> None:
    minus = "import numpy as np\ndef sum_rows(x):\n    return np.full(x.shape[1], -1.0)"
    found = by_check(in_process(gated).grade(notebook([("code", minus)])))
    assert found["no_number_is_negative_for_zeros"][2] == (
        "a sum of zeros is negative Begin at zero."
    )


def test_what_requires_something_unwritten_is_not_attempted(lab_copy, notebook) -> None:
    body = '    if "while" in student.source("sum_rows"):\n'
    gate = (WITH_GATE[0], WITH_GATE[1].replace(WITH_GATE[1].splitlines(True)[3], body))
    report = in_process(lab_copy(checks=(IMPORT, gate))).grade(
        notebook([("code", "def sum_rows(x):\n    raise NotImplementedError('later')")])
    )
    found = by_check(report)["no_number_is_negative_for_zeros"]
    assert found[:2] == (Outcome.NOT_ATTEMPTED, 0.0)


def test_a_chain_of_requirements_holds_back_all_of_it(lab_copy, notebook) -> None:
    second = WITH_GATE[1].replace("no_number", "not_a_number")
    second = second.replace(
        'requires="rows_are_added"', 'requires="no_number_is_negative_for_zeros"'
    )
    directory = lab_copy(checks=(IMPORT, WITH_GATE, (WITH_GATE[0], second)))
    found = by_check(in_process(directory).grade(notebook([("code", ZEROS)])))
    assert [score for name, (_, score, _) in found.items() if "zeros" in name] == [0.0, 0.0]


def test_a_property_waits_for_each_of_several(lab_copy, notebook) -> None:
    names = '("rows_are_added", "no_number_is_negative_for_zeros")'
    shape = f'@check("sum_rows", requires={names})\ndef a_sum_has_columns(student, rng):\n'
    shape += '    assert student.call("sum_rows", np.ones((2, 3))).shape == (3,)\n\n\n'
    directory = lab_copy(checks=(IMPORT, WITH_GATE, (WITH_GATE[0], shape + WITH_GATE[0])))
    fails_the_second = "def sum_rows(x):\n    return x.sum(axis=0) - (x == 0).all()"
    found = by_check(in_process(directory).grade(notebook([("code", fails_the_second)])))
    assert found["rows_are_added"][0] is Outcome.CORRECT
    said = "This holds, and counts once this does too: zeros sum to nothing below zero."
    assert found["a_sum_has_columns"] == (Outcome.INCORRECT, 0.0, said)


def test_the_notebook_says_the_same(gated, tmp_path: Path) -> None:
    release(load_lab(gated), tmp_path / "out")
    released = tmp_path / "out" / "copied_lab"
    names: dict[str, Any] = {}
    exec(ZEROS, names)
    practice = Practice(released, names, lambda: [ZEROS])
    question = load_released(released).question("sum_rows")
    assert question is not None
    found = {r.name: r.output for r in practice.check(question).results}
    said = found["no_number_is_negative_for_zeros"]
    assert said.startswith("This holds, and counts once this does too: rows are added")


def test_an_exported_test_cell_asks_for_both(gated) -> None:
    names: dict[str, Any] = {}
    exec(ZEROS, names)
    with pytest.raises(
        AssertionError, match="counts once this does too: rows are added, columns stay"
    ):
        assert_check("no_number_is_negative_for_zeros", names, str(gated))
    exec("def sum_rows(x):\n    return x.sum(axis=0)", names)
    assert_check("no_number_is_negative_for_zeros", names, str(gated))


def test_audit_of_a_lab_with_requirements_kills_what_it_killed(gated) -> None:
    found = audit(load_lab(gated), jobs=1)
    assert found["killed"] / found["mutants"] > 0.9


def test_a_hidden_requirement_is_named_nowhere(lab_copy, notebook, tmp_path: Path) -> None:
    gate = (
        '@check("scale", weight=1)',
        '@check("scale", requires="a_negative_factor_changes_the_sign")',
    )
    directory = lab_copy(checks=(gate,))
    lab = load_lab(directory)
    release(lab, tmp_path / "out")
    public = (tmp_path / "out" / lab.name / "checks.py").read_text()
    assert "requires" not in public
    assert "negative" not in public
    positive = "def scale(x, factor):\n    return x * abs(factor)"
    found = by_check(in_process(directory).grade(notebook([("code", positive)])))
    said = "This holds, and counts once a hidden check of this question does too."
    assert found["every_element_is_multiplied"] == (Outcome.INCORRECT, 0.0, said)


def test_a_public_check_behind_a_hidden_one_requires_what_that_requires() -> None:
    text = "\n".join(
        f'@check("q", hidden={hidden}{asked})\ndef {name}(student, rng):\n    "é"\n'
        for name, hidden, asked in [
            ("one", False, ""),
            ("two", True, ', requires="one"'),
            ("three", True, ', requires="two"'),
            ("four", False, ', requires="three", weight=2'),
            ("five", False, ', requires=("three", "four", "one")'),
        ]
    )
    public = public_checks("from autograder.checks import check\n" + text, ["two", "three"])
    assert "requires='one', weight=2" in public
    assert "requires=('one', 'four'))" in public
    assert json.dumps("é", ensure_ascii=False) in public


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ("rows_are_aded", "is no check here. Expected one of: rows_are_added"),
        ("every_element_is_multiplied", "a check of 'scale', expected one of the same question"),
        ("no_number_is_negative_for_zeros", "which comes back to it"),
    ],
)
def test_a_requirement_that_cannot_be_met_is_an_error_of_the_lab(lab_copy, other, says) -> None:
    gate = (WITH_GATE[0], WITH_GATE[1].replace('requires="rows_are_added"', f"requires={other!r}"))
    with pytest.raises(LabError, match=f"no_number_is_negative_for_zeros: requires '{other}'") as e:
        load_checks(lab_copy(checks=(IMPORT, gate)) / "checks.py")
    assert says in str(e.value)


def test_checks_that_require_each_other_are_an_error_that_names_both(lab_copy) -> None:
    head = WITH_GATE[1].removesuffix('@check("sum_rows")\n')
    gate = (WITH_GATE[0], head + '@check("sum_rows", requires="no_number_is_negative_for_zeros")\n')
    with pytest.raises(LabError, match="no_number_is_negative_for_zeros -> rows_are_added -> no_"):
        load_checks(lab_copy(checks=(IMPORT, gate)) / "checks.py")


@pytest.mark.parametrize("wrong", ["3", "('a', 3)"])
def test_a_requirement_that_is_no_text_is_an_error(lab_copy, wrong) -> None:
    gate = ('@check("scale", weight=1)', f'@check("scale", requires={wrong})')
    said = re.escape(f"requires: got {wrong}, expected the name of a check")
    with pytest.raises(LabError, match=said):
        load_checks(lab_copy(checks=(gate,)) / "checks.py")
