"""Who is asking: a program by bearer token, a person by the cookie of a login."""

import re
import time
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.roster import LEARNER, Person, Roster

COOKIE = "course_session"

_BEARER = re.compile(r"bearer +([0-9a-zA-Z._~+/=-]{1,200}) *", re.IGNORECASE)

# Letters and digits of any script, and what stands inside names; first and last a letter, digit
# or dot. So no name is a spreadsheet formula, an option of a command, or markup.
_NAME = re.compile(r"\w(?:[\w .,'@+-]{0,98}[\w.])?")


def bearer(request: Request, course: Course) -> Person:
    """Return whom the `Authorization: Bearer` header speaks for.

    Raises:
        Refused: 401, with the header that says what is expected; 429, too many were wrong.
    """
    given = _BEARER.fullmatch(request.headers.get("authorization", ""))
    person = course.roster.owner(given[1], "bearer") if given else None
    if person is None:
        wrong(request, course)
        problem = "the token is not known here" if given else "no token: got no `Bearer` header"
        raise Refused(
            401,
            f"log in: {problem}. Ask your instructor for one, or for a new one.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return person


def wrong(request: Request, course: Course) -> None:
    """Count a wrong token or code against the address that it came from; a right one never is.

    Raises:
        Refused: 429, there were too many.
    """
    course.wrong_logins.spend(_network(request.client.host if request.client else ""))


def _network(host: str) -> str:
    """Return what one subscriber has: an IPv4 address, or the 64 bits of an IPv6 network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ip_network((host, 64), strict=False))


def staff_bearer(request: Request, course: Course) -> Person:
    """Return the member of staff who asks.

    Raises:
        Refused: 401, or 403 where it is a learner.
    """
    return staff_only(bearer(request, course))


def staff_only(person: Person) -> Person:
    """Return `person`.

    Raises:
        Refused: 403, it is a learner.
    """
    if not person.is_staff:
        raise Refused(403, "this is for staff: got a learner's token, expected the instructor's.")
    return person


def visitor(request: Request, roster: Roster) -> Person | None:
    """Return who is logged in with this browser, or None."""
    cookie = request.cookies.get(COOKIE, "")
    return roster.owner(cookie, "session") if cookie else None


def log_in(
    request: Request, response: Response, person: Person, roster: Roster, *, lives_s: float
) -> None:
    """Let `response` log the browser that sent `request` in as `person`."""
    response.set_cookie(
        COOKIE,
        roster.give_token(person, "session", lives_s=lives_s),
        max_age=int(lives_s),
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def log_out(request: Request, response: Response, roster: Roster) -> None:
    """End this browser's session, here and there."""
    roster.spend(request.cookies.get(COOKIE, ""), "session")
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")


def same_origin(request: Request) -> None:
    """Let a form through only if it came from a page of ours.

    Raises:
        Refused: 403, another site sent it.
    """
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    foreign = origin is not None and _host(origin) != request.headers.get("host")
    if foreign or site not in ("same-origin", "none"):
        raise Refused(403, "this form was sent from another site. Open the page here and repeat.")


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


@dataclass(frozen=True)
class Enrolment:
    """Who is to be a learner; `renew` gives one who is enrolled another token."""

    login: str
    name: str
    renew: bool = False
    expires_at: float | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any], lives_s: float) -> "Enrolment":
        """Return what a request's JSON asks for; without `expires` the token lives for `lives_s`.

        Raises:
            Refused: 422, it is malformed.
        """
        login = body.get("login", body.get("name"))
        name, renew = body.get("name", login), body.get("renew", False)
        if not (isinstance(login, str) and isinstance(name, str) and isinstance(renew, bool)):
            expected = '{"login": "...", "name": "...", "renew": false, "expires": "..."}'
            raise Refused(422, f"enroll: expected {expected}.")
        given = body.get("expires")
        ends = time.time() + lives_s if given is None else _moment(given)
        return cls(_called(login), _called(name), renew, ends)


def _moment(text: object) -> float:
    """Return a time to come, from ISO 8601 with a zone.

    Raises:
        Refused: 422, it is something else.
    """
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or moment.timestamp() <= time.time():
        expected = "a time to come with its zone, such as 2031-02-28T12:00:00Z"
        raise Refused(422, f"enroll: expires: got {str(text)[:40]!r}, expected {expected}.")
    return moment.timestamp()


def _called(name: str) -> str:
    name = unicodedata.normalize("NFC", " ".join(name.split()))
    if not _NAME.fullmatch(name):
        raise Refused(
            422,
            f"enroll: this cannot be a name: got {name[:100]!r}, expected 1 to 100 letters, "
            "digits, spaces and . , ' @ + -, the first and last of them a letter or digit.",
        )
    return name


def enroll(roster: Roster, asked: Enrolment) -> tuple[Person, str]:
    """Return the learner of that login and a new token of theirs.

    Raises:
        Refused: 409, the login is taken, and `renew` is false or it is not quite the same.
    """
    person = roster.find(asked.login)
    if person is None or not asked.renew or person.is_staff or person.login != asked.login:
        person = roster.add(asked.login, LEARNER, name=asked.name)
    return person, roster.give_token(person, "bearer", expires_at=asked.expires_at)
