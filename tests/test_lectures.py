"""The table of what the lectures say: every place that it names is there, and has what it says."""

import functools
import json
import re
from pathlib import Path

import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.source import load_lab

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "lectures.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^|]+) \| ((?:lab|demo|doc|test) [^|]+) \| `([^|]+)` \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE)
LEAST = 225  # the lectures' ideas; some have two rows


@functools.cache
def text_of(place: str) -> str:
    """Return what a place holds, in one line: a learner's notebook, a demo, a page, a test.

    An idea that stands in the solution of an essay or in a rubric alone is seen by no learner.
    """
    kind, _, name = place.partition(" ")
    if kind == "lab":
        (folder,) = (ROOT / "labs").glob(f"{name}_*")
        lab = load_lab(folder)
        asked = (f'question="{cell.attributes.get("question")}"\n' for cell in lab.cells)
        cells = json.loads(learner_notebook(lab))["cells"]
        return plain("\n".join([*asked, *("".join(cell["source"]) for cell in cells)]))
    if kind == "demo":
        files = [*(ROOT / "labs" / "demos" / name).glob(f"{name}.*")]
        assert len(files) == 2, f"{place}: no notebook and page"
    else:
        files = [ROOT / {"doc": "docs", "test": "tests"}[kind] / name]
    return plain("\n".join(path.read_text(encoding="utf-8") for path in files))


def plain(text: str) -> str:
    """Return a text in one line, without the marks of a lab's text."""
    return " ".join(text.replace("\n# ", " ").split()).lower()


def test_every_line_of_the_tables_is_a_row_of_its_own() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    tables = PAGE.count("| idea | where |")
    assert len(ROWS) == len(lines) - 2 * tables >= LEAST
    ideas = [idea for idea, _, _ in ROWS]
    assert len(set(ideas)) == len(ideas)


@pytest.mark.parametrize(("idea", "where", "phrase"), ROWS, ids=[row[0] for row in ROWS])
def test_an_idea_is_where_the_table_says(idea: str, where: str, phrase: str) -> None:
    found = [text_of(place) for place in where.split(", ")]
    assert any(plain(phrase) in text for text in found), f"{idea}: {phrase!r} is not in {where}"
