"""The pages for people. No script at all: forms, links, and a page that refreshes itself.

A browser is logged in by a token in a form, or by a link with a code that works once (the
notebook makes one). The link itself changes nothing, unless a page of this same machine led here:
it answers with a page that says whom it would log in, and the button there sends the code. So no
other site can log a visitor in as somebody else by leading them here. Where it does log in, it
answers with a page that leads on by itself instead of a redirect: a browser that came from
elsewhere does not send a `SameSite=Strict` cookie along a redirect, and does from a page of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import jinja2
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from autograder.grading.report import to_html
from autograder.records import CheckResult
from autograder.service import auth, exports, operations, views
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import Fields
from autograder.service.gradebook import PAGE_ROWS
from autograder.service.gradebook import gradebook as gradebook_of
from autograder.service.roster import LEARNER, Person
from autograder.service.submissions import Entry, pages_of

HERE = Path(__file__).parent

FORMAT_NAMES = {
    "csv": "spreadsheets",
    "canvas": "Canvas",
    "moodle": "Moodle",
    "gradescope": "Gradescope",
}


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
)
_templates.filters.update(moment=_moment, number=_number)


def page(name: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the page made of the template `name`."""
    values.setdefault("person", None)
    return HTMLResponse(_templates.get_template(f"{name}.html").render(values), status)


# A later page would be the offset of a row that no table has.
PageNumber = Annotated[int, Query(alias="page", ge=1, le=1_000_000)]


@dataclass(frozen=True)
class Paging:
    """Where a page stands among those of a list."""

    path: str
    number: int
    count: int


class LoginNeeded(Exception):
    """Nobody is logged in: show the login page, then go on to `next`."""

    def __init__(self, request: Request) -> None:
        super().__init__("log in")
        self.next = request.url.path


def router(course: Course) -> APIRouter:
    """Return the routes of the pages."""
    pages = APIRouter(include_in_schema=False)
    _login_routes(pages, course)
    _submission_routes(pages, course)
    _staff_routes(pages, course)
    return pages


def _login_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/")
    def home(request: Request) -> Response:
        person = _visitor(request, course)
        return RedirectResponse("/gradebook" if person.is_staff else "/submissions", 303)

    @pages.get("/login")
    def login_form(next: str = "/") -> Response:
        return page("login", next=auth.own_path(next), problem="")

    @pages.post("/login")
    def login(request: Request, form: Fields) -> Response:
        auth.same_origin(request, course)
        next = form.get("next", "/")
        person = course.roster.owner(form.get("token", "").strip(), "bearer")
        if person is None:
            auth.wrong(request, course)
            problem = "This token is not known here. Copy the whole of it."
            return page("login", 401, next=auth.own_path(next), problem=problem)
        answer = RedirectResponse(auth.own_path(next), 303)
        auth.log_in(request, answer, person, course)
        return answer

    @pages.get("/enter")
    def asked(request: Request, code: str = "", next: str = "/") -> Response:
        person, here = course.roster.owner(code, "code"), auth.visitor(request, course.roster)
        target = auth.own_path(next)
        if person is None or (here is not None and here.id == person.id):
            message = "You are logged in." if here else "This link has been used already."
            return page("onward", next=target, message=message)
        if auth.from_this_machine(request) and course.roster.spend(code, "code"):
            answer = page("onward", next=target, message="You are logged in.")
            auth.log_in(request, answer, person, course)
            return answer
        return page("enter", next=target, code=code, whom=person.name, here=here)

    @pages.post("/enter")
    def enter(request: Request, form: Fields) -> Response:
        auth.same_origin(request, course)
        person = course.roster.spend(form.get("code", ""), "code")
        target = auth.own_path(form.get("next", "/"))
        if person is None:
            auth.wrong(request, course)
            message = "This link has been used already."
            return page("onward", 401, next=target, message=message)
        answer = RedirectResponse(target, 303)
        auth.log_in(request, answer, person, course)
        return answer

    @pages.post("/logout")
    def logout(request: Request) -> Response:
        auth.same_origin(request, course)
        answer = RedirectResponse("/login", 303)
        auth.log_out(request, answer, course.roster)
        return answer


def _submission_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/submissions")
    def submissions(request: Request, page_number: PageNumber = 1) -> Response:
        person = _visitor(request, course)
        whose = None if person.is_staff else person.id
        entries, count = course.ledger.page(page_number, PAGE_ROWS, person_id=whose)
        paging = Paging("/submissions", page_number, count)
        return page("submissions", person=person, entries=entries, paging=paging)

    @pages.get("/submissions/{number}")
    def submission(request: Request, number: int) -> Response:
        person, entry = _entry(request, course, number)
        report = views.report_for(person, course.ledger, entry)
        questions = by_question(report.results) if report else []
        return page(
            "submission",
            person=person,
            entry=entry,
            report=report,
            questions=questions,
            parked_message=views.PARKED_MESSAGE,
        )

    @pages.get("/submissions/{number}/report")
    def report(request: Request, number: int) -> Response:
        person, entry = _entry(request, course, number)
        found = views.report_for(person, course.ledger, entry)
        if found is None:
            raise Refused(404, f"submission {number}: it is not graded yet.")
        return HTMLResponse(to_html(found), headers=STANDALONE)

    @pages.get("/submissions/{number}/notebook")
    def notebook(request: Request, number: int) -> Response:
        _, entry = _entry(request, course, number)
        name = f'attachment; filename="{quote(entry.lab)}-{entry.id}.ipynb"'
        data = course.ledger.notebook(entry.id)
        return Response(
            data, media_type="application/x-ipynb+json", headers={"Content-Disposition": name}
        )


def _staff_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/gradebook")
    def gradebook(request: Request, page_number: PageNumber = 1) -> Response:
        person = auth.staff_only(_visitor(request, course))
        offset = (page_number - 1) * PAGE_ROWS
        learners = course.roster.everybody(LEARNER, limit=PAGE_ROWS, offset=offset)
        entries = course.ledger.of_people([learner.id for learner in learners])
        count = pages_of(course.roster.count(LEARNER), PAGE_ROWS)
        return page(
            "gradebook",
            person=person,
            book=gradebook_of((learner.login for learner in learners), entries),
            labs=course.ledger.labs(),
            queue=operations.state(course),
            paging=Paging("/gradebook", page_number, count),
            formats=list(exports.FORMATS),
            names=FORMAT_NAMES,
        )

    @pages.get("/gradebook/export")
    def export(request: Request, format: str = "csv") -> Response:
        auth.staff_only(_visitor(request, course))
        pieces = exports.export(format, course.roster, course.ledger)
        kind = exports.media_type(format)
        name = f'attachment; filename="gradebook-{format}.{kind.partition("/")[2]}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(exports.chunks(pieces), media_type=kind, headers=headers)

    @pages.get("/queue")
    def queue(request: Request) -> Response:
        person = auth.staff_only(_visitor(request, course))
        return page("queue", person=person, queue=operations.state(course))

    @pages.post("/queue/resume")
    def resume(request: Request) -> Response:
        auth.same_origin(request, course)
        auth.staff_only(_visitor(request, course))
        course.queue.resume()
        return RedirectResponse("/queue", 303)

    @pages.post("/queue/retry")
    def retry(request: Request) -> Response:
        auth.same_origin(request, course)
        auth.staff_only(_visitor(request, course))
        operations.retry_parked(course)
        return RedirectResponse("/queue", 303)

    @pages.post("/submissions/{number}/regrade")
    def regrade(request: Request, number: int) -> Response:
        auth.same_origin(request, course)
        person = auth.staff_only(_visitor(request, course))
        if course.claims.regrade(number, by=person.login):
            course.queue.wake()
        return RedirectResponse(f"/submissions/{number}", 303)

    @pages.post("/submissions/{number}/manual")
    def manual(request: Request, number: int, form: Fields) -> Response:
        auth.same_origin(request, course)
        person = auth.staff_only(_visitor(request, course))
        mark = {"points": form.get("score", ""), "comment": form.get("comment", "")}
        if not course.ledger.mark(number, {form.get("question", ""): mark}, person):
            raise Refused(409, f"submission {number}: it is not graded yet.")
        return RedirectResponse(f"/submissions/{number}", 303)


# The standalone report brings its style inside itself, and nothing else.
STANDALONE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
}


def by_question(results: Iterable[CheckResult]) -> list[tuple[str, list[CheckResult]]]:
    """Return the results gathered by question, in the order in which they come."""
    return [(name, list(group)) for name, group in groupby(results, key=lambda r: r.question)]


def _visitor(request: Request, course: Course) -> Person:
    person = auth.visitor(request, course.roster)
    if person is None:
        raise LoginNeeded(request)
    return person


def _entry(request: Request, course: Course, number: int) -> tuple[Person, Entry]:
    person = _visitor(request, course)
    return person, views.entry_for(person, course.ledger, number)
