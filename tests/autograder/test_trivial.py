"""Answers that do nothing: what they are made of, and that audit tells which of them are paid."""

from pathlib import Path
from typing import Any

import pytest

from autograder.audit.audit import audit, find_unearned_points
from autograder.audit.trivial import THEFT, trivial_answers
from autograder.audit.variants import Trials
from autograder.authoring.source import load_lab

EVERY = frozenset(range(1, 100))


def answers(text: str, lines: frozenset[int] = EVERY) -> dict[str, str]:
    return {answer.kind: answer.text for answer in trivial_answers(text, lines)}


def returned(text: str, *arguments: object) -> dict[str, object]:
    found = {}
    for kind, answer in answers(text).items():
        if kind == THEFT:
            continue  # it raises where it finds nothing
        names: dict[str, object] = {}
        exec(answer, names)
        found[kind] = names["f"](*arguments)  # type: ignore[operator]
    return found


def test_each_kind_of_nothing_is_returned_for_an_array() -> None:
    import numpy as np

    x = np.array([1.0, -2.0])
    found = returned("def f(n, x):\n    return x * n", 3, x)
    assert found["None"] is None
    assert np.isnan(found["NaN"]).all()
    assert np.array_equal(found["zeros"], [0.0, 0.0])
    assert found["an input unchanged"] is x
    assert found["the first argument"] == 3
    assert np.shape(found["chance"]) == (2,)
    assert (found["one"], found["True"], found["False"], found["an empty list"]) == (
        1, True, False, [],
    )  # fmt: skip


def test_methods_lose_self_and_constructors_do_nothing() -> None:
    found = answers("class A:\n    def __init__(self, x):\n        self.x = x\n"
                    "    def get(self, y):\n        return y")  # fmt: skip
    assert "pass" in found["the first argument"]
    assert "return y" in found["the first argument"]
    assert "self.x" not in found["None"]


def test_a_generator_yields_once() -> None:
    found = answers("def f(x):\n    yield x\n    yield x")
    assert found["None"] == "def f(x):\n    yield None"


def test_code_that_is_given_stays() -> None:
    text = "def helper(x):\n    return x\n\ndef f(x):\n    return x + 1"
    assert all("def helper(x):\n    return x" in a for a in answers(text, frozenset({5})).values())


def test_a_variable_takes_each_trivial_value_but_the_right_one() -> None:
    found = answers("y = 2 - 1")
    assert "the value 1" not in found
    assert found["the value 0"] == "y = 0"
    assert "the value True" not in found  # which equals 1


def test_text_that_is_no_python_has_none() -> None:
    assert answers("def f(") == {}


def test_audit_says_which_check_pays_for_nothing(lab_copy) -> None:
    lax = (
        '@check("sum_rows")\n',
        '@check("sum_rows")\ndef nothing_is_negative(student, rng):\n    """no sum is negative"""\n'
        '    if np.any(student.call("sum_rows", np.ones((2, 3))) < 0):\n'
        '        raise Feedback("negative")\n\n\n@check("sum_rows")\n',
    )
    imports = ("from autograder.checks", "import numpy as np\nfrom autograder.checks")
    paid = audit(load_lab(lab_copy(checks=(imports, lax))), jobs=1)["paid"]
    assert {"question": "sum_rows", "answer": "zeros", "check": "nothing_is_negative"} in paid
    assert {found["check"] for found in paid} == {"nothing_is_negative"}


def test_a_requirement_ends_the_payment(lab_copy) -> None:
    lax = (
        '@check("sum_rows")\n',
        '@check("sum_rows", requires="rows_are_added")\ndef anything(student, rng):\n'
        '    """anything"""\n    student.source("sum_rows")\n\n\n@check("sum_rows")\n',
    )
    assert audit(load_lab(lab_copy(checks=(lax,))), jobs=1)["paid"] == []


def test_the_sample_lab_pays_nothing(sample_directory: Path) -> None:
    assert audit(load_lab(sample_directory), jobs=1)["paid"] == []


@pytest.mark.parametrize(
    "held",
    [
        "x.sum(axis=0)",
        "x.sum(axis=0)[::-1]",
        "{'due': x.sum(axis=0)}",
        "SimpleNamespace(y=x.sum(0))",
    ],
)
def test_a_probe_that_holds_what_it_asks_for_pays_a_thief(lab_copy, held: str) -> None:
    careless = (
        '@check("sum_rows")\n',
        "def beside(x):\n    from types import SimpleNamespace\n\n"
        f"    due = {held}\n    return sum_rows(x) if due is not None else due\n\n\n"
        '@check("sum_rows")\ndef sums_are_right(student, rng):\n    """sums are right"""\n'
        "    x = rng.normal(size=(4, 3))\n"
        '    close(student.probe(beside, x=x), x.sum(axis=0), called="sum_rows(x)")\n\n\n'
        '@check("sum_rows")\n',
    )
    lab = load_lab(lab_copy(checks=(careless,)))
    with Trials(lab, jobs=1) as trials:
        paid = find_unearned_points(lab, trials, kinds=[THEFT])
    assert {found["check"] for found in paid} == {"sums_are_right"}


@pytest.mark.parametrize(
    ("held", "paid"),
    [
        ("lambda due=x.sum(axis=0): lambda: due", {"sums_are_right"}),  # in a cell of a closure
        ("lambda: [x.sum(axis=0), [x]]", {"sums_are_right"}),
        ("lambda: [x.sum(axis=0) + 1, [x]]", set()),
    ],
)
def test_what_only_the_garbage_collector_knows_pays_a_thief(lab_copy, held, paid) -> None:
    careless = (
        '@check("sum_rows")\n',
        "def beside(x):\n    def hold():\n        kept = []\n        kept.append(kept)\n"
        f"        kept.append(({held})())\n\n    hold()\n    return sum_rows(x)\n\n\n"
        '@check("sum_rows")\ndef sums_are_right(student, rng):\n    """sums are right"""\n'
        "    x = rng.normal(size=(4, 3))\n    right = [x.sum(axis=0)]\n"
        '    close(student.probe(beside, x=x), right[0], called="sum_rows(x)")\n\n\n'
        '@check("sum_rows")\n',
    )
    lab = load_lab(lab_copy(checks=(careless,)))
    with Trials(lab, jobs=1) as trials:
        found = find_unearned_points(lab, trials, kinds=[THEFT])
    assert {each["check"] for each in found} == paid


def test_a_thief_finds_nothing_of_the_judge(sample_directory: Path) -> None:
    """Checks hold what they expect, but in frames behind the probe, where no answer can look."""
    lab = load_lab(sample_directory)
    with Trials(lab, jobs=1) as trials:
        assert find_unearned_points(lab, trials, kinds=[THEFT]) == []


def test_the_thief_with_the_solution_inside_passes_on_whatever_it_is_given() -> None:
    text = "class A:\n    def f(self, a, /, b=2, *more, c, **rest):\n        yield a\n"
    thief = answers(text)[THEFT]
    names: dict[str, Any] = {}
    exec(thief, names)
    assert "list(f(self, a, b, *more, c=c, **rest))" in thief
    with pytest.raises(LookupError, match="nothing in the process equals it"):
        list(names["A"]().f(1.5, c=3))
