"""The web application: the routes, the limits around them, and how errors become answers."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from autograder.service import api, operations, pages
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.limits import BodyLimit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

# A form field or two around the notebook.
_FORM_BYTES = 1 << 16

# Every other body: a token, a name, a comment on an answer.
_OTHER_BYTES = 1 << 18

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def create_app(course: Course) -> "ASGIApp":
    """Return the application over the parts of a course."""
    app = FastAPI(
        title="Course",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # it would lead to whatever host the client named
    )
    app.include_router(api.router(course))
    app.include_router(operations.router(course))
    app.include_router(pages.router(course))
    app.mount("/static", _Static(directory=pages.HERE / "static"))
    for kind, answer in _ANSWERS.items():
        app.add_exception_handler(kind, answer)
    settings = course.settings
    larger = {"/api/submissions": settings.upload_bytes + _FORM_BYTES}
    limited = BodyLimit(app, limit_bytes=_OTHER_BYTES, limit_s=settings.upload_s, larger=larger)
    return _Headers(limited)


class _Static(StaticFiles):
    """The style and the icon, which a browser may keep for a while."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "max-age=600"
        return answer


class _Headers:
    """ASGI middleware: every answer carries HEADERS, unless it says otherwise itself."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        async def send_with_headers(message: "Message") -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = ((n.lower().encode(), v.encode()) for n, v in HEADERS.items())
                missing = [(name, value) for name, value in more if name not in there]
                message = {**message, "headers": [*message["headers"], *missing]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _say(
    request: Request, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as JSON to a program, as a page to a person."""
    if request.url.path.startswith("/api/"):
        return JSONResponse({"detail": message}, status, headers)
    answer = pages.page("message", status, title=HTTPStatus(status).phrase, message=message)
    answer.headers.update(headers or {})
    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _say(request, error.status, str(error), error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return _say(request, error.status_code, message, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    got = str(first.get("input"))[:100]
    return _say(request, 422, f"{request.url.path}: {where}: got {got!r}: {first['msg']}.")


async def _login(_request: Request, error: Exception) -> Response:
    assert isinstance(error, pages.LoginNeeded)
    return RedirectResponse(f"/login?next={quote(error.next)}", 303)


async def _gone(request: Request, _error: Exception) -> Response:
    return _say(request, 400, "the request ended before its body was complete.")


async def _no_database(request: Request, error: Exception) -> Response:
    """A database that is away or full: what was asked has not been done, and may be asked again."""
    log.error("database: %s", error)
    full = "full" in str(error)
    message = "there is no room to store this" if full else "the database cannot be used now"
    headers = {"Retry-After": "30"}
    return _say(request, 507 if full else 503, f"{message}. Try again in 30 s.", headers)


async def _broken(request: Request, _error: Exception) -> Response:
    return _say(request, 500, "the server made a mistake. It is in its log; please tell staff.")


_ANSWERS: dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]] = {
    Refused: _refused,
    HTTPException: _http_error,
    RequestValidationError: _invalid,
    pages.LoginNeeded: _login,
    ClientDisconnect: _gone,
    OperationalError: _no_database,
    Exception: _broken,
}
