"""Answers that are alike, whatever their names and layout."""

from pathlib import Path

from autograder.grading.similarity import alike, fingerprint, similarity
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
    assert similarity(fingerprint(ONE), fingerprint(RENAMED)) == 1.0
    assert similarity(fingerprint(ONE), fingerprint(OTHER)) < 0.6
    assert similarity(fingerprint("def f(:"), fingerprint(ONE)) == 0.0


def test_pairs_are_named_and_starters_are_not(sample_lab: Lab, notebook, tmp_path: Path) -> None:
    starter = sample_lab.question("sum_rows").starter
    texts = {"ada": ONE, "bob": RENAMED, "cyd": OTHER, "dan": starter, "eve": starter}
    paths = [tmp_path / f"{name}.ipynb" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_bytes(notebook([("code", text)]))
    (line,) = alike(sample_lab, [*paths, tmp_path / "none.ipynb"])
    assert line == f"alike 100%: sum_rows: {paths[0]} and {paths[1]}"
