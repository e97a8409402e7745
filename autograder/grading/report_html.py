"""A report as one page of HTML: escaped, with a content policy, no script, no request, both themes.

Text of the learner's stands in the page as text only. Colours keep a contrast of 4.5 to 1 on
both backgrounds; outcome is said in words too. The page is `templates/report.html.j2`.
"""

import functools
from typing import TYPE_CHECKING, Any

from autograder.printable import printable
from autograder.records import Outcome, Report

if TYPE_CHECKING:
    from jinja2 import Template

CLASSES = {Outcome.CORRECT: "ok", Outcome.INCORRECT: "bad", Outcome.NOT_ATTEMPTED: "none"}
LONGEST = 20_000  # characters of one text


def to_html(report: Report) -> str:
    """Return the whole page; everything that is not ours is escaped."""
    names = dict.fromkeys(result.question for result in report.results)
    questions = [(name, [r for r in report.results if r.question == name]) for name in names]
    notes = list(report.notes)
    if report.sandbox == "unsandboxed":
        notes.append("Unsandboxed: the code ran without a sandbox.")
    return _page().render(report=report, questions=questions, notes=notes, classes=CLASSES)


@functools.cache
def _page() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("autograder"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    pages.filters["points"] = number
    return pages.get_template("report.html.j2")


def _shown(value: Any) -> Any:
    return printable(value, LONGEST) if isinstance(value, str) else value


def number(value: float) -> str:
    """Return points as people read them."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
