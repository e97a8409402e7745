"""Mutants: what is mutated, what is not, and what the checks of the sample lab catch."""

import ast

import pytest

from autograder.audit.audit import audit
from autograder.audit.mutation import mutants_of
from autograder.authoring.source import load_lab
from autograder.errors import LabError


def after(text: str) -> set[str]:
    return {mutant.after for mutant in mutants_of(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = a + b", {"y = a - b", "y = (a + b) * 1.0005"}),
        ("y = a - b", {"y = a + b", "y = b - a", "y = (a - b) * 1.0005"}),
        ("y = a @ b", {"y = a * b", "y = b @ a", "y = a @ b * 1.0005"}),
        ("y = a // b", {"y = a * b"}),
        ("y += a * b", {"y -= a * b", "y += a / b", "y += a * b * 1.0005"}),
        ("y = [a * b for b in c]", {"y = [a / b for b in c]", "y = [a * b * 1.0005 for b in c]"}),
        ("y += a", {"y -= a"}),
        ("y = a < b", {"y = a <= b"}),
        ("y = a and b", {"y = a or b"}),
        ("y = -a", {"y = +a"}),
        ("y = 3", {"y = 4"}),
        ("y = True", {"y = False"}),
        ("y = a[i:]", {"y = a[i + 1:]"}),
        ("y = range(n)", {"y = range(n - 1)"}),
        ("y = f(a, b)", {"y = f(b, a)"}),
        ("y = a if c else b", {"y = a if not c else b"}),
        ("def f(a):\n    return a", {"return None", "return float('nan')", "return a * 1.0005"}),
        (
            "def f(a):\n    return a == 2",
            {"return None", "return float('nan')", "return a != 2", "return a == 3"},
        ),
        (
            "def f(a, b):\n    return a * b",
            {
                *("return None", "return float('nan')", "return a / b"),
                *("return a * b * 1.0005", "return a * b * 0.95"),
            },
        ),
        (
            "def f(a):\n    return a, -a * a",
            {
                *("return None", "return (float('nan'), float('nan'))"),
                *("return (a, -a / a)", "return (a, +a * a)", "return (a, -a * a * 1.0005)"),
            },
        ),
    ],
)
def test_the_mistakes_that_learners_make(text: str, expected: set[str]) -> None:
    assert after(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""doc 1 + 1"""',
        "raise ValueError(f'{a + 1}')",
        "print(a + 1, b)",
        "y = f'{a:3}'",
        "y = f(timeout_s=3)",
        "def f(a: 'x' = None) -> 3: ...",
        "y = np.maximum(a, b)",
        "y = f(a, a)",
        "this is no python",
    ],
)
def test_what_changes_no_answer_is_left_alone(text: str) -> None:
    assert not after(text)


def test_every_mutant_parses_and_differs() -> None:
    text = (
        "def f(a, n):\n    if not a:\n        return 0\n    return [a[i] ** 2 for i in range(1, n)]"
    )
    found = [m.text for m in mutants_of(text)]
    assert len(found) == len(set(found)) > 8
    assert all(ast.dump(ast.parse(m)) != ast.dump(ast.parse(text)) for m in found)


def test_only_the_named_lines_are_mutated() -> None:
    assert {m.line for m in mutants_of("a = 1\nb = 2\nc = 3", frozenset({2}))} == {2}


def test_a_weak_check_lets_mutants_survive_and_they_are_named(lab_copy) -> None:
    weak = [("    close(got, x.sum(axis=0)", "    close(got, got")]
    found = audit(load_lab(lab_copy(checks=weak)))
    assert found["killed"] < found["mutants"]
    assert {s["question"] for s in found["survivors"]} == {"sum_rows"}
    assert "return total * 1.0005" in [s["after"] for s in found["survivors"]]


def test_a_tolerance_of_ten_percent_costs_the_goal(lab_copy) -> None:
    """The goal is 98 of 100; with such a tolerance every factor near 1 survives."""
    wide = [("    close(got, x.sum(axis=0)", "    close(got, x.sum(axis=0), rtol=0.1")]
    loose = audit(load_lab(lab_copy(checks=wide)))
    assert "return total * 1.0005" in [survivor["after"] for survivor in loose["survivors"]]
    assert loose["killed"] < 0.98 * loose["mutants"]


def test_a_solution_that_fails_cannot_be_audited(lab_copy) -> None:
    lab = load_lab(lab_copy(lab=[("return x * factor", "return x")]))
    with pytest.raises(LabError, match="the solution fails its own checks"):
        audit(lab)
