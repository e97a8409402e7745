"""The course server's pages in a real browser: wide and narrow, light and dark, by keyboard."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.policy import Rules
from autograder.service.server import Server, opened
from autograder.service.settings import Settings

ROOT = Path(__file__).parents[2]
LONG = "got " + "0123456789" * 30 + ", expected something else"

pytestmark = pytest.mark.browser


class Bench:
    """A grader that finds everything right, once its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def grade(self, lab: str, notebook: bytes) -> Report:
        self.gate.wait()
        return report(lab, right=True)

    def close(self) -> None:
        self.gate.set()


def report(lab: str, *, right: bool) -> Report:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    result = CheckResult(
        "twice", "scale", outcome, 4.0 * right, 4.0, "" if right else LONG, title="it is doubled"
    )
    answer = ManualAnswer("why", 2.0, "Names the unit; gives a reason", "Because " * 40)
    return Report(lab, (result,), manual=(answer,), title="Scale and sum").with_totals()


@contextmanager
def serving(folder: Path, bench: Bench) -> Iterator[Server]:
    labs = folder / "labs"
    for name in ("01_first", "02_a_lab_with_a_long_name"):
        (labs / name).mkdir(parents=True)
        (labs / name / "lab.py").write_text("")
        (labs / name / "checks.py").write_text("")
    with opened(Settings(data=folder / "data", labs=labs, port=0), lambda: bench) as server:
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            yield server
        finally:
            server.stop()
            thread.join()


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, bench: Bench) -> Iterator[Server]:
    """Return a course of sixty learners, three of whom have submitted; nothing is graded yet."""
    with serving(tmp_path_factory.mktemp("course"), bench) as found:
        course = found.course
        staff = course.roster.find("instructor")
        assert staff
        lines = "".join(f"learner{n:02d},Learner Number {n},{'AB'[n % 2]}\n" for n in range(60))
        course.take_roster(f"login,name,section\n{lines}".encode(), staff, dry_run=False)
        rules = Rules(due="2031-02-28T23:59:00+01:00", penalty_per_day=0.1, attempts=5)
        course.dates.set_rules("01_first", rules, staff)
        yield found


@pytest.fixture(scope="module")
def marked(server: Server, bench: Bench) -> Server:
    """Let three learners have submissions that are graded, and a batch that is ready."""
    course = server.course
    store = course.ledger
    for person in course.roster.learners()[:3]:
        number = store.add(person, "01_first", json.dumps({"of": person.login}).encode()).id
        claim = course.claims.claim("test", 600)
        assert claim and claim.id == number
        course.claims.finish(number, "test", report("01_first", right=False))
    staff = course.roster.find("instructor")
    assert staff
    course.regrades.start("01_first", None, staff)
    while claim := course.claims.claim("test", 600):
        course.claims.finish(claim.id, "test", report("01_first", right=True))
    return server


# What a widget owes to the page around it, and a page to nobody.
OF_WIDGETS = ("name of the whole", "what it says now")

STAFF_PAGES = (
    *("/gradebook", "/gradebook?search=09", "/learners/learner01", "/queue", "/labs"),
    *("/labs/01_first/numbers", "/regrades/1", "/grading", "/grading/01_first/why", "/audit"),
    *("/labs/01_first/similarity", "/labs/01_first/similarity/scale?left=1&right=2"),
    *("/submissions", "/submissions/1", "/submissions/1?as=learner", "/sessions"),
)
LEARNERS_PAGES = ("/submissions", "/submissions/1", "/labs", "/sessions")


def logged_in(visit: Any, server: Server, login: str, **options: Any) -> Any:
    """Return a page on which this person is logged in."""
    person = server.course.roster.find(login)
    assert person
    code = server.course.roster.give_token(person, "code", lives_s=600)
    page = visit(**options).open(f"{server.url}/enter?code={code}&next=/sessions")
    button = page.get_by_role("button", name="Continue as")
    if button.count():
        button.click()
    page.wait_for_selector("h1")
    return page


ALSO = pytest.mark.wide  # contrast is the colours', fit the width's: each is seen once without it


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        *((390, "dark"), (1440, "light")),
        *(pytest.param(390, "light", marks=ALSO), pytest.param(1440, "dark", marks=ALSO)),
    ],
)
@pytest.mark.parametrize(
    ("login", "paths"), [("instructor", STAFF_PAGES), ("learner00", LEARNERS_PAGES)]
)
def test_every_page_holds_the_rules_and_fits(
    marked: Server, visit: Any, audit: Any, login: str, paths: Any, width: int, scheme: str
) -> None:
    page = logged_in(visit, marked, login, color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    problems = []
    for path in paths:
        assert page.goto(marked.url + path).status == 200, path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        problems += [f"{path}: {problem}" for problem in audit(page, "main")]
    problems = [p for p in problems if not any(rule in p for rule in OF_WIDGETS)]
    assert problems == []


def test_the_gradebook_has_few_stops_and_names_that_stay(marked: Server, visit: Any) -> None:
    page = logged_in(visit, marked, "instructor")
    page.goto(f"{marked.url}/gradebook")
    stops = "a[href]:not([tabindex='-1']), button, input, select, [tabindex='0']"
    assert page.locator(f"main {stops.replace(', ', ', main ')}").count() < 80
    box = page.locator(".tall")
    head, name = page.locator("thead th").first, page.locator("tbody th").first
    top, left = head.bounding_box()["y"], name.bounding_box()["x"]
    box.evaluate("(node) => { node.scrollTop = 400; node.scrollLeft = 60 }")
    assert box.evaluate("(node) => node.scrollTop") > 0
    assert head.bounding_box()["y"] == top
    assert name.bounding_box()["x"] == left


def test_answers_are_marked_by_keyboard_alone_and_without_names(marked: Server, visit: Any) -> None:
    page = logged_in(visit, marked, "instructor")
    page.goto(f"{marked.url}/grading/01_first/why")
    assert "learner0" not in page.locator("main").inner_text().lower()
    for points in (2, 1.5, 0):  # the field has the focus
        page.wait_for_function("document.activeElement.id === 'points'")
        before = page.url
        page.keyboard.type(str(points))
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url, before=before: url != before)
    page.wait_for_url(f"{marked.url}/grading")
    reports = [marked.course.ledger.report(number) for number in (1, 2, 3)]
    assert [r.manual[0].score for r in reports if r] == [2, 1.5, 0]
    page.goto(f"{marked.url}/grading/01_first/why?at=1")
    page.locator("h1").click()
    page.keyboard.press("n")
    page.wait_for_url("**at=2")
    page.locator("h1").click()
    page.keyboard.press("p")
    page.wait_for_url("**at=1")


def test_what_a_batch_changes_is_seen_before_it_is_published(marked: Server, visit: Any) -> None:
    page = logged_in(visit, marked, "instructor")
    page.goto(f"{marked.url}/regrades/1")
    assert page.locator("tbody tr").count() == 3
    page.get_by_role("button", name="Publish").click()
    page.locator(".badge", has_text="published").wait_for()
    entry = marked.course.ledger.get(1)
    assert entry and entry.raw_score and entry.raw_score >= 4


def test_a_notebook_is_handed_in_and_its_grade_appears_without_a_reload(
    server: Server, bench: Bench, visit: Any, tmp_path: Path
) -> None:
    notebook = tmp_path / "lab.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}))
    page = logged_in(visit, server, "learner30")
    page.goto(f"{server.url}/labs")
    assert "Fri 28 Feb 2031, 23:59 UTC+01:00" in page.locator("main").inner_text()
    page.get_by_label("Notebook for 01_first").set_input_files(notebook)
    page.get_by_role("button", name="Hand in").first.click()
    page.wait_for_selector("text=Being graded")
    page.evaluate("window.stayed = true")
    bench.gate.set()
    page.wait_for_selector("text=4 of 6 points")
    assert page.evaluate("window.stayed")
    assert "4 of 6" in page.locator("#said").inner_text()
