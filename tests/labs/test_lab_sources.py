"""What every lab is made of: beats, hints, wrong answers; and that its checks catch these."""

import ast
import json
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autograder import compare
from autograder.audit.audit import find_unearned_points
from autograder.audit.trivial import THEFT, VALUES
from autograder.audit.variants import Trials
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.regions import learner_text, parts_of, solution_text
from autograder.authoring.release import CHECKS, SEEDS, contradictions, is_stale, write_files
from autograder.authoring.source import find_labs, load_lab, load_wrong_answers
from autograder.checks import load_checks
from autograder.grading.grade import LabGrader
from autograder.grading.slicing import select_needed
from autograder.records import Lab
from lessons.ranks.messages_only import MESSAGES

LABS = Path(__file__).parents[2] / "labs"
SAMPLE = ("None", "NaN", "an input unchanged", "chance")  # besides an empty list, and theft
PAYS = "these checks pay for nothing: let them wait with requires= (docs/writing_labs.md)"
LONGEST_CELL = 50  # lines, what a screen shows, answers included
GIVEN_LINES, GIVEN_CELL = 400, 20  # of code that learners read and do not write: a lab's, a cell's
THREE_SITTINGS = 1.25  # of what a lab may have; more than that are two labs


def text_of(lab: Lab) -> str:
    return "\n".join(cell.text for cell in lab.cells if cell.kind == "markdown")


def paid(lab: Lab, trials: Trials, kinds: set[str] | None) -> list[str]:
    found = find_unearned_points(lab, trials, kinds=kinds, timeout_s=60.0)
    return [f"{p['check']} of {p['question']} pays for {p['answer']}" for p in found]


def test_the_notebook_beside_the_source_is_fresh(lab: Lab) -> None:
    assert not is_stale(lab), "run: autograder release --in-place labs"


def test_starter_solution_and_wrong_answers_are_told_apart(lab: Lab, trials: Trials) -> None:
    """The starter scores nothing, the solution all, and each mistake is caught with its words.

    The solution on one draw; the judge draws another (`test_labs_solved`), and WIDE=1 more.
    """
    seeds = SEEDS if os.environ.get("WIDE") else SEEDS[:1]
    assert list(contradictions(lab, load_checks(lab.directory / CHECKS), trials, seeds)) == []


def test_an_answer_that_does_nothing_earns_nothing(lab: Lab, trials: Trials) -> None:
    """Each question answered by an empty list, by theft, and by what is this lab's turn."""
    turn = int(lab.name[:2])
    values = {f"the value {value}" for value in VALUES[turn % 3 :: 3]}
    kinds = {"an empty list", THEFT, SAMPLE[turn % len(SAMPLE)], *values}
    assert paid(lab, trials, kinds) == [], PAYS


def test_the_judge_runs_a_small_part_of_a_notebook(lab: Lab) -> None:
    """One statement read too much lets all measurements of a lab run, for every submission."""
    grader = LabGrader(lab)
    answers = {name for task in grader.tasks for name in task.question.defines}
    run = select_needed(grader.solution, answers | grader.names)
    assert len(run) < len(grader.solution) / 5
    at_once = [s.text for s in run if not s.text.startswith(("def ", "class ", "@"))]
    assert [text for text in at_once if "launch(" in text] == []  # on every rank of every check


@pytest.mark.wide
def test_no_answer_of_any_kind_that_does_nothing_earns_anything(lab: Lab, trials: Trials) -> None:
    assert paid(lab, trials, None) == [], PAYS


def test_what_a_lab_withholds_is_there(lab: Lab) -> None:
    for name in load_checks(lab.directory / CHECKS).settings.withheld:
        pkgutil.resolve_name(name)  # raises where a name has moved


def test_every_checked_question_has_three_wrong_answers_and_hints(lab: Lab) -> None:
    wrong = [answer.question for answer in load_wrong_answers(lab.directory)]
    asked = [question for question in lab.questions if not question.manual]
    assert {q.name: wrong.count(q.name) for q in asked if wrong.count(q.name) < 3} == {}
    assert [q.name for q in asked if not q.hints] == []


def test_every_open_question_has_a_rubric_and_a_model_answer(lab: Lab) -> None:
    manual = [question for question in lab.questions if question.manual]
    assert len(manual) >= 2
    for question in manual:
        assert question.rubric
        assert len(question.solution) > len(question.starter)


def share_of(lab: Lab) -> float:
    """Return what a lab may have, as a multiple of what fits one sitting."""
    return THREE_SITTINGS if "three sittings" in lab.cells[0].text else 1.0


def test_the_lab_says_its_time_and_has_four_to_seven_sections(lab: Lab) -> None:
    text = text_of(lab)
    minutes = re.search(r"about (\d+) minutes", lab.cells[0].text)
    assert minutes and 60 <= int(minutes[1]) <= 120 * share_of(lab)
    assert 4 <= len(re.findall(r"^## \d", text, re.MULTILINE)) <= 7 * share_of(lab)


def test_every_section_predicts_and_reflects_and_most_look_at_the_real_system(lab: Lab) -> None:
    sections = re.split(r"^## (?=\d)", text_of(lab), flags=re.MULTILINE)[1:]
    for section in sections:
        title = section.splitlines()[0]
        for beat in ("Predict", "Reflect"):
            assert beat in section, f"{title}: no {beat}"
    assert sum("real system" in section for section in sections) >= len(sections) - 1


def bound_in(node: ast.ClassDef) -> set[str]:
    """Return the names of a class's methods and of the attributes that they set."""
    inside = list(ast.walk(node))
    return (
        {n.name for n in inside if isinstance(n, ast.FunctionDef)}
        | {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        | {n.attr for n in inside if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    )


def test_a_communicator_of_a_notebook_has_all_messages_that_checks_take(lab: Lab) -> None:
    """An answer that is paid for `comm.sendrecv` is measured over such a class afterwards."""
    cells = [solution_text(cell, lab.directory) for cell in lab.cells if cell.kind == "code"]
    classes = [n for n in ast.walk(ast.parse("\n".join(cells))) if isinstance(n, ast.ClassDef)]
    for node in classes:
        if bound_in(node) >= {"send", "recv"}:
            assert set(MESSAGES) - {"empty"} - bound_in(node) == set(), node.name


def test_cells_are_short(lab: Lab) -> None:
    code = [cell for cell in lab.cells if cell.kind == "code"]
    long = {
        cell.line: lines
        for cell in code
        if (lines := solution_text(cell, lab.directory).count("\n") + 1) > LONGEST_CELL
    }
    assert long == {}


def given_lines(cell: dict[str, Any]) -> int:
    """Return the lines of code of a released cell, but for what the learner writes."""
    if cell["cell_type"] != "code" or cell["metadata"].get("nbgrader", {}).get("solution"):
        return 0
    lines = [line.strip() for line in "".join(cell["source"]).splitlines()]
    return sum(bool(line) and not line.startswith("#") and "= ..." not in line for line in lines)


def test_the_given_code_of_a_lab_can_be_read(lab: Lab) -> None:
    """What needs no reading lies in a module, where it can be opened."""
    given = [given_lines(cell) for cell in json.loads(learner_notebook(lab))["cells"]]
    assert sum(given) <= GIVEN_LINES * share_of(lab)
    assert max(given) <= GIVEN_CELL


def test_each_check_cell_is_named_for_the_question_that_it_asks(lab: Lab) -> None:
    points = {question.name: question.points for question in lab.questions}
    for cell in json.loads(learner_notebook(lab))["cells"]:
        about = cell["metadata"].get("nbgrader", {})
        if cell["cell_type"] == "code" and about.get("grade"):
            asked, *_ = re.findall(r'q\.check\("(\w+)"\)', "".join(cell["source"]))
            assert (about["grade_id"], about["points"]) == (f"check_{asked}", points[asked])


def test_no_line_of_a_solution_is_in_the_learners_notebook(lab: Lab) -> None:
    for cell in lab.cells:
        learner = set(map(str.strip, learner_text(cell, lab.directory).splitlines()))
        parts = parts_of(cell, lab.directory)
        rest = {line.strip() for part in parts if not part.region for line in part.lines}
        for part in parts:
            if part.region == "SOLUTION":
                lines = {line.strip() for line in part.lines if len(line.strip()) > 8}
                assert not (lines - rest) & learner


def test_the_house_style_goes_where_the_notebook_looks_for_it(lab: Lab, tmp_path: Path) -> None:
    write_files(lab.directory, tmp_path / lab.name, {})
    setup = "\n".join(cell.text for cell in lab.cells if "setup" in cell.tags)
    (named,) = re.findall(r"Path\(\"(.+\.mplstyle)\"\)", setup)
    assert (tmp_path / lab.name / named).is_file()


MISTAKEN = ("04_dataflow_graphs", "09_ring_all_reduce")  # one process and ranks; all with WIDE=1


@pytest.mark.sandbox
@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.name, marks=() if p.name in MISTAKEN else pytest.mark.wide)
        for p in find_labs(LABS)
    ],
)
def test_a_graded_mistake_costs_its_own_question_alone(path: Path) -> None:
    """The last wrong answer of the lab, in the sandbox; nothing depends on the last question.

    That each answer is caught here, and that each solution has full marks there, others test.
    """
    from autograder.grading.grade import LabGrader

    lab = load_lab(path)
    mistake = load_wrong_answers(lab.directory)[-1]
    notebook = json.loads(solution_notebook(lab))
    notebook["cells"].append({"cell_type": "code", "metadata": {}, "source": mistake.text})
    report = LabGrader(lab).grade(json.dumps(notebook).encode())
    lost = {result.name: result for result in report.results if result.score < result.max_score}
    assert mistake.says in lost[mistake.check].output
    assert {result.question for result in lost.values()} == {mistake.question}


COUNTING = [path for path in find_labs(LABS) if not path.name.startswith("01_")]  # 01 counts none


@pytest.mark.parametrize("path", COUNTING, ids=lambda path: path.name)
def test_compare_says_when_a_count_was_not_predicted_exactly(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A count can be predicted to the last digit; a time cannot, and has a ratio."""
    text = (path / "lab.py").read_text()
    own = [n for n in ast.parse(text).body if getattr(n, "name", "") == "compare"]
    names: dict[str, Any] = {"np": np, "compare": compare}
    exec("".join(map(ast.unparse, own)), names)
    said = []
    for predicted, measured in ((5500, 5005), (5005, np.int64(5005)), (2.0, 1.0), (0, 3)):
        names["compare"]("bytes", predicted, measured)
        said.append(capsys.readouterr().out)
    wrong, right, timed, nothing = said
    assert "0.91" in wrong and "not exact" in wrong
    assert "exact" in right and "not exact" not in right
    assert "0.5" in timed and "exact" not in timed
    assert "no ratio to 0, not exact" in nothing


def test_a_value_that_can_be_known_is_compared_exactly_though_it_is_no_integer(
    capsys: pytest.CaptureFixture[str],
) -> None:
    compare("first element", 5500.0, np.float64(5005.0), exact=True)
    assert "ratio 0.910, not exact" in capsys.readouterr().out
    compare("first element", 5005.0, np.float64(5005.0), exact=True)
    assert capsys.readouterr().out.split() == [
        "first",
        "element",
        "predicted",
        "5,005",
        "measured",
        "5,005",
        "exact",
    ]
    compare("bytes", ..., 8_000_000)
    assert capsys.readouterr().out.split() == [
        "bytes",
        "measured",
        "8,000,000",
        "(no",
        "prediction",
        "yet)",
    ]


def test_the_hint_of_a_hidden_check_is_the_same_whatever_was_drawn(lab: Lab) -> None:
    """Learners read it: a text made of values would hand out what is hidden."""
    tree = ast.parse((lab.directory / CHECKS).read_text())
    made = []
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        if not any("hidden=True" in ast.unparse(d) for d in function.decorator_list):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                made.append((function.name, node.value))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "hint":
                made.append((function.name, node.value))
    assert made
    assert [name for name, value in made if isinstance(value, ast.JoinedStr)] == []
