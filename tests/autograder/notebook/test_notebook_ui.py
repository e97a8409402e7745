"""What a learner reads from `q` in a notebook."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder import lab
from autograder.errors import UnknownLab
from autograder.learner.practice import find_lab
from autograder.learner.progress import progress

RIGHT = "def scale(x, factor):\n    return x * factor"
WRONG = "def scale(x, factor):\n    return x + factor"
STARTER = (
    'def scale(x, factor):\n    """Another docstring."""\n    raise NotImplementedError("scale")'
)


TWO_HALVES = '''
from autograder.checks import Feedback, check

@check("scale")
def scaling_multiplies(student, rng):
    """scaling multiplies"""
    student.call("scale", 2.0, 3.0)

@check("scale")
def unscaling_is_the_inverse(student, rng):
    """unscaling is the inverse"""
    student.call("unscale", 6.0, 3.0)
'''


@pytest.mark.parametrize("name", ["scale_and_sum", "09_scale_and_sum", "09"])
@pytest.mark.parametrize("start", [".", "deeper/still", ".."])
def test_a_lab_is_found_by_its_name_or_number_from_near_its_folder(
    released: Path, name: str, start: str
) -> None:
    (released / "deeper" / "still").mkdir(parents=True)
    assert find_lab(name, (released / start).resolve()) == released


def test_an_unknown_lab_names_a_near_one(released: Path) -> None:
    with pytest.raises(UnknownLab, match="Did you mean 'scale_and_sum'"):
        lab("scale_and_sun", released)


def test_an_unknown_lab_where_there_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownLab, match="no lab called 'x'") as error:
        lab("x", tmp_path)
    assert error.value._render_traceback_() == [str(error.value)]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("pass", "○ scale: not attempted"),
        (STARTER, "○ scale: not attempted"),
        ("scale = ...", "○ scale: not attempted"),
        (RIGHT, "✓ scale: correct. 1 check passes here; 1 more runs when you submit."),
        (WRONG, "✗ scale: incorrect."),
        ("def scale(x, factor):\n    raise ValueError('oh')", "Your code raised ValueError: oh"),
        ("scale = 3", "✗ scale: incorrect."),
        ("def scale(): pass", "Your code raised TypeError"),
        ("def scale(x, factor):\n    raise SystemExit", "Your code raised SystemExit"),
        ("def scale(x, factor):\n    raise NotImplementedError", "○ scale: not attempted"),
    ],
)
def test_a_check_prints_and_never_raises(
    session: Any, capsys: pytest.CaptureFixture[str], cell: str, says: str
) -> None:
    session.run(cell)
    session.q.check("scale")
    assert says in capsys.readouterr().out


def test_an_incorrect_answer_is_told_the_property_and_offered_a_hint(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(WRONG)
    session.q.check("scale")
    out = capsys.readouterr().out
    assert "every element is multiplied by the factor" in out
    assert "Look at the first element." in out
    assert 'q.hint("scale")' in out
    assert "sign" not in out  # the hidden check is not here


def test_an_exception_shows_the_learners_line_the_call_and_the_input(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (released / "checks.py").write_text(TWO_HALVES)
    cell = (
        "def deeper(seen, x):\n    return seen[id(x)]\n\n"
        "def scale(x, factor):\n    return deeper({}, x)\n\n"
        "def unscale(x, factor):\n    return x / factor"
    )
    session.run(cell)
    session.q.check("scale")
    out = capsys.readouterr().out
    assert "Your code raised KeyError: " in out
    assert "In deeper, line 2" in out
    assert "Called: scale(x=2.0, factor=3.0)" in out


def test_the_last_definition_counts(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.run(RIGHT)
    session.run(STARTER)
    session.q.check("scale")
    session.run(RIGHT)
    session.q.check("scale")
    heads = [line[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert heads == ["○", "✓"]


def test_an_answer_that_a_check_cannot_go_on_with_is_shown(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (released / "checks.py").read_text()
    (released / "checks.py").write_text(checks.replace("close(got, 2.5", "close(got + 0, 2.5"))
    session.run(RIGHT.replace("return", "_ ="))
    session.q.check("scale")
    out = capsys.readouterr().out
    assert "2.5) returned None. Does it end in a return?" in out
    assert "our mistake" not in out


def test_an_answer_without_a_return_is_asked_for_it(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT.replace("return", "_ ="))
    session.q.check("scale")
    assert "scale returned None: does it end in a return?" in capsys.readouterr().out


def test_a_broken_check_is_ours(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (released / "checks.py").read_text()
    (released / "checks.py").write_text(checks.replace("2.5 * x, called", "nowhere, called"))
    session.run(RIGHT)
    session.q.check("scale")
    assert "our mistake and costs you nothing" in capsys.readouterr().out


def test_checks_that_do_not_load_are_ours(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (released / "checks.py").write_text("import nowhere_at_all")
    session.run(RIGHT)
    session.q.check("scale")
    assert "ours to mend, not yours" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["check", "hint"])
def test_a_misspelt_question_suggests_the_near_one(
    session: Any, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    getattr(session.q, verb)("scael")
    assert "Did you mean 'scale'?" in capsys.readouterr().out


def test_a_function_may_stand_for_its_name(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT)
    session.q.check(session.namespace["scale"])
    assert "✓ scale" in capsys.readouterr().out


def test_hints_come_one_by_one_and_end(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        session.q.hint("scale")
    assert capsys.readouterr().out.splitlines() == [
        "Hint 1 of 2 for scale: What is the shape of x?",
        "Hint 2 of 2 for scale (the last one): Multiply, do not add.",
        "Hint 2 of 2 for scale (the last one): Multiply, do not add.",
    ]


def test_a_hint_without_a_name_is_for_the_first_unsolved(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT)
    session.q.check("scale")
    session.q.hint()
    assert "predicted_size" in capsys.readouterr().out


def test_status_tells_every_question_and_the_points(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT)
    session.run("predicted_size = 2")
    session.q.check()
    capsys.readouterr()
    session.q.status()
    out = capsys.readouterr().out
    for line in ("✓ scale", "✗ predicted_size", "○ sum_rows", "· why_scale", "4 of 8 points"):
        assert line in out


def test_the_panel_carries_the_same_state_and_text_beside_it(session: Any) -> None:
    bundle, _ = session.q._repr_mimebundle_()
    assert "Scale and sum" in bundle["text/plain"]
    model = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    session.run(WRONG)
    session.q.check("scale")
    panel = session.q._panel
    assert panel.model_id == model
    row = panel.state["questions"][0]
    assert (row["name"], row["outcome"]) == ("scale", "incorrect")
    assert row["failures"][0]["title"] == "every element is multiplied by the factor"
    json.dumps(panel.state)


def test_the_panel_does_what_is_clicked_and_ignores_nonsense(session: Any) -> None:
    session.q._repr_mimebundle_()
    panel = session.q._panel
    session.run(RIGHT)
    panel._answer_click(panel, {"act": "check all"}, [])
    assert panel.state["score"] == 4
    panel._answer_click(panel, {"act": "hint", "name": "sum_rows"}, [])
    assert panel.state["questions"][2]["hints"] == ["Which axis goes away?"]
    for nonsense in ({}, {"act": "no"}, {"act": "check"}, {"act": "hint", "name": 3}, "text", None):
        panel._answer_click(panel, nonsense, [])
    assert panel.state["score"] == 4


def test_a_question_without_points_is_optional_and_holds_nobody_up(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((released / "lab.json").read_text())
    first, *others = [q for q in manifest["questions"] if not q["manual"]]
    first["points"] = 0
    (released / "lab.json").write_text(json.dumps(manifest))
    session.q.status()
    line = next(x for x in capsys.readouterr().out.splitlines() if f" {first['name']} " in x)
    assert line.endswith("not checked, optional")
    session.q.hint()
    assert f"for {others[0]['name']}" in capsys.readouterr().out
    (found,) = progress(released.parent).labs
    assert (found.questions, found.next) == (len(others), others[0]["name"])


def test_half_an_answer_is_told_which_half_is_missing(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((released / "lab.json").read_text())
    asked = next(q for q in manifest["questions"] if q["name"] == "scale")
    asked["defines"] = ["scale", "unscale"]
    (released / "lab.json").write_text(json.dumps(manifest))
    (released / "checks.py").write_text(TWO_HALVES)
    session.run(RIGHT + "\n\ndef unscale(x, factor):\n    raise NotImplementedError")
    session.q.check("scale")
    said = capsys.readouterr().out.splitlines()[:4]
    assert said == [
        "✗ scale: incorrect. 1 of 2 checks pass here; 1 more runs when you submit.",
        "  ✓ scaling multiplies",
        "  ○ unscaling is the inverse",
        "    What this asks for is not written yet.",
    ]


def test_what_several_checks_say_in_the_same_words_is_said_once(
    released: Path, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (released / "checks.py").write_text(TWO_HALVES.replace('"unscale", 6.0', '"scale", 2.0'))
    session.run("def scale(x, factor):\n    raise KeyError(140204484372832)")
    session.q.check("scale")
    out = capsys.readouterr().out
    assert out.count("Your code raised KeyError: 140204484372832") == 1
    assert 'The same as for "scaling multiplies".' in out


def test_status_panel_and_receipt_say_how_many_checks_run_where(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.q.status()
    assert "3 checks run here; 1 more runs when you submit." in capsys.readouterr().out
    panel = pytest.importorskip("autograder.learner.panel").Panel(session.q)
    panel.draw()
    rows = {row["name"]: row for row in panel.state["questions"]}
    assert (rows["scale"]["checks_here"], rows["scale"]["checks_more"]) == (1, 1)
    assert (rows["sum_rows"]["checks_here"], rows["sum_rows"]["checks_more"]) == (1, 0)
