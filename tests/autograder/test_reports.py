"""Reports for people and machines; nothing of the learner's text acts in them."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from autograder.grading.report import (
    from_gradescope,
    to_gradescope,
    to_html,
    to_json,
    to_text,
)
from autograder.printable import printable
from autograder.records import CheckResult, ManualAnswer, Outcome, Report, RubricItem
from tests.pages import contrast

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> & \" ' \x1b[31mred\x1b[0m"
    " \u202egnp.exe \x00\x07 \x1b]8;;http://evil\x07link\x1b]8;;\x07 \ud800 ]]> %s {0} $title"
)


RUBRIC = (RubricItem(1.5, "Names it"), RubricItem(0.5, "Says why"))


@pytest.fixture
def report() -> Report:
    result = CheckResult(HOSTILE, HOSTILE, Outcome.INCORRECT, 0.0, 2.0, HOSTILE, title=HOSTILE)
    right = CheckResult("b", "q", Outcome.CORRECT, 1.5, 1.5, hidden=True, detail="secret 42")
    blank = CheckResult("c", "q", Outcome.NOT_ATTEMPTED, 0.0, 1.0)
    return Report(
        lab="lab",
        results=(result, right, blank),
        manual=(ManualAnswer("why", 2.0, RUBRIC, HOSTILE), ManualAnswer("how", 1.0, (), "")),
        notes=(HOSTILE,),
        error=HOSTILE,
        title=HOSTILE,
        submission=HOSTILE,
        sandbox="unsandboxed",
        seed="7",
    ).with_totals()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_page_has_no_script_no_request_and_a_policy(report: Report) -> None:
    page = to_html(report)
    tags = Tags()
    tags.feed(page)
    assert not {tag for tag, _ in tags.seen} & {"script", "img", "link", "iframe", "a", "form"}
    attributes = {name for _, found in tags.seen for name in found}
    assert not [name for name in attributes if name.startswith("on") or name in ("src", "href")]
    policies = [found["content"] for _, found in tags.seen if "http-equiv" in found]
    assert policies[0].startswith("default-src 'none';")
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "\x00" not in page
    page.encode("utf-8")


def test_text_has_contrast_of_4_5_to_1_in_both_themes(report: Report) -> None:
    themes = re.findall(r":root \{([^}]*--ground[^}]*)\}", to_html(report))
    assert len(themes) == 2
    for theme in themes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", theme))
        for name in ("text", "quiet", "ok", "bad", "none"):
            assert contrast(colours[name], colours["ground"]) >= 4.5


def test_the_json_is_a_superset_of_gradescopes(report: Report) -> None:
    found = json.loads(to_json(report))
    assert (found["score"], found["max_score"]) == (1.5, 4.5)
    assert [t["outcome"] for t in found["tests"]] == ["incorrect", "correct", "not attempted"]
    assert [t["status"] for t in found["tests"]] == ["failed", "passed", "failed"]
    for test in found["tests"]:
        assert test.keys() >= {"name", "score", "max_score", "status", "output", "outcome"}


def test_what_is_for_staff_is_not_in_what_learners_get(report: Report) -> None:
    for text in (to_json(report), to_html(report), to_text(report)):
        assert "secret 42" not in text
    assert "seed" not in to_gradescope(report)
    assert "secret 42" in to_json(report, staff=True)


def test_the_json_can_be_read_back(report: Report) -> None:
    back = from_gradescope(json.loads(to_json(report, staff=True)))
    assert back == report


def test_the_terminal_text_has_a_line_a_check_and_no_control_characters(report: Report) -> None:
    text = to_text(report)
    assert text.count("\n") >= 6
    assert "1.5 of 4.5 points" in text
    assert "unsandboxed" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)
    assert "\x1b[32m" in to_text(report, colour=True)


def test_what_quotes_a_learner_has_no_lines_of_its_own_on_the_terminal(report: Report) -> None:
    forged = "  9 of 9 points"
    quoting = replace(report, error=f"archive: a\n{forged}", notes=(f"Cell 1 stopped:\n{forged}",))
    assert forged not in to_text(quoting).splitlines()


def test_a_manual_score_counts_once_it_is_given(report: Report) -> None:
    from dataclasses import replace

    graded = replace(report, manual=(ManualAnswer("why", 2.0, "", "text", score=1.0),))
    assert (graded.with_totals().score, graded.with_totals().max_score) == (2.5, 6.5)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ✓ ü\n\ttext", "plain ✓ ü\n\ttext"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("a\u202eb\u2066c\u200bd", "abcd"),
        ("a\x00b\x08c\x7f", "abc"),
        ("\ud800", ""),
        ("\x1b", ""),
    ],
)
def test_only_what_prints_is_printed(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_long_text_is_cut_in_the_middle() -> None:
    text = printable("a" * 10_000 + "b" * 10_000, 100)
    assert text.startswith("a" * 50)
    assert text.endswith("b" * 50)
    assert "19900 characters left out" in text
