"""The table of labs on the page where learners arrive, made from the labs that are there.

`builds`, `needs` and `audience` stand on a lab's first cell; the minutes are those that its text
says. The table takes the place between two comments of README.md beside the labs; a page without
them is left alone.
"""

import re
from collections.abc import Sequence

from autograder.authoring.manifest import NOTEBOOK
from autograder.errors import LabError
from autograder.records import Lab

PAGE = "README.md"
BEGIN, END = "<!-- labs: made by autograder release --in-place -->", "<!-- end of labs -->"
AUDIENCES = {"cpu": "CPU", "gpu": "CPU; GPU if there", "optional": "optional"}
_BUILDS = re.compile(r"\*\*You build\*\* ([^.:;]+)")
_MINUTES = re.compile(r"about (\d+) minutes")


def with_table(page: str, labs: Sequence[Lab]) -> str:
    """Return the text of a page with the table of `labs` in its place."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        return page
    return f"{before}{BEGIN}\n\n{table(labs)}\n\n{END}{after}"


def table(labs: Sequence[Lab]) -> str:
    """Return a row a lab: its title, what one builds and needs, what it runs on, the minutes."""
    rows = ["| lab | you build | you need | runs on | minutes |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *map(_row, labs)])


def _row(lab: Lab) -> str:
    first = lab.cells[0]
    about = first.attributes
    built, minutes = _BUILDS.search(first.text), _MINUTES.search(first.text)
    title = lab.title.removeprefix("Lab ").replace(": ", " ", 1)
    cells = (
        f"[{title}]({lab.name}/{NOTEBOOK})",
        about.get("builds") or (built[1] if built else ""),
        about.get("needs", ""),
        audience(lab),
        minutes[1] if minutes else "",
    )
    return f"| {' | '.join(cells)} |"


def audience(lab: Lab) -> str:
    """Return what a lab runs on and whether it is optional, in words.

    Raises:
        LabError: one of its tags is not known.
    """
    tags = lab.audience.split()
    wrong = [tag for tag in tags if tag not in AUDIENCES]
    if wrong:
        expected = ", ".join(AUDIENCES)
        raise LabError(f"{lab.name}: audience: got {wrong[0]!r}, expected some of {expected}.")
    named = tags if {"cpu", "gpu"} & set(tags) else ["cpu", *tags]
    return ", ".join(AUDIENCES[tag] for tag in named)
