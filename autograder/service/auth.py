"""Who is asking: a program by bearer token, a person by the cookie of a login."""

import re
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from autograder.service.errors import Refused
from autograder.service.roster import LEARNER, Person, Roster

COOKIE = "course_session"

_BEARER = re.compile(r"bearer +([0-9a-zA-Z._~+/=-]{1,200}) *", re.IGNORECASE)

# Letters and digits of any script, and what stands inside names; first and last a letter, digit
# or dot. So no name is a spreadsheet formula, an option of a command, or markup.
_NAME = re.compile(r"\w(?:[\w .,'@+-]{0,98}[\w.])?")


def bearer(request: Request, roster: Roster) -> Person:
    """Return whom the `Authorization: Bearer` header speaks for.

    Raises:
        Refused: 401, with the header that says what is expected.
    """
    given = _BEARER.fullmatch(request.headers.get("authorization", ""))
    person = roster.owner(given[1], "bearer") if given else None
    if person is None:
        problem = "the token is not known here" if given else "no token: got no `Bearer` header"
        raise Refused(
            401,
            f"log in: {problem}. Ask your instructor for one, or for a new one.",
            headers={"WWW-Authenticate": "Bearer"},
        )
    return person


def staff_bearer(request: Request, roster: Roster) -> Person:
    """Return the member of staff who asks.

    Raises:
        Refused: 401, or 403 where it is a learner.
    """
    return staff_only(bearer(request, roster))


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


def enroll(roster: Roster, name: str, *, renew: bool = False) -> tuple[Person, str]:
    """Return the learner of that name and a new token of theirs.

    Raises:
        Refused: 422, the name cannot be one; 409, it is taken and `renew` is false.
    """
    name = " ".join(name.split())
    if not _NAME.fullmatch(name):
        raise Refused(
            422,
            f"enroll: this cannot be a name: got {name[:100]!r}, expected 1 to 100 letters, "
            "digits, spaces and . , ' @ + -, the first and last of them a letter or digit.",
        )
    person = roster.find(name)
    if person is None or not renew or person.is_staff:
        person = roster.add(name, LEARNER)
    return person, roster.give_token(person, "bearer")
