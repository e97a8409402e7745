"""The course server's pages in a real browser: wide and narrow, light and dark, by keyboard."""

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from autograder.records import CheckResult, ManualAnswer, Outcome, Report, RubricItem
from autograder.service.database import schema
from autograder.service.errors import GraderUnable
from autograder.service.records.announcements import announce
from autograder.service.records.grades import course_rule, kept_comments
from autograder.service.records.grades.decisions import decide
from autograder.service.records.marking import assignments, marking
from autograder.service.records.marking.assignments import Assignment
from autograder.service.records.marks import alike_digest
from autograder.service.records.people import Person
from autograder.service.records.roster import roster, teams
from autograder.service.records.rules import Rules
from autograder.service.records.submissions.intake import keep_draft
from autograder.service.running.server import Server, open_server
from autograder.service.settings import Settings
from autograder.service.web.course import Course

FIRST, SECOND = "01_first", "02_a_lab_with_a_long_name"
RUBRIC = (RubricItem(1.5, "Names the unit"), RubricItem(0.5, "Gives a reason"))
LONG = "got " + "0123456789" * 30 + ", expected something else"

TITLE, OTHER_TITLE = "Scale and sum", "A lab whose title is long enough to be laid on two lines"
LAB = """# %% [markdown]
# # Scale and sum
# %% question="scale" points="4"
def scale(values, factor):
    ### BEGIN SOLUTION
    return [factor * value for value in values]
    ### END SOLUTION

# %% [markdown] question="why" points="2" manual="true" rubric1="2: Names the unit"
# Say **why**.
#
# ### BEGIN SOLUTION
# | unit | why |
# |---|---|
# | `cm` | The factor has no unit, so the values keep theirs. |
# ### END SOLUTION
"""
ANSWER = """def scale(values, factor):
    made = []
    for index, value in enumerate(values):
        if factor < 0 and index > 3:
            made.append(0)
        elif value is not None:
            made.append(value * factor + index - index)
    return tuple(made)
"""
PLATFORM = """[canvas]
issuer = "https://canvas.example"
client_id = "1"
deployments = ["1"]
authorization_url = "http://127.0.0.1:9/authorize"
token_url = "http://127.0.0.1:9/token"
jwks_url = "http://127.0.0.1:9/keys"
"""

pytestmark = pytest.mark.browser


class Bench:
    """A grader that finds everything right, once its gate is open; it cannot grade SECOND."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def grade(self, lab: str, notebook: bytes) -> Report:
        if lab == SECOND:
            raise GraderUnable("bubblewrap is not installed: sudo apt-get install bubblewrap")
        self.gate.wait()
        return report(lab, right=True)

    def close(self) -> None:
        self.gate.set()


def report(lab: str, *, right: bool, ratio: float | None = None) -> Report:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    result = CheckResult(
        "twice", "scale", outcome, 4.0 * right, 4.0, "" if right else LONG, title="it is doubled"
    )
    answer = ManualAnswer("why", 2.0, RUBRIC, "Because " * 40)
    results = (replace(result, ratio=ratio),)
    return Report(lab, results, manual=(answer,), title="Scale and sum").with_totals()


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, bench: Bench) -> Iterator[Server]:
    """Return a course with one of everything that a page can show (`fill`)."""
    folder = tmp_path_factory.mktemp("course")
    labs = folder / "labs"
    for name in (FIRST, SECOND):
        (labs / name).mkdir(parents=True)
        title = TITLE if name == FIRST else OTHER_TITLE
        (labs / name / "lab.py").write_text(LAB.replace(TITLE, title))
        (labs / name / "checks.py").write_text("")
    (folder / "lti.toml").write_text(PLATFORM)
    settings = Settings(
        data=folder / "data",
        labs=labs,
        port=0,
        jupyterhub="http://127.0.0.1:9",
        client_id="service-course",
        client_secret="secret",
        lti=folder / "lti.toml",
    )
    with open_server(settings, lambda: bench) as server:
        fill(server.course)  # before anybody grades
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            paused = threading.Event()
            while not server.course.queue.reasons():  # the grader finds that it cannot grade SECOND
                paused.wait(0.01)
            yield server
        finally:
            server.stop()
            thread.join()


def fill(course: Course) -> None:
    """Sixty learners, graded answers of three, a batch, places, drafts, what is parked and held."""
    staff = course.store.roster.find("instructor")
    assert staff
    lines = "".join(f"learner{n:02d},Learner Number {n},{'AB'[n % 2]}\n" for n in range(60))
    roster.take(course.edit(staff), f"login,name,section\n{lines}".encode(), dry_run=False)
    rules = Rules(due="2031-02-28T23:59:00+01:00", penalty_per_day=0.1, attempts=5)
    rules = replace(rules, requests_until="2131-03-31T23:59:00+02:00")
    course.store.dates.set_rules(FIRST, replace(rules, leaderboard=True), staff)
    first, *others = course.store.roster.learners()
    course.store.dates.extend(FIRST, first, "2031-03-07T23:59:00+01:00", staff)
    for person in (first, *others[:2]):
        hand_in(course, person, FIRST)
        claim = course.store.claims.claim("test", 600)
        assert claim
        course.store.claims.finish(claim.id, "test", report(FIRST, right=False))
    course.store.regrades.start(FIRST, None, staff)
    while claim := course.store.claims.claim("test", 600):
        course.store.claims.finish(claim.id, "test", report(FIRST, right=True))
    for ratio, person in zip((0.75, 0.75, 12.5), others[3:6], strict=True):
        hand_in(course, person, FIRST)
        claim = course.store.claims.claim("test", 600)
        assert claim
        course.store.claims.finish(claim.id, "test", report(FIRST, right=True, ratio=ratio))
    for person, question, text in ((first, "why", LONG), (others[3], "scale", "It is doubled.")):
        entry = course.store.submissions.all(person_id=person.id)[0]
        course.store.requests.say(entry, person, {"question": question, "text": text})
    answer = {"question": "scale", "text": "Half of it is.", "points": 2}
    course.store.requests.say(entry, staff, answer)
    mark_and_share(course, staff, entry.id)
    for person, decision in ((others[3], {"excused": True}), (others[9], {"points": 5})):
        decide(course.edit(staff), FIRST, person, decision)
    for text in ("**Exam** in *June*. " + LONG, "- one\n- two"):
        announce(course.edit(staff), {"text": text})
    lines = "".join(f"The {n % 3}th team,{p.login}\n" for n, p in enumerate(others[20:29]))
    how = {"find": course.store.roster.find, "dry_run": False}
    data = f"team,login\n{lines}".encode()
    teams.take(course.edit(staff), FIRST, data, **how)
    rule = {"drop_lowest": 1, "weights": {SECOND: 2.5}}
    course_rule.put(course.edit(staff), rule, course.catalog.names)
    hand_in(course, others[7], FIRST)
    claim = course.store.claims.claim("test", 600)
    assert claim
    course.store.claims.park(claim.id, "test", "grading ended 2 times without a result: " + LONG)
    hand_in(course, others[8], SECOND)
    with course.store.database.write() as connection:
        row = {"platform": "canvas", "person_id": first.id, "lab": FIRST, "tries": 3}
        late = {"not_before": time.time() + 3600, "problem": "the platform answers 503: " + LONG}
        connection.execute(schema.lti_outbox.insert().values(**row, **late))
        for person in (first, others[0]):
            why = "the lab closed on Fri 07 Mar 2031, 23:59 UTC+01:00"
            keep_draft(connection, person.id, SECOND, b"{}", time.time(), why)


def mark_and_share(course: Course, staff: Person, number: int) -> None:
    """Let two people mark an answer of the sample, share comments, and assign the rest."""
    store, edit = course.store, course.edit(staff)
    grace = store.roster.add("grace", "assistant", name="Grace")
    for item, text in ((RUBRIC[0].text, LONG), (RUBRIC[0].text, "Which unit?"), ("", "Good.")):
        kept_comments.keep(edit, FIRST, "why", item, text)
    for what in (Assignment(FIRST, "why", ""), Assignment("", "", "B")):
        assignments.assign(edit, grace, what, remove=False)
    store.second_marks.draw(FIRST, "why", 500, staff)
    store.submissions.mark(number, {"why": {"points": 2}}, grace)
    store.second_marks.give(number, "why", {"points": 0.5, "comment": LONG}, staff)


def hand_in(course: Course, person: Person, lab: str) -> None:
    cell = {"cell_type": "code", "source": ANSWER.replace("made", f"made_{person.login}")}
    course.store.submissions.add(person, lab, json.dumps({"cells": [cell]}).encode())


ALIKE = alike_digest("Because " * 40)

# What a widget owes to the page around it, and a page to nobody.
OF_WIDGETS = ("name of the whole", "what it says now")

STAFF_PAGES = (
    *(f"/labs/{FIRST}/leaderboard", "/submissions/7", "/submissions/8", "/nowhere"),
    *("/gradebook", "/gradebook?search=09", "/learners/learner01", "/queue", "/labs"),
    *("/labs/01_first/numbers", "/regrades/1", "/grading", "/grading/01_first/why", "/audit"),
    *("/labs/01_first/similarity", "/labs/01_first/similarity/scale?left=1&right=2"),
    *("/submissions", "/submissions/1", "/submissions/1?as=learner", "/sessions"),
    *("/rule", "/schedule", "/today", "/people", "/people?role=former", "/announcements"),
    *("/term",),
    *(f"/labs/{FIRST}/teams", "/grading/people"),
    *(
        f"/grading/01_first/why/{what}"
        for what in ("groups", "comments", "sample", f"groups/{ALIKE}")
    ),
    *("/requests", "/requests?answered=1&lab=01_first", "/submissions/4"),
)
LEARNERS_PAGES = (
    *("/submissions", "/submissions/1", "/labs", "/sessions", f"/labs/{FIRST}/leaderboard"),
    *("/standing", "/login", "/announcements"),
)


def logged_in(visit: Any, server: Server, login: str, **options: Any) -> Any:
    """Return a page on which this person is logged in."""
    person = server.course.store.roster.find(login)
    assert person
    code = server.course.store.roster.give_token(person, "code", lives_s=600)
    page = visit(**options).open(f"{server.url}/enter?code={code}&next=/sessions")
    button = page.get_by_role("button", name="Continue as")
    if button.count():
        button.click()
    page.wait_for_selector("h1")
    return page


VIOLATIONS = """axe.run({ resultTypes: ["violations"], reporter: "no-passes" })
  .then((found) => found.violations)"""


def axe(page: Any) -> list[str]:
    """Return what axe-core finds wrong with a page or a frame, however slight."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(f"{AXE_SCRIPT}; 0")
    found = page.evaluate(VIOLATIONS)  # alone: to say all that is right takes as long
    return [f"{v['id']}: {node['html'][:80]}" for v in found for node in v["nodes"]]


# Contrast is the colours', fit the width's: each is seen once without the others. The first is the
# one in which a page is gone through by Tab and by axe-core; pages take turns.
LOOKS = ((390, "dark"), (1440, "light"))
OTHER_LOOKS = ((390, "light"), (1440, "dark"))

# Who went through a page by Tab has the focus at its end, and boxes that are scrolled.
AS_OPENED = """document.activeElement.blur();
for (const node of document.querySelectorAll("*")) node.scrollLeft = node.scrollTop = 0
"""


def look_at(page: Any, audit: Any, path: str, looks: Any) -> list[str]:
    """Return what is wrong with a page that is open, in each width and scheme."""
    problems = []
    for width, scheme in looks:
        is_first = (width, scheme) == looks[0]
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.evaluate(AS_OPENED)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        found = [*audit(page, "main", keys=is_first), *(axe(page) if is_first else ())]
        problems += [f"{path}, {width}, {scheme}: {problem}" for problem in found]
    return problems


@pytest.mark.parametrize(
    "looks",
    [
        LOOKS,
        *(pytest.param(looks, marks=pytest.mark.wide) for looks in (LOOKS[::-1], OTHER_LOOKS)),
        pytest.param(OTHER_LOOKS[::-1], marks=pytest.mark.wide),
    ],
)
@pytest.mark.parametrize(
    ("login", "paths"), [("instructor", STAFF_PAGES), ("learner00", LEARNERS_PAGES)]
)
def test_every_page_holds_the_rules_and_fits(
    server: Server, visit: Any, audit: Any, login: str, paths: Any, looks: Any
) -> None:
    page = logged_in(visit, server, login)
    page.add_init_script(AXE_SCRIPT)  # half a megabyte: sent once, not with each page
    problems = []
    for number, path in enumerate(paths):
        assert page.goto(server.url + path).status == (404 if path == "/nowhere" else 200), path
        problems += look_at(page, audit, path, looks[:: (1, -1)[number % 2]])
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_that_lead_here_hold_the_rules(
    server: Server, visit: Any, audit: Any, scheme: str
) -> None:
    """A link that logs in, and a course that a platform has framed."""
    page = logged_in(visit, server, "learner00", color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 900})
    other = server.course.store.roster.find("learner01")
    assert other
    code = server.course.store.roster.give_token(other, "code", lives_s=600)
    page.goto(f"{server.url}/enter?code={code}&next=/labs")
    assert page.get_by_role("heading", name="Log in as").count() == 1
    problems = [*audit(page, "main"), *axe(page)]
    launch = f"{server.url}/lti/login?iss=https://canvas.example&login_hint=1"
    page = page.context.new_page()  # the platform's
    page.set_content(f'<iframe title="Course" src="{launch}" width="360" height="500"></iframe>')
    page.frame_locator("iframe").get_by_role("link", name="Open the course").wait_for()
    problems += axe(page.frames[1])
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_the_gradebook_has_few_stops_and_names_that_stay(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/gradebook")
    stops = "a[href]:not([tabindex='-1']), button, input, select, [tabindex='0']"
    assert page.locator(f"main {stops.replace(', ', ', main ')}").count() < 80
    box = page.locator(".tall")
    head, name = page.locator("thead th").first, page.locator("tbody th").first
    top, left = head.bounding_box()["y"], name.bounding_box()["x"]
    box.evaluate("(node) => { node.scrollTop = 400; node.scrollLeft = 60 }")
    assert box.evaluate("(node) => node.scrollTop") > 0
    assert head.bounding_box()["y"] == top
    assert name.bounding_box()["x"] == left


def test_answers_are_marked_by_keyboard_alone_and_without_names(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/grading/01_first/why")
    assert "learner0" not in page.locator("main").inner_text().lower()
    for points in (2, 1.5, 0, 1, 1):  # the field has the focus
        expect(page.locator("#points")).to_be_focused()
        before = page.url
        page.keyboard.type(str(points))
        page.keyboard.press("Enter")
        page.wait_for_url(lambda url, before=before: url != before)
    page.wait_for_url(f"{server.url}/grading")
    reports = [server.course.store.submissions.report(number) for number in (1, 2, 3)]
    assert [r.manual[0].score for r in reports if r] == [2, 1.5, 0]
    page.goto(f"{server.url}/grading/01_first/why?at=1")
    page.locator("h1").click()
    page.keyboard.press("n")
    page.wait_for_url("**at=2")
    page.locator("h1").click()
    page.keyboard.press("p")
    page.wait_for_url("**at=1")


def test_a_grade_is_asked_about_and_the_points_change(server: Server, visit: Any) -> None:
    hers = logged_in(visit, server, "learner02")
    hers.goto(f"{server.url}/submissions/3")
    hers.get_by_text("Ask for a re-grade of why").click()
    hers.get_by_label("What should be looked at again").last.fill("It names the unit.")
    hers.get_by_role("button", name="Send about why").click()
    hers.get_by_text("waits for staff").wait_for()
    theirs = logged_in(visit, server, "instructor")
    theirs.goto(f"{server.url}/requests")
    theirs.get_by_role("row", name="It names the unit.").get_by_role("link").click()
    theirs.get_by_label("Answer").fill("It does.")
    theirs.get_by_label("New points, 0 to 2").fill("1.5")
    theirs.get_by_role("button", name="Answer about why").click()
    theirs.get_by_text("answered").wait_for()
    hers.goto(f"{server.url}/submissions")
    hers.get_by_role("link", name=f"{TITLE}: why").click()
    assert "It does." in hers.locator(".thread").last.inner_text()
    assert "1.5 of 2" in hers.locator("main").inner_text()


def test_grades_are_held_back_and_a_page_that_waits_shows_the_release(
    server: Server, visit: Any, audit: Any
) -> None:
    theirs = logged_in(visit, server, "instructor")
    hers = logged_in(visit, server, "learner01")
    theirs.goto(f"{server.url}/schedule")
    theirs.get_by_role("button", name=f"Hold back the grades of {TITLE}").click()
    theirs.get_by_role("button", name=f"Release the grades of {TITLE}").wait_for()
    problems = []
    opened = (
        *((theirs, "/schedule"), (theirs, "/labs"), (theirs, "/submissions/2")),
        *((hers, "/labs"), (hers, "/submissions"), (hers, "/standing"), (hers, "/submissions/2")),
    )
    for number, (page, path) in enumerate(opened):
        page.goto(server.url + path)
        assert "held back" in page.locator("main").inner_text().lower(), path
        problems += look_at(page, audit, path, LOOKS[:: (1, -1)[number % 2]])
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []
    assert "points" not in hers.locator("main").inner_text()
    theirs.goto(f"{server.url}/schedule")
    theirs.get_by_role("button", name=f"Release the grades of {TITLE}").click()
    hers.locator("#grade").wait_for()
    assert "of 6 points" in hers.locator("#grade").inner_text()


def test_staff_arrive_at_what_waits(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/")
    page.wait_for_url("**/today")
    assert "bubblewrap is not installed" in page.get_by_role("alert").inner_text()
    assert "1 put aside" in page.locator("main").inner_text()
    page.get_by_role("link", name="To mark").click()
    page.wait_for_url("**/grading")


def test_a_learner_sees_what_is_missing(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "learner00")
    page.goto(f"{server.url}/labs")
    page.get_by_role("link", name="How I stand").click()
    row = page.get_by_role("row", name=TITLE)
    assert "handed in" in row.inner_text() and "of 6" in row.inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="My dates as a calendar file").click()
    text = Path(download.value.path()).read_text()
    assert text.startswith("BEGIN:VCALENDAR") and f"{TITLE} is due" in text


def test_a_schedule_is_looked_at_and_holds(server: Server, visit: Any, audit: Any) -> None:
    problems = []
    for width, scheme in ((390, "dark"), (1440, "light")):
        page = logged_in(visit, server, "instructor", color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(f"{server.url}/schedule")
        date = "2132-03-01T12:00:00+01:00"
        page.get_by_label("A line a lab").fill(f"lab,late_until\n{SECOND},{date}\n")
        page.get_by_role("button", name="Show what would change").click()
        page.get_by_text(f"{OTHER_TITLE}: late_until: –").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("th.title").last.bounding_box()["height"] < 170  # not a word a line
        problems += [*audit(page, "main"), *axe(page)]
    page.get_by_role("button", name="Let it hold").click()
    picker = page.get_by_label(f"{OTHER_TITLE}: late until")
    expect(picker).to_have_value("2132-03-01T11:00")
    assert server.course.store.dates.calendar().rules[SECOND].late_until == date
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_dates_are_picked_in_the_zone_of_the_browser(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor", timezone_id="America/St_Johns")
    rules = server.course.store.dates.calendar().rules
    page.goto(f"{server.url}/schedule")
    due = page.get_by_label(f"{TITLE}: due")
    assert due.get_attribute("type") == "datetime-local"
    assert due.input_value() == "2031-02-28T19:29"
    zone = due.locator("xpath=following-sibling::span").inner_text()
    assert zone == "UTC-03:30 America/St_Johns"
    late = page.get_by_label(f"{TITLE}: late until")
    late.focus()
    page.keyboard.press("Tab")  # to the day: what has the focus is a part of the field
    assert late.evaluate("(field) => getComputedStyle(field).outlineStyle") == "solid"
    late.fill("2031-07-01T08:15")
    page.get_by_role("button", name="Save the dates").click()
    page.wait_for_load_state()
    now = server.course.store.dates.calendar().rules
    until = "2031-07-01T08:15:00-02:30"
    assert now == {**rules, FIRST: replace(rules[FIRST], late_until=until)}  # the rest as it was
    page.goto(f"{server.url}/labs")
    page.get_by_text(f"Change the dates of {TITLE}").click()
    page.get_by_label("Late until").first.fill("")
    page.get_by_role("button", name="Save").first.click()
    page.wait_for_load_state()
    assert server.course.store.dates.calendar().rules == rules


def test_dates_are_written_where_there_are_no_scripts(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor", java_script_enabled=False)
    page.goto(f"{server.url}/learners/learner05")
    field = page.get_by_label(f"{TITLE}: new due date")
    field.fill("2031-03-05T12:00:00+01:00")
    field.locator("xpath=ancestor::form").get_by_role("button").click()
    page.get_by_text("Wed 05 Mar 2031, 12:00 UTC+01:00").wait_for()


def test_a_lab_is_excused_and_the_rule_said(server: Server, visit: Any) -> None:
    theirs = logged_in(visit, server, "instructor")
    theirs.goto(f"{server.url}/gradebook")
    theirs.get_by_role("link", name="Learner Number 6", exact=True).click()
    theirs.get_by_label("Lab", exact=True).select_option(label=TITLE)
    theirs.get_by_label("Points", exact=True).fill("4.5")
    theirs.get_by_role("button", name="Set the points").click()
    theirs.get_by_text("set by staff").wait_for()
    theirs.goto(f"{server.url}/rule")
    weight = theirs.get_by_label(TITLE)
    weight.fill("3")
    theirs.get_by_role("button", name="Let it hold").click()
    theirs.get_by_text(f"{TITLE} 3").wait_for()
    hers = logged_in(visit, server, "learner06")
    hers.goto(f"{server.url}/standing")
    assert "75.0 %" in hers.locator("main").inner_text()
    assert f"{TITLE} 3" in hers.locator("main").inner_text()


def test_an_announcement_is_written_and_read(server: Server, visit: Any, audit: Any) -> None:
    theirs = logged_in(visit, server, "instructor")
    theirs.goto(f"{server.url}/announcements")
    theirs.get_by_label("To learners, in Markdown").fill("The lab is **open** on Sunday.")
    theirs.get_by_label("Section").select_option("B")
    theirs.get_by_role("button", name="Look at it first").click()
    theirs.get_by_text("As learners will see it").wait_for()
    problems = [*audit(theirs, "main"), *axe(theirs)]
    theirs.get_by_role("button", name="Announce", exact=True).click()
    theirs.get_by_text("to B").wait_for()
    hers, his = (logged_in(visit, server, name) for name in ("learner01", "learner02"))
    for page, seen in ((hers, 1), (his, 0)):
        page.goto(f"{server.url}/")
        assert page.get_by_text("on Sunday").count() == seen
    card = hers.locator("section", has_text="on Sunday")
    problems += [*audit(hers, "main"), *axe(hers)]
    card.get_by_role("button").click()
    hers.wait_for_url("**/announcements")
    hers.goto(f"{server.url}/labs")
    assert hers.get_by_text("on Sunday").count() == 0
    assert hers.get_by_text("Exam").count() == 1
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_a_team_is_made_and_hands_in_once(
    server: Server, visit: Any, audit: Any, tmp_path: Path
) -> None:
    theirs = logged_in(visit, server, "instructor")
    theirs.goto(f"{server.url}/labs")
    theirs.get_by_role("link", name=f"Teams of {TITLE}").click()
    theirs.get_by_label("A line a member").fill("team,login\nReds,learner50\nReds,learner51\n")
    theirs.get_by_role("button", name="Show what would change").click()
    theirs.get_by_text("learner50: no team").wait_for()
    problems = [*audit(theirs, "main"), *axe(theirs)]
    theirs.get_by_role("button", name="Let it hold").click()
    theirs.get_by_role("row", name="Reds").wait_for()
    notebook = tmp_path / "lab.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "y = 1"}]}))
    hers, his = (logged_in(visit, server, f"learner{n}") for n in (50, 51))
    hers.goto(f"{server.url}/labs")
    assert hers.get_by_text("Team Reds: Learner Number 50, Learner Number 51.").count() == 1
    hers.get_by_label(f"Notebook for {TITLE}").set_input_files(notebook)
    hers.get_by_role("button", name="Hand in").first.click()
    hers.get_by_role("region", name="Grade").get_by_text("Being graded").wait_for()
    his.goto(f"{server.url}/submissions")
    his.get_by_role("link", name=TITLE).click()
    his.get_by_text("Reds, handed in by Learner Number 50").wait_for()
    problems += [*audit(his, "main"), *axe(his)]
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_a_roster_is_looked_at_and_taken_over(
    server: Server, visit: Any, audit: Any, tmp_path: Path
) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text(f"login,name,section\nzoe,Zoe,A\nlearner40,{'Long name ' * 9},C\nb!,x,y\n")
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/people")
    page.get_by_label("Roster, a CSV").set_input_files(roster)
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("row", name="learner40").wait_for()
    problems = look_at(page, audit, "/people", LOOKS)
    page.get_by_role("button", name="Take it over").click()
    page.get_by_role("heading", name="is taken over").wait_for()
    zoe = server.course.store.roster.find("zoe")
    assert zoe and zoe.section == "A"
    page.goto(f"{server.url}/people?search=zoe")
    page.get_by_role("button", name="Remove zoe").click()
    page.goto(f"{server.url}/people?role=former")
    assert page.get_by_role("row", name="zoe").count() == 1
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_the_last_terms_plan_is_looked_at_and_taken_over(
    server: Server, visit: Any, audit: Any, tmp_path: Path
) -> None:
    """As it was given out, with one more lab and a comment; clocks are those of the browser."""
    store = server.course.store
    last = {"opens": "2131-03-10T08:00:00+01:00", "due": "2131-03-31T12:00:00+02:00"}
    comment = {"lab": FIRST, "question": "why", "item": "Names the unit", "text": "Whose unit?"}
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/schedule")
    page.get_by_role("link", name="Take over the last term's plan").click()
    with page.expect_download() as asked:
        page.get_by_role("link", name="Download this course's plan").click()
    term = json.loads(Path(asked.value.path()).read_text())
    term["labs"] |= {SECOND: last, "09_gone_" + "x" * 60: last}
    term["comments"].append(comment)
    plan = tmp_path / "term.json"
    plan.write_text(json.dumps(term))
    zone = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
    assert page.get_by_label("The zone").input_value() == zone
    page.get_by_label("The zone").fill("Europe/Zurich")
    page.get_by_label("The day on which").fill("2132-03-08")
    page.get_by_label("The plan").set_input_files(plan)
    page.get_by_role("button", name="Show what would change").click()
    page.get_by_role("row", name=OTHER_TITLE).wait_for()
    page.get_by_text("this server has no such lab").wait_for()
    problems = look_at(page, audit, "/term", LOOKS[::-1])
    before = store.dates.calendar().rules
    try:
        page.get_by_role("button", name="Take it over").click()
        page.get_by_role("heading", name="The term is taken over").wait_for()
        rules = store.dates.calendar().rules[SECOND]
        assert rules.opens == "2132-03-08T08:00:00+01:00"
        assert rules.due == "2132-03-29T12:00:00+01:00"  # before clocks go forward
        kept = kept_comments.of_question(store.database, FIRST, "why")
        assert "Whose unit?" in [c.text for c in kept]
        page.goto(f"{server.url}/audit")
        page.get_by_role("cell", name="import term").wait_for()
    finally:
        staff = store.roster.find("instructor")
        assert staff
        for lab in (FIRST, SECOND):
            store.dates.set_rules(lab, before.get(lab, Rules()), staff)
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_what_a_batch_changes_is_seen_before_it_is_published(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/regrades/1")
    assert page.locator("tbody tr").count() == 3
    page.get_by_role("button", name="Publish").click()
    page.locator(".badge", has_text="published").wait_for()
    entry = server.course.store.submissions.get(1)
    assert entry and entry.raw_score and entry.raw_score >= 4


SUBMIT_TWICE = """() => {
  const prevented = [];
  window.addEventListener("submit", (event) => {
    prevented.push(event.defaultPrevented);
    event.preventDefault();
  });
  const form = document.querySelector("[action='/schedule/shift']");
  form.elements.weeks.value = 1;
  form.requestSubmit();
  form.requestSubmit();
  return prevented;
}"""


def test_a_second_click_sends_no_second_form(server: Server, visit: Any) -> None:
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/schedule")
    assert page.evaluate(SUBMIT_TWICE) == [False, True]


def test_a_notebook_is_handed_in_and_its_grade_appears_without_a_reload(
    server: Server, bench: Bench, visit: Any, tmp_path: Path
) -> None:
    notebook = tmp_path / "lab.ipynb"
    notebook.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}))
    page = logged_in(visit, server, "learner30")
    page.goto(f"{server.url}/labs")
    assert "Fri 28 Feb 2031, 23:59 UTC+01:00" in page.locator("main").inner_text()
    page.get_by_label(f"Notebook for {TITLE}").set_input_files(notebook)
    page.get_by_role("button", name="Hand in").first.click()
    page.wait_for_selector("text=Being graded")
    page.evaluate("window.stayed = true")
    bench.gate.set()
    page.wait_for_selector("text=4 of 6 points")
    assert page.evaluate("window.stayed")
    assert "4 of 6" in page.locator("#said").inner_text()


def leave_to_mark(server: Server, *numbers: int) -> None:
    """Let these answers alone wait for a mark."""
    store, walk = server.course.store, marking.Walk(FIRST, "why")
    staff = store.roster.find("instructor")
    assert staff
    while waits := marking.next_waiting(store.submissions, walk, 0):
        store.submissions.mark(waits, {"why": {"points": 1}}, staff)
    for number in numbers:
        mark = {"points": None, "comment": "", "items": []}
        store.submissions.mark(number, {"why": mark}, staff)


def test_alike_answers_are_marked_at_once_with_a_comment_of_the_list(
    server: Server, visit: Any
) -> None:
    store = server.course.store
    leave_to_mark(server, 1, 2, 3, 5)
    page = logged_in(visit, server, "grace")
    page.goto(f"{server.url}/today")
    page.get_by_role("link", name=re.compile("^4 of .* wait")).click()
    page.get_by_role("link", name=f"{TITLE}: why").first.click()
    expect(page.locator("#points")).to_be_focused()
    assert "keep theirs" in page.locator("main").inner_text()
    page.keyboard.press("g")  # in the field of a number a letter is none
    page.get_by_role("link", name="4 answers of group 1").click()
    page.get_by_role("checkbox", name="No. 2").uncheck()
    page.get_by_role("button", name="Which unit?").click()
    page.get_by_text("New comment on item 2").click()
    page.get_by_label("New comment on item 2").fill("Say from which law.")
    page.get_by_role("checkbox", name="1.5 Names the unit").check()
    page.get_by_role("button", name="Mark all that are ticked").click()
    page.get_by_text("No two of the answers that wait are alike").wait_for()
    reports = [store.submissions.report(number) for number in (1, 2, 3, 5)]
    marks = [(m.score, m.comment) for r in reports if r for m in r.manual]
    mark = (1.5, "Which unit?\nSay from which law.")
    assert marks == [mark, (None, ""), mark, mark]
    page.goto(f"{server.url}/grading/01_first/why/comments")
    row = page.get_by_role("row", name="Say from which law.").first
    before = page.locator("tbody tr").count()
    row.get_by_role("button", name="Remove").click()
    expect(page.locator("tbody tr")).to_have_count(before - 1)
    page.goto(f"{server.url}/audit")
    assert "submission 5: why" in page.locator("main").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_the_keys_are_shown_and_work(
    server: Server, visit: Any, audit: Any, width: int, scheme: str
) -> None:
    leave_to_mark(server, 2)
    page = logged_in(visit, server, "grace", color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{server.url}/grading/01_first/why?at=2")
    expect(page.locator("#points")).to_be_focused()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    problems = [*audit(page, "dialog"), *axe(page)]
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Keys").wait_for(state="hidden")
    page.locator("#points").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    assert page.get_by_role("checkbox", name="0.5 Gives a reason").is_checked()
    assert page.locator("#points").input_value() == "0.5"
    page.keyboard.press("c")
    page.keyboard.type("n, p and ? are text here.")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(f"{server.url}/grading")
    report = server.course.store.submissions.report(2)
    assert report and report.manual[0].comment == "n, p and ? are text here."


def test_a_second_mark_is_given_blind_and_decided(server: Server, visit: Any) -> None:
    store = server.course.store
    grace = store.roster.find("grace")
    assert grace
    store.submissions.mark(1, {"why": {"points": 2, "comment": "Of the first."}}, grace)
    page = logged_in(visit, server, "instructor")
    page.goto(f"{server.url}/grading/01_first/why?at=1")
    assert "Yours is the second mark" in page.locator("main").inner_text()
    assert "Of the first." not in page.content()
    page.locator("#points").fill("1")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: not url.endswith("at=1"))
    page.goto(f"{server.url}/grading/01_first/why/sample")
    rows = page.locator("tbody tr")
    assert [row.split()[1] for row in rows.all_inner_texts()] == ["4", "1"]  # the most first
    assert "1.25" in page.get_by_label("The sample").inner_text()
    page.get_by_role("button", name="Take the second of 1", exact=True).click()
    page.get_by_role("row", name="No. 1").get_by_role("cell", name="yes").wait_for()
    report = store.submissions.report(1)
    assert report and report.manual[0].score == 1
