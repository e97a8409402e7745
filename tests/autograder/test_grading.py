"""Grading: three outcomes, answers by name, and broken checks that cost nothing."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autograder.authoring.manifest import load_released, to_manifest
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.source import load_lab, load_wrong_answers
from autograder.grading.grade import LabGrader
from autograder.learner.practice import Practice
from autograder.learner.progress import NOTEBOOK, lab_progress
from autograder.records import Failure, Lab, Limits, Outcome, Report, Statement
from autograder.student.local import LocalStudent
from autograder.student.protocol import load_each

SCALE = "def scale(x, factor):\n    return x * factor"
SUM = "import numpy as np\ndef sum_rows(x):\n    return np.sum(x, axis=0)"
CORRECT, INCORRECT, NOT_ATTEMPTED = Outcome.CORRECT, Outcome.INCORRECT, Outcome.NOT_ATTEMPTED


def local(lab: Lab) -> LabGrader:
    return LabGrader(lab, open_student=lambda limits: contextlib.nullcontext(LocalStudent()))


def outcomes(report: Report) -> dict[str, set[Outcome]]:
    found: dict[str, set[Outcome]] = {}
    for result in report.results:
        found.setdefault(result.question, set()).add(result.outcome)
    return found


def test_the_starter_is_not_attempted_everywhere(grader: LabGrader, sample_lab: Lab) -> None:
    report = grader.grade(learner_notebook(sample_lab).encode())
    assert {r.outcome for r in report.results} == {NOT_ATTEMPTED}
    assert (report.score, report.max_score) == (0.0, 8.0)
    assert report.manual[0].answer == ""


def test_a_form_that_nobody_filled_in_is_no_answer(sample_lab: Lab) -> None:
    form = "Why?\n\n**Answer** (why_scale):\n\n**Overview:**\n\n**Open questions:**"
    asked = [replace(q, starter=form) if q.manual else q for q in sample_lab.questions]
    grader = local(replace(sample_lab, questions=tuple(asked)))
    for text, answer in [
        (form, ""),
        (form + " how far?", "**Overview:**\n\n**Open questions:** how far?"),
    ]:
        cells = [{"cell_type": "markdown", "source": text, "metadata": {}}]
        sent = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        assert grader.grade(sent.encode()).manual[0].answer == answer


def test_the_solution_has_full_marks(grader: LabGrader, sample_lab: Lab) -> None:
    report = grader.grade(solution_notebook(sample_lab).encode())
    assert {r.outcome for r in report.results} == {CORRECT}
    assert report.score == report.max_score == 8.0
    assert "sum of squares" in report.manual[0].answer


def say_of_lab(notebook: str, lab: str) -> bytes:
    content = json.loads(notebook)
    content["metadata"]["autograder"]["lab"] = lab
    return json.dumps(content).encode()


def test_a_notebook_of_another_lab_is_called_that(grader: LabGrader, lab_copy, notebook) -> None:
    renamed = [(word, f"of_{word}") for word in ("scale", "sum_rows", "predicted_size")]
    other = replace(load_lab(lab_copy(lab=renamed)), name="07_other")
    note = "This is a notebook of lab 07_other, graded by scale_and_sum: nothing of it was found"
    report = grader.grade(learner_notebook(other).encode())
    assert {r.outcome for r in report.results} == {NOT_ATTEMPTED}
    assert report.notes == (f"{note}; hand it in there.",)
    marked = solution_notebook(other).replace("(why_of_scale)", "(why_scale)")
    assert grader.grade(marked.encode()).notes == (f"{note} but why_scale; hand it in there.",)
    by_call = notebook([("code", "from autograder import lab\n\nq = lab('07_other')")])
    assert grader.grade(by_call).notes == report.notes
    some = notebook([("code", f"q = lab('07_other')\n{SCALE}")])
    assert grader.grade(some).notes == (
        note.replace("nothing of it was found", "1 of 3 answers were found. Is it the right one?"),
    )


@pytest.mark.parametrize(
    "name", ["07_other", "09_scale_and_sum", "", "\n<b>" * 50, None, 7, ["scale_and_sum"]]
)
def test_metadata_that_lie_change_no_grade(grader, sample_lab: Lab, name: str) -> None:
    report = grader.grade(say_of_lab(solution_notebook(sample_lab), name))
    assert (report.score, report.notes) == (8.0, ())
    starter = learner_notebook(sample_lab)
    assert grader.grade(say_of_lab(starter, name)).notes == ()  # its cell says what it is
    report = grader.grade(say_of_lab(starter.replace("q = lab(", "q = print("), name))
    assert len(report.notes) == (name == "07_other")


def test_a_variable_that_is_called_like_a_word_of_the_checks_brings_no_cell_in(
    lab_copy, notebook, tmp_path: Path
) -> None:
    """The learner's `launched` is their own; `doubled`, which the lab has too, is asked for."""
    asked = 'student.call(name, x, 2.5) - (student.value(given) or 0)\n    print("launched")'
    in_variables = 'name, given = "scale", "doubled"\n    got = ' + asked
    check = ('got = student.call("scale", x, 2.5)', in_variables)
    lab = load_lab(lab_copy(checks=[check], lab=[("x = np.arange", "doubled = 0\nx = np.arange")]))
    grader, marks = local(lab), [tmp_path / "launched", tmp_path / "doubled"]
    launched, doubled = (f"{mark.name} = os.mkdir({str(mark)!r})" for mark in marks)
    report = grader.grade(notebook([("code", f"import os\n{SCALE}\n{SUM}\n{launched}\n{doubled}")]))
    assert outcomes(report)["scale"] == {CORRECT}
    assert [mark.exists() for mark in marks] == [False, True]
    assert "launched" in grader.checks.words
    assert {"scale", "doubled"} <= grader.names and "launched" not in grader.names


def test_reordered_renamed_and_copied_cells_grade_the_same(grader, sample_lab) -> None:
    content = json.loads(solution_notebook(sample_lab))
    cells = content["cells"]
    for number, cell in enumerate(cells):
        cell["id"], cell["metadata"] = f"new-{number}", {"tags": ["mine"]}
    content["cells"] = list(reversed(cells)) + cells
    assert grader.grade(json.dumps(content).encode()).score == 8.0


def test_an_answer_is_found_in_whatever_cell_defines_it(grader, notebook) -> None:
    report = grader.grade(notebook([("markdown", "mine"), ("code", f"y = 1\n{SUM}\n\n{SCALE}\n")]))
    assert outcomes(report) == {
        "scale": {CORRECT},
        "predicted_size": {NOT_ATTEMPTED},
        "sum_rows": {CORRECT},
    }
    assert (
        report.results[2].output == "Not attempted: nothing in the notebook defines predicted_size."
    )


def test_the_last_definition_counts(grader, notebook) -> None:
    wrong = "def scale(x, factor):\n    return x"
    assert outcomes(grader.grade(notebook([("code", wrong), ("code", SCALE)])))["scale"] == {
        CORRECT
    }
    report = grader.grade(notebook([("code", SCALE), ("code", wrong)]))
    assert outcomes(report)["scale"] == {INCORRECT}


def test_a_wrong_answer_is_told_what_was_called_and_the_hint(grader, notebook) -> None:
    report = grader.grade(notebook([("code", "def scale(x, factor):\n    return x + factor")]))
    shown, hidden = report.results[:2]
    assert shown.output.startswith("scale(x, 2.5) at [0, 0]: got ")
    assert shown.output.endswith("Look at the first element.")
    assert hidden.output == "The hidden check failed. Try a negative factor."
    assert (shown.score, hidden.score, report.score) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("raise NotImplementedError", NOT_ATTEMPTED),
        ("raise NotImplementedError('later')\n    # a note", NOT_ATTEMPTED),
        ("return ...", NOT_ATTEMPTED),
        ("return 1 / 0", INCORRECT),
        ("return None", INCORRECT),
        ("return 'text'", INCORRECT),
        ("return object()", INCORRECT),
        ("return lambda: 1", INCORRECT),
        ("raise SystemExit", INCORRECT),
        ("return scale(x, factor)", INCORRECT),
        ("print('PASS' * 1000)\n    return x * factor", CORRECT),
        ("import warnings\n    warnings.warn('careful')\n    return x * factor", CORRECT),
    ],
)
def test_each_outcome(grader, notebook, body: str, outcome: Outcome) -> None:
    with pytest.warns() if "warn" in body else contextlib.nullcontext():
        report = grader.grade(notebook([("code", f"def scale(x, factor):\n    {body}")]))
    assert outcomes(report)["scale"] == {outcome}


def test_an_exception_shows_line_and_call_and_of_a_hidden_check_neither(grader, notebook) -> None:
    report = grader.grade(notebook([("code", "def scale(x, factor):\n    return 1 / 0")]))
    shown, hidden = report.results[:2]
    assert "In scale, line 2: return 1 / 0" in shown.output
    assert "Called: scale(x=" in shown.output
    assert hidden.output == "Your code raised ZeroDivisionError."


@pytest.mark.parametrize(
    "raised",
    [
        "NotImplementedError(f'CARRIED {x}')",
        "type(f'CARRIED {x}', (Exception,), {})(f'CARRIED {x}')",
        "type('CARRIED', (Exception,), {})()",
        "ValueError(f'CARRIED {x}')",
    ],
)
def test_what_is_raised_carries_nothing_out_of_a_hidden_check(grader, notebook, raised) -> None:
    report = grader.grade(notebook([("code", f"def scale(x, factor):\n    raise {raised}")]))
    shown, hidden = report.results[:2]
    assert "CARRIED" in shown.output
    assert hidden.hidden
    assert "CARRIED" not in hidden.output
    assert hidden.output
    assert "CARRIED" in hidden.detail


def test_a_cell_that_crashes_costs_only_what_depends_on_it(grader, notebook) -> None:
    cells = [
        ("code", "import no_such_module\nfactor_name = no_such_module.x"),
        ("code", SUM),
        ("code", "plot(1/0)"),
        ("code", "def scale(x, factor, extra=factor_name):\n    return x * factor"),
        ("code", "predicted_size = (3"),
    ]
    report = grader.grade(notebook(cells))
    assert outcomes(report) == {
        "scale": {INCORRECT},
        "predicted_size": {INCORRECT},
        "sum_rows": {CORRECT},
    }
    assert "No module named 'no_such_module'" in report.results[0].output
    assert "cell 1, line 1" in report.results[0].output
    assert "SyntaxError" in report.results[2].output
    assert len(report.notes) == 2


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        ("def scale(x, factor)\n    return x * factor", "line 1: def scale(x, factor)"),
        ("    def scale(x, factor):\n        return x * factor +", "line 2: return x * factor +"),
        ("import numpy as np, math\nscale = lambda x, f: x ** * f", "line 2: scale = lambda"),
        ("scale, other = 1 2", "line 1: scale, other = 1 2"),
    ],
)
def test_what_is_no_python_is_said_at_its_question(grader, notebook, cell: str, line: str) -> None:
    report = grader.grade(notebook([("code", cell)]))
    first = report.results[0]
    assert (first.question, first.outcome) == ("scale", INCORRECT)
    assert line in first.output and ("SyntaxError" in first.output or "Indentation" in first.output)


@pytest.mark.parametrize(
    "broken", ["import numpy as np, * as x", "from math import (pi, tau", "np, k = 1 2"]
)
def test_a_helper_that_is_no_python_is_said_where_it_is_needed(
    grader, notebook, broken: str
) -> None:
    used = {"import": "np", "from m": "tau", "np, k ": "k"}[broken[:6]]
    cells = [("code", broken), ("code", f"def scale(x, factor, _={used}):\n    return x * factor")]
    output = grader.grade(notebook(cells)).results[0].output
    assert "SyntaxError" in output and "NameError" not in output


LACKS = """# %% question="scale" points="2"
import no_such_module_here

def scale(x, factor):
    ### BEGIN SOLUTION
    return no_such_module_here.scaled(x, factor)
    ### END SOLUTION
"""
DOUBLES = """from autograder.checks import check, close

@check("scale")
def it_is_doubled(student, rng):
    close(student.call("scale", 1.0, 2.0), 2.0, called="scale(1, 2)")
"""


def test_what_is_not_installed_here_is_no_mistake_of_the_learners(tmp_path, notebook) -> None:
    (tmp_path / "lab.py").write_text(LACKS)
    (tmp_path / "checks.py").write_text(DOUBLES)
    lab = load_lab(tmp_path)
    own = "import no_such_module_here\ndef scale(x, factor):\n    return no_such_module_here.a(x)"
    (result,) = LabGrader(lab).grade(notebook([("code", own)])).results
    assert result.broken and result.score == result.max_score
    assert "not installed" in result.output and "no_such_module_here" in result.detail


def test_a_module_that_only_the_learner_asks_for_is_their_mistake(grader, notebook) -> None:
    cell = "import no_such_module_here\ndef scale(x, factor):\n    return no_such_module_here.a(x)"
    result = grader.grade(notebook([("code", cell)])).results[0]
    assert result.outcome == INCORRECT and not result.broken


def test_a_variable_that_needs_an_unwritten_function_is_not_attempted(grader, notebook) -> None:
    cells = [
        ("code", "def size():\n    raise NotImplementedError('size')"),
        ("code", "predicted_size = size()"),
    ]
    assert outcomes(grader.grade(notebook(cells)))["predicted_size"] == {NOT_ATTEMPTED}


@pytest.mark.parametrize(
    "cell",
    [
        "ones = []\nalias = ones\nalias.append(1)",
        "ones = []\ndef fill(a): a.append(1)\nfill(ones)",
        "import heapq\nones = []\nheapq.heappush(ones, 1)",
        "import numpy as np\nones = np.zeros(1)\nnp.add(ones, 1, out=ones)",
        "class A: pass\nsetattr(A, 'one', 1)\nones = (getattr(A, 'one', 0),)",
        "ones = []\ndef count():\n    global ones\n    ones = [1]\n_ = count()",
    ],
)
def test_what_the_text_does_not_show_an_answer_to_need_has_run_all_the_same(
    grader, notebook, cell: str
) -> None:
    answer = "def scale(x, factor):\n    return x * factor * ones[0]"
    report = grader.grade(notebook([("code", cell), ("code", answer)]))
    assert outcomes(report)["scale"] == {CORRECT}
    wrong = ("code", answer.replace("factor *", "factor * 2 *"))
    assert outcomes(grader.grade(notebook([("code", cell), wrong])))["scale"] == {INCORRECT}


@pytest.mark.parametrize("given", [[], ["def scale(x, factor):\n    raise NotImplementedError"]])
@pytest.mark.parametrize(
    "cell",
    [
        f"exec({SCALE!r})",
        "globals()['scale'] = lambda x, factor: x * factor",
        "import sys\nsetattr(sys.modules[__name__], 'scale', lambda x, f: x * f)",
        "def all():\n    scale = lambda x, f: x * f\n    return locals()\nglobals().update(all())",
        f"code = {SCALE!r}\nexec(code)",
    ],
)
def test_an_answer_that_the_text_does_not_show_is_attempted(
    sample_lab, notebook, monkeypatch, cell: str, given: list[str]
) -> None:
    namespace = ModuleType("a_notebook")
    monkeypatch.setitem(sys.modules, "a_notebook", namespace)

    def opened(limits: Limits) -> contextlib.nullcontext[LocalStudent]:
        return contextlib.nullcontext(LocalStudent(vars(namespace)))

    report = LabGrader(sample_lab, open_student=opened).grade(
        notebook([("code", text) for text in [*given, cell]])
    )
    assert outcomes(report)["scale"] == {CORRECT}
    assert outcomes(report)["sum_rows"] == {NOT_ATTEMPTED}


def test_cells_that_ran_in_another_order_grade_the_same(grader, notebook) -> None:
    cells = ["two = one + 1", "one = half * 2", "def scale(x, f, k=two):\n    return x * f * k / 2"]
    late = [*cells, "half = 0.5"]
    report = grader.grade(notebook([("code", text) for text in late]))
    assert outcomes(report)["scale"] == {CORRECT} and report.notes == ()
    report = grader.grade(notebook([("code", text) for text in cells]))
    assert "cell 1, line 1" in report.results[0].output


def test_a_long_chain_in_another_order_runs_each_statement_twice_at_most() -> None:
    chain = [Statement(f"n{k} = n{k + 1}", (f"n{k}",), (f"n{k + 1}",), 1) for k in range(500)]
    chain.append(Statement("n500 = 1", ("n500",), (), 1))
    texts: dict[str, str] = {}
    runs: Counter[Statement] = Counter()

    def execute(statement: Statement) -> Failure | None:
        runs[statement] += 1
        missed = [name for name in statement.needs if name not in texts]
        message = f"name '{missed[0]}' is not defined" if missed else ""
        return Failure(statement, "NameError", message, "") if missed else None

    assert load_each(chain, execute, texts, {}) == []
    assert max(runs.values()) == 2


@pytest.mark.sandbox
def test_what_notebooks_take_from_autograder_is_there(sample_lab, notebook) -> None:
    cells = [
        "from autograder import compare, kept_rate, lab\nq = lab('scale_and_sum')",
        "def scale(x, factor):\n    compare('size', 3, computed=3)\n    return x * factor",
        "if True:\n    predicted_size = 3\n    q.check('predicted_size')",
    ]
    report = LabGrader(sample_lab).grade(notebook([("code", text) for text in cells]))
    assert outcomes(report)["scale"] == outcomes(report)["predicted_size"] == {CORRECT}


@pytest.mark.sandbox
def test_what_a_cell_writes_and_sets_is_there_for_others(sample_lab, notebook) -> None:
    cells = [
        "%%writefile mine.py\nimport os\ndef scale(x, factor):\n    return x * factor * k",
        "%%file -a mine.py\nk = int(os.environ['MY_K'])",
        "%%writefile rows.py\ntotal = lambda x: x.sum(axis=0)",
        "%env MY_K=1\n%run rows.py\nfrom mine import *",
        "def sum_rows(x):\n    return total(x)",
    ]
    report = LabGrader(sample_lab).grade(notebook([("code", text) for text in cells]))
    assert (outcomes(report)["scale"], outcomes(report)["sum_rows"]) == ({CORRECT}, {CORRECT})


@pytest.mark.parametrize(
    "cell",
    [
        "exec('k = 1\\npredicted_size = 3')",
        "def f():\n    global predicted_size\n    predicted_size = 3\nf()",
    ],
)
def test_a_variable_that_no_statement_shows_to_bind_is_attempted(grader, notebook, cell) -> None:
    assert outcomes(grader.grade(notebook([("code", cell)])))["predicted_size"] == {CORRECT}


@pytest.mark.parametrize("kind", ["source", "released", "source without cells"])
def test_what_the_lab_itself_shows_does_not_run_for_a_check_that_fails(
    sample_lab, sample_directory, tmp_path, capsys, kind: str
) -> None:
    (tmp_path / "lab.json").write_text(to_manifest(sample_lab))
    (tmp_path / "checks.py").write_text((sample_directory / "checks.py").read_text())
    others = {"released": tmp_path, "source without cells": sample_directory}
    lab = load_released(others[kind]) if kind in others else sample_lab
    content = json.loads(solution_notebook(sample_lab).replace("return x * factor", "return x"))
    content["cells"].append({"cell_type": "code", "source": "print('mine')", "metadata": {}})
    assert outcomes(local(lab).grade(json.dumps(content).encode()))["scale"] == {INCORRECT}
    assert capsys.readouterr().out == "mine\n"  # and no sum of the lab's last cell


def test_an_answer_does_not_hold_by_parts_of_two_attempts(grader, notebook) -> None:
    cell = "ones = []\nalias = ones\nalias.append(1)"
    answer = "def scale(x, factor):\n    return x * (factor if (factor > 0) is (not ones) else 0)"
    report = grader.grade(notebook([("code", cell), ("code", answer)]))
    assert outcomes(report)["scale"] == {CORRECT, INCORRECT}


def test_a_second_attempt_at_a_check_stays_within_the_time_of_the_submission(
    grader, notebook
) -> None:
    grader.limits = replace(grader.limits, wall_s=0.5)
    slow = "import time\ndef scale(x, f):\n    time.sleep(0.6)\n    return ones[0] * x * f"
    cells = [("code", "ones = []\nalias = ones\nalias.append(1)"), ("code", slow)]
    assert outcomes(grader.grade(notebook(cells)))["scale"] == {INCORRECT}


def test_a_second_attempt_has_what_the_first_has_left_for_its_cells_too(
    sample_lab, notebook
) -> None:
    walls: list[float] = []

    def opened(limits: Limits) -> contextlib.nullcontext[LocalStudent]:
        walls.append(limits.wall_s)
        return contextlib.nullcontext(LocalStudent())

    wrong = "def scale(x, f):\n    return x"
    grader = LabGrader(sample_lab, open_student=opened)
    grader.grade(notebook([("code", "print('mine')"), ("code", wrong)]))
    assert len(walls) == 2
    assert walls[1] < walls[0]


def test_points_are_shared_by_weight(lab_copy, notebook) -> None:
    lab = load_lab(lab_copy(checks=[('"scale", weight=1)', '"scale", weight=3)')]))
    assert [r.max_score for r in local(lab).grade(notebook([])).results][:2] == [3.0, 1.0]


def test_each_wrong_answer_loses_its_own_checks_points(grader, sample_lab, notebook) -> None:
    for wrong in load_wrong_answers(sample_lab.directory):
        cells = [("code", q.solution) for q in sample_lab.questions if not q.manual]
        report = grader.grade(
            notebook([("code", "import numpy as np"), *cells, ("code", wrong.text)])
        )
        lost = {r.name: r for r in report.results if r.outcome is not CORRECT}
        assert lost[wrong.check].outcome is INCORRECT
        assert wrong.says in lost[wrong.check].detail
        assert {r.question for r in lost.values()} == {wrong.question}


def test_an_async_answer_is_awaited(grader, notebook) -> None:
    text = "async def scale(x, factor):\n    return x * factor"
    assert outcomes(grader.grade(notebook([("code", text)])))["scale"] == {CORRECT}


@pytest.fixture
def broken_check(lab_copy) -> Callable[[str], LabGrader]:
    def make(line: str) -> LabGrader:
        old = '    got = student.call("scale", x, 2.5)\n'
        return local(load_lab(lab_copy(checks=[(old, old + f"    {line}\n")])))

    return make


@pytest.mark.parametrize(
    "line", ["1 / 0", "student.no_such_method()", "raise SystemExit", "assert False", "got.no_such"]
)
@pytest.mark.parametrize("answer", [SCALE, "def scale(x, factor):\n    return x * abs(factor)"])
def test_a_broken_check_costs_the_learner_nothing(broken_check, notebook, line, answer) -> None:
    broken, other = broken_check(line).grade(notebook([("code", answer)])).results[:2]
    assert broken.broken
    assert broken.score == broken.max_score == 2.0
    assert "our mistake" in broken.output
    assert "Traceback" in broken.detail
    assert "Error" not in broken.output
    assert other.outcome is (CORRECT if answer == SCALE else INCORRECT)


def test_a_broken_check_gives_nothing_for_a_starter(broken_check, sample_lab) -> None:
    report = broken_check("1 / 0").grade(learner_notebook(sample_lab).encode())
    assert report.score == 0.0


def test_an_answer_that_makes_a_check_raise_earns_nothing(broken_check, notebook) -> None:
    answer = "def scale(x, factor):\n    return 'no array'"
    provoked = broken_check("got.sum()").grade(notebook([("code", answer)])).results[0]
    assert (provoked.outcome, provoked.score, provoked.broken) == (INCORRECT, 0.0, False)
    assert "AttributeError" in provoked.detail
    assert "2.5) returned 'no array'. Is that of the form" in provoked.output


def test_an_answer_that_leaves_no_time_does_not_take_it_from_the_solution(
    broken_check, notebook
) -> None:
    grader = broken_check("got.sum(); __import__('time').sleep(2.3)")
    grader.limits = replace(grader.limits, wall_s=1.0)
    answer = "import time\ndef scale(x, factor, t=time.sleep(0.9)):\n    return 'no array'"
    provoked = grader.grade(notebook([("code", answer)])).results[0]
    assert (provoked.outcome, provoked.score, provoked.broken) == (INCORRECT, 0.0, False)


def test_what_cannot_be_read_has_a_report_too(grader) -> None:
    report = grader.grade(b"\xff\xfe\x00 nonsense")
    assert report.error
    assert (report.score, report.max_score) == (0.0, 8.0)
    assert {r.outcome for r in report.results} == {NOT_ATTEMPTED}


# The interruption may land in a finalizer, which says so and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_notebook_that_takes_too_long_to_read_has_a_report(grader, notebook) -> None:
    grader.read_s = 1e-3
    report = grader.grade(notebook([("code", "x = 1\n" * 9_000)]))
    assert "not read" in report.error
    assert report.score == 0.0


def test_inputs_are_drawn_anew_for_each_submission(lab_copy, notebook) -> None:
    line = "    x = rng.normal(size=(3, 4))\n"
    raising = line + "    raise Feedback(str(float(x[0, 0])))\n"
    grader = local(load_lab(lab_copy(checks=[(line, raising)])))
    said = {grader.grade(notebook([("code", SCALE)])).results[0].output for _ in range(3)}
    assert len(said) == 3


def test_the_time_limit_of_a_submission_ends_its_checks(grader, notebook) -> None:
    grader.limits = replace(grader.limits, wall_s=1e-9)
    report = grader.grade(notebook([("code", SCALE)]))
    assert outcomes(report)["scale"] == {INCORRECT}
    assert "time limit" in report.results[0].output


def test_an_answer_that_is_the_starter_with_notes_is_not_attempted(grader, notebook) -> None:
    text = (
        'def scale(x, factor):\n    """Mine."""\n    # how?\n    raise NotImplementedError("scale")'
    )
    report = grader.grade(notebook([("code", text)]))
    assert report.results[0].output == "Not attempted: the starter is unchanged."


@pytest.mark.parametrize(
    "change",
    [
        "predicted_size.append(3)",
        "predicted_size[:] = [3]",
        "predicted_size += [3]",
        "for n in (3,):\n    predicted_size.append(n)",
    ],
)
@pytest.mark.parametrize("between", ["\n", "\f"])  # in the starter's cell, and in one of its own
def test_an_answer_that_fills_the_starters_list_is_attempted(
    lab_copy, notebook, change: str, between: str
) -> None:
    as_list = [("# predicted_size = ...", "# predicted_size = []"), ("size = 3", "size = [3]")]
    asked = [('student.value("predicted_size") != 3', 'student.value("predicted_size") != [3]')]
    lab = load_lab(lab_copy(lab=as_list, checks=asked))
    starter = "predicted_size = []"
    for text, outcome in ((starter, NOT_ATTEMPTED), (starter + between + change, CORRECT)):
        cells = [("code", cell) for cell in text.split("\f")]
        assert outcomes(local(lab).grade(notebook(cells)))["predicted_size"] == {outcome}
        names: dict[str, Any] = {}
        for _, cell in cells:
            exec(cell, names)
        practice = Practice(lab.directory, names, lambda text=text: text.split("\f"))
        (question,) = (q for q in practice.questions if q.name == "predicted_size")
        assert practice.judge(question).outcome is outcome
        (lab.directory / NOTEBOOK).write_bytes(notebook(cells))
        assert lab_progress(lab.directory).begun == (outcome is CORRECT)


@pytest.mark.parametrize(
    "change", ["predicted_size += 1", "values[0] = 3\npredicted_size = values[0]"]
)
def test_what_changes_a_name_may_stand_before_what_binds_it(grader, notebook, change: str) -> None:
    cells = [("code", change), ("code", "values = [1]"), ("code", "predicted_size = 2")]
    cells = cells[: 2 + ("+=" in change)]
    assert outcomes(grader.grade(notebook(cells)))["predicted_size"] == {CORRECT}


def test_an_answer_written_in_a_helper_of_its_cell_is_attempted(lab_copy, notebook) -> None:
    old = "def scale(x, factor):\n"
    helper = (
        "def times(a, b):\n    ### BEGIN SOLUTION\n    return a * b\n    ### END SOLUTION\n\n\n"
    )
    changes = [
        (old, helper + old),
        (
            "    ### BEGIN SOLUTION\n    return x * factor\n    ### END SOLUTION",
            "    return times(x, factor)",
        ),
    ]
    lab = load_lab(lab_copy(lab=changes))
    assert outcomes(local(lab).grade(learner_notebook(lab).encode()))["scale"] == {NOT_ATTEMPTED}
    given = "def scale(x, factor):\n    return times(x, factor)"
    cells = [("code", given), ("code", "def times(a, b):\n    return a * b")]
    assert outcomes(local(lab).grade(notebook(cells)))["scale"] == {CORRECT}


def test_a_helper_that_a_probe_uses_is_run(lab_copy, notebook) -> None:
    old = '    got = student.call("scale", x, 2.5)\n'
    probe = "    def twice(x):\n        return helper(scale(x, 2.5))\n\n"
    new = probe + "    got = student.probe(twice, x=x)\n"
    grader = local(load_lab(lab_copy(checks=[(old, new)])))
    cells = [("code", SCALE), ("code", "def helper(x):\n    return x")]
    assert grader.grade(notebook(cells)).results[0].outcome is CORRECT


def test_a_report_survives_being_written_and_read(grader, sample_lab) -> None:
    report = grader.grade(solution_notebook(sample_lab).encode())
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report


@pytest.mark.sandbox
def test_the_sandboxed_grade_is_the_same(sample_lab: Lab, sample_directory: Path) -> None:
    from autograder.grading.grade import LabGrader as Sandboxed

    report = Sandboxed(sample_lab).grade(solution_notebook(sample_lab).encode())
    assert report.score == report.max_score == 8.0
    starter = Sandboxed(sample_lab).grade(learner_notebook(sample_lab).encode())
    assert starter.score == 0.0


@pytest.mark.sandbox
def test_a_cell_that_hangs_costs_only_what_depends_on_it(sample_lab: Lab, notebook) -> None:
    from autograder.grading.grade import LabGrader as Sandboxed

    grader = Sandboxed(sample_lab)
    grader.limits = replace(grader.limits, call_s=3.0)
    hanging = "n = 0\nwhile True:\n    n += 1"
    scale = "def scale(x, factor, n=n):\n    __import__('time').sleep(600)"
    report = grader.grade(notebook([("code", hanging), ("code", SUM), ("code", scale)]))
    assert outcomes(report)["sum_rows"] == {CORRECT}
    assert outcomes(report)["scale"] == {INCORRECT}


def test_no_message_says_what_a_hidden_check_asked_before(lab_copy, notebook) -> None:
    heavier = ('"scale", weight=1, hidden', '"scale", weight=3, hidden')
    grader = local(load_lab(lab_copy(checks=[heavier])))
    telling = """
state = {}
other_name = state
def scale(x, factor):
    if x.ndim == 1:
        state["asked"] = x
        return x * factor if "all" in state else x
    if "all" in state:
        raise RuntimeError(f"a hidden check asked {state['asked']}")
    return x * factor
"""
    cells = [("code", telling), ("code", "other_name['all'] = True")]
    report = grader.grade(notebook(cells))
    assert [(r.hidden, r.score > 0) for r in report.results[:2]] == [(False, False), (True, True)]
    assert "asked" not in report.results[0].output
