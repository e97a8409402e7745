"""All labs solved in order from what is released: only the answer regions are copied in.

The notebooks run beside each other in one working folder; the checks in them are content, and so
is the judge. One runs under `pytest --nbval-lax` in a kernel, all of them with WIDE=1; the others
in a warm shell, for to import takes longer than to run.
"""

import importlib
import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.regions import parts_of
from autograder.grading.report import to_text
from autograder.grading.submission import read
from autograder.records import Lab
from autograder.service.running.handout import hand_out
from tests.labs.conftest import in_small

IN_A_KERNEL = ("16_at_scale",)  # a short one of ranks; the starter in a kernel has none


@pytest.fixture(scope="module")
def labs_solved() -> ModuleType:
    return importlib.import_module("scripts.solve_labs")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all labs, so that later ones find what was written in earlier ones."""
    return tmp_path_factory.mktemp("work")


@pytest.mark.slow
@pytest.mark.sandbox
def test_a_lab_is_solved_by_its_answer_regions_alone(
    lab: Lab, labs_solved: ModuleType, work: Path, shells: Callable[..., dict[str, Any]]
) -> None:
    notebook = labs_solved.solve(lab, work)
    assert read(notebook.read_bytes()).cells == read(solution_notebook(lab).encode()).cells
    if lab.name in IN_A_KERNEL or os.environ.get("WIDE"):
        ran = labs_solved.run(notebook)
        assert ran.returncode == 0, ran.stdout[-4000:]
    else:
        cells = json.loads(notebook.read_bytes())["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        assert shells(in_small(lab, code), notebook.parent)["errors"] == []
    here = labs_solved.progress_of(notebook)
    assert (here.correct, here.problem) == (here.questions, "")
    report = labs_solved.grade(lab, notebook)
    assert report.score == report.max_score, to_text(report)


def plain(text: str) -> list[str]:
    """Return the lines of a text without blanks, comments and what JSON puts around them."""
    lines = [line.strip().rstrip(",").strip('"').removesuffix("\\n") for line in text.splitlines()]
    bare = [re.sub(r"\s+", "", line.split("#")[0]).replace('\\"', '"') for line in lines]
    return [line for line in bare if len(line) > 6]


def passages(lab: Lab) -> Iterator[tuple[str, str]]:
    """Yield each two lines of the solution that follow each other, and that nothing given has."""
    parts = [part for cell in lab.cells for part in parts_of(cell, lab.directory)]
    given = {p for part in parts if not part.region for p in pairwise(plain("\n".join(part.lines)))}
    for part in parts:
        if part.region == "SOLUTION":
            yield from set(pairwise(plain("\n".join(part.lines)))) - given


def test_no_released_file_holds_a_passage_of_the_solution(lab: Lab, tmp_path: Path) -> None:
    assert hand_out([lab.directory], tmp_path) == []
    solution = set(passages(lab))
    for path in (p for p in tmp_path.rglob("*") if p.suffix in (".py", ".ipynb", ".json", ".md")):
        found = solution & set(pairwise(plain(path.read_text(encoding="utf-8"))))
        assert not found, f"{path.name} gives away {found}"


def test_the_search_for_passages_finds_one_that_is_there(lab: Lab) -> None:
    assert set(passages(lab)) & set(pairwise(plain(solution_notebook(lab))))
