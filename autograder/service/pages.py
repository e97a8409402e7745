"""The pages for people: forms and links. The one script (`course.js`) is a comfort, no need.

A browser is logged in by a token in a form, or by a link with a code that works once (the
notebook makes one). The link itself changes nothing, unless a page of this same machine led here:
it answers with a page that says whom it would log in, and the button there sends the code. So no
other site can log a visitor in as somebody else by leading them here. Where it does log in, it
answers with a page that leads on by itself instead of a redirect: a browser that came from
elsewhere does not send a `SameSite=Strict` cookie along a redirect, and does from a page of ours.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from autograder.grading.report import to_html
from autograder.records import CheckResult
from autograder.service import auth, staff_pages, views
from autograder.service.api import take_in
from autograder.service.auth import Here, OwnForm, Sender, Visitor
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import Fields, PageNumber
from autograder.service.gradebook import PAGE_ROWS
from autograder.service.page import Paging, onward, page
from autograder.service.roster import INSTRUCTOR, LEARNER, Person
from autograder.service.sign_in import COOKIE, Asked, SignIn, sealed, unsealed
from autograder.service.submissions import Entry


def _entry(number: int, course: Here, person: Visitor) -> Entry:
    return views.entry_for(person, course.submissions, number)


Seen = Annotated[Entry, Depends(_entry)]


def router(course: Course) -> APIRouter:
    """Return the routes of the pages."""
    pages = APIRouter(include_in_schema=False)
    _login_routes(pages, course)
    _link_routes(pages, course)
    if course.sign_in is not None:
        _sign_in_routes(pages, course, course.sign_in)
    _session_routes(pages, course)
    _submission_routes(pages, course)
    _lab_routes(pages, course)
    pages.include_router(staff_pages.router(course))
    return pages


def _login_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/")
    def home(person: Visitor) -> Response:
        return RedirectResponse("/gradebook" if person.is_staff else "/submissions", 303)

    elsewhere = course.sign_in.title if course.sign_in else ""

    @pages.get("/login")
    def login_form(next: str = "/") -> Response:
        return page("login", next=auth.own_path(next), problem="", elsewhere=elsewhere)

    @pages.post("/login")
    def login(request: Request, _ours: OwnForm, form: Fields) -> Response:
        target = auth.own_path(form.get("next", "/"))
        person = course.roster.owner(form.get("token", "").strip(), "bearer")
        if person is None:
            auth.wrong(request, course)
            problem = "This token is not known here. Copy the whole of it."
            return page("login", 401, next=target, problem=problem, elsewhere=elsewhere)
        return auth.log_in(request, RedirectResponse(target, 303), person, course)

    @pages.post("/logout")
    def logout(request: Request, _ours: OwnForm) -> Response:
        answer = RedirectResponse("/login", 303)
        auth.log_out(request, answer, course)
        return answer


def _link_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/enter")
    def asked(request: Request, code: str = "", next: str = "/") -> Response:
        person, here = course.roster.owner(code, "code"), auth.logged_in(request, course)
        target = auth.own_path(next)
        if person is None or (here is not None and here.id == person.id):
            message = "You are logged in." if here else "This link has been used already."
            return page("onward", next=target, message=message)
        if auth.from_this_machine(request) and course.roster.spend(code, "code"):
            return auth.log_in(request, onward(target), person, course)
        return page("enter", next=target, code=code, whom=person.name, here=here)

    @pages.post("/enter")
    def enter(request: Request, _ours: OwnForm, form: Fields) -> Response:
        person = course.roster.spend(form.get("code", ""), "code")
        target = auth.own_path(form.get("next", "/"))
        if person is None:
            auth.wrong(request, course)
            message = "This link has been used already."
            return page("onward", 401, next=target, message=message)
        return auth.log_in(request, RedirectResponse(target, 303), person, course)


def _submission_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/submissions")
    def submissions(person: Visitor, number: PageNumber = 1) -> Response:
        whose = None if person.is_staff else person.id
        entries, count = course.submissions.page(number, PAGE_ROWS, person_id=whose)
        paging = Paging("/submissions", number, count)
        drafts = views.drafts_for(person, course)
        return page("submissions", person=person, entries=entries, paging=paging, drafts=drafts)

    @pages.get("/submissions/{number}/state")
    async def state(entry: Seen, seen: str = "") -> dict[str, Any]:
        return {"state": await course.live.changed(entry.id, seen)}

    @pages.get("/submissions/{number}")
    def submission(
        person: Visitor, entry: Seen, viewed_as: Annotated[str, Query(alias="as")] = ""
    ) -> Response:
        as_learner = person.is_staff and viewed_as == "learner"
        if as_learner:
            person = replace(person, role=LEARNER)
        report = views.report_for(person, course.submissions, entry)
        return page(
            "submission",
            person=person,
            entry=entry,
            report=report,
            questions=by_question(report.results) if report else [],
            parked_message=views.PARKED_MESSAGE,
            viewed_as=as_learner,
            others=course.submissions.of_people([entry.person_id], lab=entry.lab),
        )

    @pages.get("/submissions/{number}/report")
    def report(person: Visitor, entry: Seen) -> Response:
        found = views.report_for(person, course.submissions, entry)
        if found is None:
            raise Refused(404, f"submission {entry.id}: it is not graded yet.")
        return HTMLResponse(to_html(found), headers=STANDALONE)

    @pages.get("/submissions/{number}/notebook")
    def notebook(entry: Seen) -> Response:
        name = f'attachment; filename="{quote(entry.lab)}-{entry.id}.ipynb"'
        data, kind = course.submissions.notebook(entry.id), "application/x-ipynb+json"
        return Response(data, media_type=kind, headers={"Content-Disposition": name})


def _sign_in_routes(pages: APIRouter, course: Course, sign_in: SignIn) -> None:
    @pages.get("/signin")
    def away(next: str = "/") -> Response:
        url, asked = sign_in.away(auth.own_path(next))
        answer = RedirectResponse(url, 303)
        lives_s = course.settings.code_s
        answer.set_cookie(
            COOKIE,
            sealed(vars(asked), course.cookie_key, COOKIE, lives_s),
            max_age=int(lives_s),
            path="/signin",
            secure=course.url.startswith("https://"),
            httponly=True,
            samesite="lax",  # it has to come along when the other site leads back
        )
        return answer

    @pages.get("/signin/return")
    def back(request: Request, code: str = "", state: str = "") -> Response:
        with auth.counted(request, course):
            held = request.cookies.get(COOKIE, "")
            asked = Asked(**unsealed(held, course.cookie_key, COOKIE, state))
            person = _on_roster(course, sign_in.back(code, asked))
        answer = auth.log_in(request, onward(auth.own_path(asked.next)), person, course)
        answer.delete_cookie(COOKIE, path="/signin")
        return answer


def _on_roster(course: Course, login: str) -> Person:
    person = course.roster.find(login)
    # The first instructor is whoever holds the token, not whoever is called so elsewhere.
    if person is None or person.login != login or login == INSTRUCTOR:
        raise Refused(403, f"log in: {login[:100]!r} is not on the roster. Ask your instructor.")
    return person


def _session_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/sessions")
    def sessions(request: Request, person: Visitor) -> Response:
        here = request.cookies.get(auth.COOKIE, "").partition(".")[0]
        found = course.roster.sessions(person)
        return page("sessions", person=person, sessions=found, here=here)

    @pages.post("/sessions/{key}/end")
    def end(person: Sender, key: str) -> Response:
        course.roster.end_session(person, key)
        return RedirectResponse("/sessions", 303)


def _lab_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/labs")
    def labs(person: Visitor) -> Response:
        found = views.labs_for(person, course)
        said: dict[str, Any] = {
            "batches": course.regrades.all() if person.is_staff else [],
            "drafts": views.drafts_for(person, course),
        }
        return page("labs", person=person, labs=found, fields=FIELDS, **said)

    @pages.post("/submissions")
    async def hand_in(request: Request, person: Sender) -> Response:
        receipt = await take_in(request, course, person)
        return RedirectResponse(f"/submissions/{receipt.id}", 303)


# Of a lab's rules, and how the page calls them.
FIELDS = (
    ("opens", "Opens"),
    ("due", "Due, with its zone"),
    ("late_until", "Late until"),
    ("penalty_per_day", "Share lost a day"),
    ("attempts", "Attempts"),
    ("grace_minutes", "Grace, minutes"),
)


# The standalone report brings its style inside itself, and nothing else.
STANDALONE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
}


def by_question(results: Iterable[CheckResult]) -> list[tuple[str, list[CheckResult]]]:
    """Return the results gathered by question, in the order in which they come."""
    return [(name, list(group)) for name, group in groupby(results, key=lambda r: r.question)]
