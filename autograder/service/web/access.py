"""Who is asking: a program by bearer token, a person by the cookie of a login.

A route says whom it lets in by the types of its parameters: `Staff`, `Visitor`, `StaffSender`, ...
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlsplit

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from autograder.service.errors import Refused
from autograder.service.records.people import INSTRUCTOR, STAFF, Person
from autograder.service.records.submissions.submissions import Entry, Submissions
from autograder.service.web.below import path_in_course
from autograder.service.web.course import Course

COOKIE = "course_session"

R = TypeVar("R", bound=Response)

_BEARER = re.compile(r"bearer +([0-9a-zA-Z._~+/=-]{1,200}) *", re.IGNORECASE)


class LoginNeeded(Exception):
    """Nobody is logged in: show the login page at `path`, which then goes on to what was asked.

    What somebody wrote is in the page before; no address would have it.
    """

    def __init__(self, request: Request) -> None:
        super().__init__("log in")
        here = f"next={quote(path_in_course(request.scope))}"
        self.path = f"/login?{here if request.method == 'GET' else 'unsent=1'}"


async def _course_of(request: Request) -> Course:
    course: Course = request.app.state.course
    return course


Here = Annotated[Course, Depends(_course_of)]


def bearer(request: Request, course: Here) -> Person:
    """Return whom the `Authorization: Bearer` header speaks for.

    Raises:
        Refused: 401, with the header that says what is expected; 429, too many were wrong.
    """
    token = _BEARER.fullmatch(request.headers.get("authorization", ""))
    person = course.store.roster.owner(token[1], "bearer") if token else None
    if person is None:
        count_wrong_token(request, course)
        unknown = "the token is not known here, or not any more"
        problem = unknown if token else "no token: got no `Bearer` header"
        raise Refused(
            401,
            f"log in: {problem}. Ask your instructor for one, or for a new one.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return person


def visitor(request: Request, course: Here) -> Person:
    """Return who is logged in with this browser.

    Raises:
        LoginNeeded: nobody is.
    """
    person = find_logged_in(request, course)
    if person is None:
        raise LoginNeeded(request)
    return person


def _cookie(course: Course) -> str:
    """Return the cookie's name: that of the course at `/` comes along to every other."""
    return f"{COOKIE}_{course.name}" if course.name else COOKIE


def session_of(request: Request, course: Course) -> str:
    """Return the token of this browser's session here, or an empty text."""
    return request.cookies.get(_cookie(course), "")


def find_logged_in(request: Request, course: Course) -> Person | None:
    """Return who is logged in with this browser, or None."""
    cookie = session_of(request, course)
    return course.store.roster.owner(cookie, "session") if cookie else None


async def same_origin(request: Request, course: Here) -> None:
    """Raise unless a form came from a page of ours.

    Raises:
        Refused: 403, another site sent it.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    ours = (request.headers.get("host"), urlsplit(course.url).netloc)
    foreign = origin is not None and _host(origin) not in ours
    if foreign or site not in ("same-origin", "none"):
        raise Refused(403, "this form was sent from another site. Open the page here and repeat.")


OwnForm = Annotated[None, Depends(same_origin)]


async def _sender(_ours: OwnForm, person: Annotated[Person, Depends(visitor)]) -> Person:
    return person


def _only(whom: Callable[..., Any], *roles: str) -> Any:
    """Return the dependency that is whom `whom` finds, and refuses (403) who has another role."""

    async def checked(person: Annotated[Person, Depends(whom)]) -> Person:
        if person.role not in roles:
            allowed = "instructors" if roles == (INSTRUCTOR,) else "staff"
            raise Refused(403, f"this is for {allowed}: {person.login} is {person.role} here.")
        return person

    return Depends(checked)


# Who asks: by bearer token; by a page that they look at; by a form of a page of ours.
Caller = Annotated[Person, Depends(bearer)]
Staff = Annotated[Person, _only(bearer, *STAFF)]
Instructor = Annotated[Person, _only(bearer, INSTRUCTOR)]
Visitor = Annotated[Person, Depends(visitor)]
InstructorVisitor = Annotated[Person, _only(visitor, INSTRUCTOR)]
StaffVisitor = Annotated[Person, _only(visitor, *STAFF)]
Sender = Annotated[Person, Depends(_sender)]
StaffSender = Annotated[Person, _only(_sender, *STAFF)]
InstructorSender = Annotated[Person, _only(_sender, INSTRUCTOR)]


def count_wrong_token(request: Request, course: Course) -> None:
    """Count a wrong token or code against the address that it came from; a right one never is.

    Raises:
        Refused: 429, there were too many.
    """
    course.limits.wrong_logins.spend(_network(request.client.host if request.client else ""))


@contextmanager
def count_refusals(request: Request, course: Course) -> Iterator[None]:
    """Count a way in that is refused within the `with`, as a wrong token is.

    Raises:
        Refused: 429, there were too many; or what was refused.
    """
    try:
        yield
    except Refused as error:
        if error.status == 403:
            count_wrong_token(request, course)
        raise


def _network(host: str) -> str:
    """Return what one subscriber has: an IPv4 address, or the 64 bits of an IPv6 network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ip_network((host, 64), strict=False))


def log_in(request: Request, response: R, person: Person, course: Course) -> R:
    """Return `response`, which logs the browser that sent `request` in as `person`."""
    roster, lives_s = course.store.roster, course.settings.session_s
    agent = "".join(filter(str.isprintable, request.headers.get("user-agent", "")))
    secure = course.url.startswith("https://")
    response.set_cookie(
        _cookie(course),
        roster.give_token(person, "session", lives_s=lives_s, agent=agent),
        max_age=int(lives_s),
        secure=request.url.scheme == "https" or secure,
        httponly=True,
        samesite="strict",
    )
    return response


def log_out(request: Request, response: Response, course: Course) -> None:
    """End this browser's session, here and there."""
    course.store.roster.spend(session_of(request, course), "session")
    response.delete_cookie(_cookie(course), path="/", httponly=True, samesite="strict")


def from_this_machine(request: Request) -> bool:
    """Return whether the browser says that a page of this very machine led it here.

    JupyterLab beside a server that `start` runs, on another port of the loopback address. Any other
    page of the same site may be another person's.
    """
    site = request.headers.get("sec-fetch-site", "")
    local = request.url.hostname in ("127.0.0.1", "localhost", "::1")
    return local and site in ("same-site", "same-origin")


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # such as "http://["
        return None


def own_path(target: str) -> str:
    """Return `target` if it is a path on this server, else "/": never a way to another site.

    A browser reads two slashes or more at the front, of either kind, as the way to a host.
    """
    safe = re.match(r"/(?!/)", target) and "\\" not in target
    return target if safe and target.isprintable() else "/"


def entry_for(person: Person, submissions: Submissions, submission_id: int) -> Entry:
    """Return the submission, as `person` may see it.

    Raises:
        Refused: 404, it does not exist or is another learner's; the answer does not say which.
    """
    entry = submissions.seen_by(person).get(submission_id)
    if entry is None or not (person.is_staff or entry.person_id == person.id):
        raise Refused(404, f"submission {submission_id}: there is none of that number for you.")
    return entry


def _callers_entry(number: int, course: Here, person: Caller) -> Entry:
    return entry_for(person, course.store.submissions, number)


def _visitors_entry(number: int, course: Here, person: Visitor) -> Entry:
    return entry_for(person, course.store.submissions, number)


# The submission that the address names, if whoever asks may see it.
CallersEntry = Annotated[Entry, Depends(_callers_entry)]
VisitorsEntry = Annotated[Entry, Depends(_visitors_entry)]
