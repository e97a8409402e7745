"""What a learning platform and the browsers that it sends ask for: `/lti/...`."""

from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.identity.lti.launches import HINTS, Launch, name_cookie
from autograder.service.identity.lti.tool import LtiTool
from autograder.service.records.people import Person
from autograder.service.web import access
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields

# Platforms show tools inside their own pages, where browsers keep cookies from us; any may.
_FRAMED = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; form-action 'none'; base-uri 'none'"
}


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the routes of the LTI tool, if the course is one."""
    if course.lti is not None:
        _add_launches(pages, course, course.lti)
        _add_staff(api, pages, course, course.lti)


def _add_launches(pages: APIRouter, course: Course, tool: LtiTool) -> None:
    @pages.get("/lti/keys")
    def read_keys() -> dict[str, Any]:
        return tool.keys

    @pages.get("/lti/login")
    def log_in(request: Request) -> Response:
        return _send_away(request, course, tool, dict(request.query_params))

    @pages.post("/lti/login")
    def log_in_by_form(request: Request, form: Fields) -> Response:
        return _send_away(request, course, tool, form)

    @pages.post("/lti/launch")
    def launch(request: Request, form: Fields) -> Response:
        with access.count_refusals(request, course):
            cookie = name_cookie(form.get("state", ""))
            launched, nonce = tool.launches.back(form, request.cookies.get(cookie, ""))
            opens = launched.lab and not launched.choice
            try:
                lab = course.catalog.resolve(launched.lab) if opens else ""
            except Refused as error:
                reason = f"launch: {error} Tell your instructor: the link says it."
                raise Refused(404, reason) from error
            tool.people.use(nonce)
            person = tool.people.take(launched, lab)
        opened = _open_page(course, tool, launched, person, lab)
        answer = access.log_in(request, opened, person, course)
        answer.delete_cookie(cookie, path="/lti", secure=True, httponly=True, samesite="none")
        return answer


def _add_staff(api: APIRouter, pages: APIRouter, course: Course, tool: LtiTool) -> None:
    @pages.post("/lti/links")
    def choose_links(person: access.StaffSender, form: Fields) -> Response:
        chosen = [name for name in course.catalog.names if name == form.get("lab") or name in form]
        target, token = tool.links.answer(form.get("asked", ""), person, chosen)
        answer = course.page("lti_back", person=person, labs=chosen, away=target, token=token)
        site = urlsplit(target)
        policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        allowed = f"form-action {site.scheme}://{site.netloc}; frame-ancestors 'none'"
        answer.headers["Content-Security-Policy"] = policy + allowed
        return answer

    @pages.post("/lti/roster")
    def show_roster(person: access.InstructorSender, form: Fields) -> Response:
        sure = "sure" in form
        changes = tool.members.take(person, dry_run=not sure)
        return course.page("roster", person=person, text=None, sure=sure, changes=changes)

    @api.post("/lti/roster")
    def take_roster(by: access.Instructor, dry_run: bool = False) -> dict[str, Any]:
        return tool.members.take(by, dry_run=dry_run)

    @pages.post("/lti/again")
    def send_again(_by: access.StaffSender) -> Response:
        tool.passback.outbox.retry_now()
        return RedirectResponse("/queue", 303)


def _open_page(
    course: Course, tool: LtiTool, launched: Launch, person: Person, lab: str
) -> HTMLResponse:
    """Return the page that a launch opens: labs to choose from, or the way on."""
    if launched.choice is None:
        staff = f"/gradebook?lab={quote(lab)}" if lab else "/gradebook"
        return course.onward(staff if person.is_staff else "/labs")
    if not person.is_staff:
        raise Refused(403, "launch: links to labs are chosen by whoever teaches the course.")
    asked, several = tool.links.sign_choice(launched, person), launched.choice.several
    shown: dict[str, Any] = {"labs": course.catalog.names, "asked": asked, "several": several}
    return course.page("lti_links", person=person, **shown)


def _send_away(request: Request, course: Course, tool: LtiTool, fields: dict[str, str]) -> Response:
    """Send a browser back to its platform; from inside a page of that, by a window of its own."""
    with access.count_refusals(request, course):
        url, name, cookie = tool.launches.away(fields)
    if request.headers.get("sec-fetch-dest") in ("iframe", "frame"):
        again = urlencode({name: fields[name] for name in HINTS if name in fields})
        answer = course.page("window", target=f"/lti/login?{again}")
        answer.headers.update(_FRAMED)
        return answer
    redirect = RedirectResponse(url, 303)
    redirect.set_cookie(
        name,
        cookie,
        max_age=int(course.settings.code_s),
        path="/lti",
        secure=True,
        httponly=True,
        samesite="none",  # the platform posts the answer from its own site
    )
    return redirect
