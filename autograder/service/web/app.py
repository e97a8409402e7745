"""The web application: the routes, the limits around them, and how errors become answers."""

import errno
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autograder.service.errors import Refused
from autograder.service.settings import Settings
from autograder.service.web import access
from autograder.service.web.below import FOLDER, below, path_in_course
from autograder.service.web.course import Course
from autograder.service.web.late_routes import LateRouter
from autograder.service.web.limits import limit_bodies
from autograder.service.web.logs import log_request, watch_requests
from autograder.service.web.metrics import Metrics
from autograder.service.web.page import HERE
from autograder.service.web.routes import (
    announcements,
    gradebook,
    labs,
    lti,
    marking,
    operations,
    people,
    regrades,
    schedule,
    sessions,
    standing,
    submissions,
)

log = logging.getLogger(__name__)

# A form field or two around the notebook.
_FORM_BYTES = 1 << 16

# Every other body: a token, a name, a comment on an answer.
_OTHER_BYTES = 1 << 18

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

HSTS = {"Strict-Transport-Security": "max-age=31536000"}


def create_app(course: Course) -> ASGIApp:
    """Return the application over the parts of a course, and of the others on its server."""
    metrics = {name: Metrics(each) for name, each in course.others.items()}
    others = {name: _of_one(each, metrics[name]) for name, each in course.others.items()}
    whole = _of_one(course, Metrics(course, metrics))
    return below(whole, others) if others else whole


def _of_one(course: Course, metrics: Metrics) -> ASGIApp:
    app = FastAPI(
        title="Course",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # it would lead to whatever host the client named
    )
    app.state.course = course
    app.state.metrics = metrics
    if course.others:
        app.router.routes += operations.router_of_many(course).routes
    for router in routers(course):
        app.router.routes += router.routes
    app.mount("/static", _Static(directory=HERE / "static"))
    for kind in _ANSWERED:
        app.add_exception_handler(kind, _answer)
    settings = course.settings
    larger = {
        "/api/submissions": settings.upload_bytes + _FORM_BYTES,
        "/submissions": settings.upload_bytes + _FORM_BYTES,
        "/api/roster": people.ROSTER_BYTES,
        "/api/export": people.ROSTER_BYTES,
        "/api/term": schedule.PLAN_BYTES,
        "/term": schedule.PLAN_BYTES + _FORM_BYTES,
        "/people/roster": people.ROSTER_BYTES + _FORM_BYTES,
    }
    limited = limit_bodies(app, limit_bytes=_OTHER_BYTES, limit_s=settings.upload_s, larger=larger)
    secure = settings.public_url.startswith("https://")
    named = _for_hosts(limited, _names(settings))
    whole = _with_headers(named, HEADERS | (HSTS if secure else {}))
    logged = (log_request,) if settings.log_format == "json" else ()
    return watch_requests(whole, metrics.count_request, *logged)


def routers(course: Course) -> tuple[LateRouter, LateRouter, LateRouter]:
    """Return the routes under `/api`, those for monitors, and the pages."""
    api, pages = LateRouter(prefix="/api"), LateRouter(include_in_schema=False)
    for subject in _SUBJECTS:
        subject.add_routes(api, pages, course)
    return api, operations.router(course), pages


# Each with its JSON and its pages.
_SUBJECTS = (
    submissions, people, labs, regrades, marking, gradebook, sessions, operations, lti,
    schedule, standing, announcements,
)  # fmt: skip


def _names(settings: Settings) -> frozenset[str]:
    """Return the names that clients may call the server by; none of them: any."""
    if not settings.allowed_hosts:
        return frozenset()
    public = urlsplit(settings.public_url).hostname or ""
    allowed = (host.lower().strip("[]") for host in settings.allowed_hosts)
    return frozenset({*allowed, public, *_THIS_MACHINE} - {""})


# No page of another site can make a browser call us so.
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


class _Static(StaticFiles):
    """The style and the icon, which a browser may keep for a while."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "max-age=600"
        return answer


def _for_hosts(app: ASGIApp, names: frozenset[str]) -> ASGIApp:
    """Return ASGI middleware: a request that calls the server by another name is refused."""

    refusal = PlainTextResponse("this server has another name.\n", 400)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_known = not names or scope["type"] != "http" or _host_of(scope) in names
        await (app if is_known else refusal)(scope, receive, send)

    return answer


def _host_of(scope: Scope) -> str | None:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    try:
        return urlsplit(f"//{hosts[0].decode()}").hostname if len(hosts) == 1 else None
    except ValueError:
        return None


def _with_headers(app: ASGIApp, headers: Mapping[str, str]) -> ASGIApp:
    """Return ASGI middleware: every answer has these headers, unless it says otherwise itself.

    HEAD is answered as GET; the HTTP server leaves the body out.
    """
    more = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                missing = [(name, value) for name, value in more if name not in there]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        if scope.get("method") == "HEAD":
            scope = {**scope, "method": "GET"}
        await app(scope, receive, send_with_headers)

    return answer


def _say(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as JSON to a program, as a page to a person."""
    course: Course = request.app.state.course
    path = re.sub(f"^{FOLDER}/[^/]+", "", path_in_course(request.scope))  # one that is not there
    if path.startswith(("/api/", "/openapi.json", "/healthz", "/metrics")):
        return JSONResponse({"detail": message}, status, headers)
    title = _TITLES.get(status, HTTPStatus(status).phrase)
    answer = course.page("message", status, title=title, message=message)
    answer.headers.update(headers or {})
    return answer


# In people's words.
_TITLES = {403: "Not allowed", 409: "Not now", 413: "Too large", 422: "This could not be read"}


_NEXT = {404: ". Check the address.", 405: ". It takes what a page sends: go back to that page."}


async def _answer(request: Request, error: Exception) -> Response:
    """Return what is said of an error, to whoever asked for what raised it."""
    match error:
        case access.LoginNeeded():
            return RedirectResponse(error.path, 303)
        case Refused():
            return _say(request, error.status, str(error), error.headers)
        case HTTPException():
            message = f"{request.method} {request.url.path}: {error.detail}"
            message += _NEXT.get(error.status_code, "")
            return _say(request, error.status_code, message, error.headers)
        case RequestValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            problem = f"{where}: got {str(first.get('input'))[:100]!r}: {first['msg']}"
            return _say(request, 422, f"{request.url.path}: {problem}.")
        case ClientDisconnect():
            return _say(request, 400, "the request ended before its body was complete.")
        case OperationalError() if "full" not in str(error):
            return _later(request, error, 503, "the database cannot be used now")
        case OperationalError() | OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG):
            # the database, or a folder such as the one where large uploads are spooled
            return _later(request, error, 507, "there is no room to store this")
        case DataError():  # PostgreSQL has no NUL in a text, and no larger number
            log.error("%s %s: %s", request.method, request.url.path, error.orig)
            return _say(request, 422, "something of it cannot be stored: a NUL, or a huge number.")
        case OSError():
            raise error
    return _say(request, 500, "the server made a mistake. It is in its log; please tell staff.")


def _later(request: Request, error: Exception, status: int, message: str) -> Response:
    log.error("%s: %s", message, error)
    return _say(request, status, f"{message}. Try again in 30 s.", {"Retry-After": "30"})


_ANSWERED = (
    *(Refused, HTTPException, RequestValidationError, access.LoginNeeded, ClientDisconnect),
    *(OperationalError, DataError, OSError, Exception),
)
