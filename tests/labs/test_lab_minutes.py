"""The minutes that a lab says at its top: its parts add up to them, and they are those counted.

What a lab takes is counted from its source, at rates which were chosen once and are the same for
all: a learner who reads, writes, predicts, checks and reflects, and does not hurry.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from autograder.authoring.regions import learner_text, parts_of
from autograder.authoring.source import find_labs, load_lab
from autograder.records import Cell, Lab

LABS = Path(__file__).parents[2] / "labs"
WORDS_A_MINUTE = 200
LINE_MIN = 0.75  # to write a line of an answer: to think, to try, to mend
STUB_MIN = 1.5  # to read what is asked, and to check it
PREDICTION_MIN, REFLECTION_MIN, DISCUSSION_MIN = 0.75, 1.0, 10.0
LINES_READ, LINES_SKIPPED = 30, 200  # of code, a minute
ROUNDING, STEP = 1.01, 5  # minutes are said in fives

OPTIONAL = "(optional)"
ANOTHER_DAY = "reading_note"  # the question, with its paper
SAID = re.compile(r"about (\d+) minutes(?::([^.]*)\.)?")


def sections(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the cells by section; what comes before the first is one too."""
    found: list[list[Cell]] = [[]]
    for cell in cells:
        if cell.kind == "markdown" and re.match(r"## \w", cell.text.lstrip()):
            found.append([])
        found[-1].append(cell)
    return found


def minutes(lab: Lab) -> float:
    """Return the minutes that a lab's required sections take, counted."""
    cells = [cell for cell in lab.cells if cell.attributes.get("question") != ANOTHER_DAY]
    taken = [part for part in sections(cells) if not is_optional(part)]
    return sum(text_minutes(lab, part) + code_minutes(lab, part) for part in taken)


def is_optional(section: Sequence[Cell]) -> bool:
    return OPTIONAL in section[0].text.lstrip().partition("\n")[0]


def text_minutes(lab: Lab, section: Sequence[Cell]) -> float:
    texts = [learner_text(cell, lab.directory) for cell in section if cell.kind == "markdown"]
    texts = [re.sub(r"\]\(\S+\)", "]", text) for text in texts]
    whole = "\n".join(texts)
    manual = sum("manual" in cell.attributes for cell in section)
    words = len(re.findall(r"[\w']+", whole)) / WORDS_A_MINUTE
    asked = whole.count("**Predict") * PREDICTION_MIN + whole.count("**Reflect") * REFLECTION_MIN
    return words + asked + manual * DISCUSSION_MIN


def code_minutes(lab: Lab, section: Sequence[Cell]) -> float:
    total, rate = 0.0, LINES_READ
    for cell in section:
        if cell.kind == "markdown":
            rate = LINES_SKIPPED if "no reading" in cell.text else LINES_READ
        elif "question" in cell.attributes:
            total += STUB_MIN + solution_lines(lab, cell) * LINE_MIN
        elif not {"setup", "check"} & set(cell.tags):
            total += lines_of(learner_text(cell, lab.directory)) / rate
    return total


def solution_lines(lab: Lab, cell: Cell) -> int:
    parts = [part for part in parts_of(cell, lab.directory) if part.region == "SOLUTION"]
    return sum(lines_of("\n".join(part.lines)) for part in parts)


def lines_of(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def problem_with(said: str, required: int) -> str:
    """Return what is wrong with the parts of `said`, the line with a lab's minutes; or nothing.

    Parts are those to set out, of each of the `required` sections, and of the discussion.
    """
    found = SAID.search(said)
    if found is None or found[2] is None:
        return "" if found else "says no minutes"
    parts = [int(number) for number in re.findall(r"\d+", found[2])]
    if len(parts) != required + 2:
        return f"has {len(parts)} parts for {required} sections"
    return "" if sum(parts) == int(found[1]) else f"says {found[1]}, its parts are {sum(parts)}"


def test_the_parts_of_a_labs_time_add_up_to_the_whole(lab: Lab) -> None:
    headings = [part[0].text.lstrip() for part in sections(lab.cells) if not is_optional(part)]
    required = sum(bool(re.match(r"## \d", heading)) for heading in headings)
    assert problem_with(lab.cells[0].text, required) == ""


def agree(said: int, counted: float) -> bool:
    """Return whether the minutes said are enough, and no more than rounding to fives explains."""
    return said - STEP <= counted <= said * ROUNDING


def test_a_lab_takes_as_long_as_it_says(lab: Lab) -> None:
    said = SAID.search(lab.cells[0].text)
    assert said is not None
    assert agree(int(said[1]), minutes(lab))


def test_the_first_check_of_the_course_comes_within_ten_minutes() -> None:
    lab = load_lab(find_labs(LABS)[0])
    at = next(i for i, cell in enumerate(lab.cells) if "check" in cell.tags)
    until = sections(lab.cells[:at])
    assert sum(text_minutes(lab, part) + code_minutes(lab, part) for part in until) <= 10


@pytest.mark.parametrize(
    ("counted", "right"), [(114.0, False), (110.4, True), (106.0, True), (99.0, False)]
)
def test_minutes_that_are_not_enough_or_far_too_many_are_found(counted: float, right: bool) -> None:
    assert agree(110, counted) is right


def test_the_table_of_labs_says_the_same_minutes(lab: Lab) -> None:
    table = (lab.directory.parent / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in table.splitlines() if f"({lab.name}/lab.ipynb)" in line]
    said = SAID.search(lab.cells[0].text)
    assert said is not None
    assert row.rstrip("| ").endswith(f"| {said[1]}")


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("about 60 minutes: 5 to set out, 20 and 25 for both sections, 10 for the rest.", ""),
        ("about 60 minutes.", ""),
        ("an hour.", "says no minutes"),
        ("about 65 minutes: 5, 20, 25, 10.", "says 65, its parts are 60"),
        ("about 60 minutes: 5, 20, 10, 15, 10.", "has 5 parts for 2 sections"),
    ],
)
def test_parts_that_do_not_add_up_are_found(said: str, problem: str) -> None:
    assert problem_with(said, required=2) == problem


@pytest.mark.parametrize(
    ("heading", "optional"), [("## 6. More", False), ("## 6. More (optional)", True)]
)
def test_a_section_is_optional_if_its_heading_says_so(heading: str, optional: bool) -> None:
    assert is_optional([Cell("markdown", f"{heading}\n\ntext (optional)")]) is optional
