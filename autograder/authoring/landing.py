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
AUDIENCES = {"cpu": "CPU", "gpu": "CPU; GPU if there", "optional": "(optional)"}
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
        ", ".join(_audience(lab, tag) for tag in about.get("audience", "cpu").split()),
        minutes[1] if minutes else "",
    )
    return f"| {' | '.join(cells)} |"


def _audience(lab: Lab, tag: str) -> str:
    if tag not in AUDIENCES:
        known = ", ".join(AUDIENCES)
        raise LabError(f"{lab.name}: audience: got {tag!r}, expected some of {known}.")
    return AUDIENCES[tag]
