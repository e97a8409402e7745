"""Answers that are alike, whatever their names and layout."""

import random
from pathlib import Path

import pytest

from autograder.grading.similarity import MANY, WINDOW, K, alike, pairs, prints
from autograder.records import Lab

ONE = '''
def sum_rows(x):
    """Sum."""
    total = 0
    for index in range(len(x)):
        row = x[index]
        if row is not None:
            total = total + row * 1.0
    return total
'''
RENAMED = """
def sum_rows(data):  # my own
    acc = 0
    for i in range(len(data)):
        r = data[i]
        if (r is not None):
            acc = acc + r * 1.0
    return (acc)
"""
OTHER = """
def sum_rows(x):
    first, *rest = x
    while rest:
        first = np.add(first, rest.pop())
    assert first.ndim == x.ndim - 1, "rows"
    return np.asarray(first, dtype=x.dtype).reshape(x.shape[1:])
"""


def test_renaming_and_layout_make_no_difference() -> None:
    assert prints(ONE) == prints(RENAMED)
    assert len(prints(ONE) & prints(OTHER)) < len(prints(OTHER)) / 4
    assert prints("def f(:") == frozenset() == prints("x = 1")


@pytest.mark.parametrize("seed", range(20))
def test_a_long_stretch_is_always_seen_and_a_short_one_never(seed: int) -> None:
    rng = random.Random(seed)

    def list_with(middle: list[int]) -> str:
        before, after = ([rng.randrange(10**9) for _ in range(rng.randrange(9))] for _ in range(2))
        return f"x = {[*before, *middle, *after]}"

    stretch = [rng.randrange(10**9) for _ in range(K)]  # each is followed by a comma
    long, short = stretch[: (K + WINDOW) // 2], stretch[: K // 2 - 1]
    assert prints(list_with(long)) & prints(list_with(long))
    assert not prints(list_with(short)) & prints(list_with(short))


def test_what_many_have_says_nothing() -> None:
    few = {str(n): {"q": prints(ONE)} for n in range(MANY)}
    assert len(pairs(few, 0.9)) == MANY * (MANY - 1) / 2
    assert pairs({**few, "one more": {"q": prints(ONE)}}, 0.9) == []


def test_what_the_lab_explains_says_nothing(sample_lab: Lab, notebook, tmp_path: Path) -> None:
    solution = sample_lab.question("sum_rows").solution
    paths = [tmp_path / name for name in ("ada.ipynb", "bob.ipynb")]
    for path, name in zip(paths, ("total", "summed"), strict=True):
        path.write_bytes(notebook([("code", solution.replace("x", name))]))
    assert alike(sample_lab.directory, paths, 0.0) == []


def test_pairs_are_named_and_starters_are_not(sample_lab: Lab, notebook, tmp_path: Path) -> None:
    starter = sample_lab.question("sum_rows").starter
    texts = {"ada": ONE, "bob": RENAMED, "cyd": OTHER, "dan": starter, "eve": starter}
    paths = [tmp_path / f"{name}.ipynb" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_bytes(notebook([("code", text)]))
    (line,) = alike(sample_lab.directory, [*paths, tmp_path / "none.ipynb"])
    assert line == f"alike 100%: sum_rows: {paths[0]} and {paths[1]}"
