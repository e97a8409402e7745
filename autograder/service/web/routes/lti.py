"""What a learning platform and the browsers that it sends ask for: `/lti/...`."""

from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from autograder.service.identity.lti.launches import COOKIE, HINTS
from autograder.service.identity.lti.tool import LtiTool
from autograder.service.web import access
from autograder.service.web.access import StaffSender
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields
from autograder.service.web.page import onward, page

# Platforms show tools inside their own pages, where browsers keep cookies from us; any may.
_FRAMED = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; form-action 'none'; base-uri 'none'"
}


def add_routes(_api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the routes of the LTI tool, if the course is one."""
    tool = course.lti
    if tool is None:
        return

    @pages.get("/lti/keys")
    def keys() -> dict[str, Any]:
        return tool.keys

    @pages.get("/lti/login")
    def login(request: Request) -> Response:
        return _away(request, course, tool, dict(request.query_params))

    @pages.post("/lti/login")
    def posted_login(request: Request, form: Fields) -> Response:
        return _away(request, course, tool, form)

    @pages.post("/lti/launch")
    def launch(request: Request, form: Fields) -> Response:
        with access.counted(request, course):
            launched, nonce = tool.launches.back(form, request.cookies.get(COOKIE, ""))
            lab = course.catalog.resolve(launched.lab) if launched.lab else ""
            tool.people.use(nonce)
            person = tool.people.take(launched, lab)
        staff = f"/gradebook?lab={quote(lab)}" if lab else "/gradebook"
        target = staff if person.is_staff else "/labs"
        answer = access.log_in(request, onward(target), person, course)
        answer.delete_cookie(COOKIE, path="/lti", secure=True, httponly=True, samesite="none")
        return answer

    @pages.post("/lti/again")
    def again(_by: StaffSender) -> Response:
        tool.passback.outbox.again()
        return RedirectResponse("/queue", 303)


def _away(request: Request, course: Course, tool: LtiTool, fields: dict[str, str]) -> Response:
    """Send a browser back to its platform; from inside a page of that, by a window of its own."""
    with access.counted(request, course):
        url, cookie = tool.launches.away(fields)
    if request.headers.get("sec-fetch-dest") in ("iframe", "frame"):
        again = urlencode({name: fields[name] for name in HINTS if name in fields})
        answer = page("window", target=f"/lti/login?{again}")
        answer.headers.update(_FRAMED)
        return answer
    gone = RedirectResponse(url, 303)
    gone.set_cookie(
        COOKIE,
        cookie,
        max_age=int(course.settings.code_s),
        path="/lti",
        secure=True,
        httponly=True,
        samesite="none",  # the platform posts the answer from its own site
    )
    return gone
