"""A course below a path, which knows nothing of it.

Inside a course every address is its own and begins with `/`. What leaves it is put below its path
in three places: templates when they are compiled (`page`), and here the headers `Location` and
`Set-Cookie`.
"""

import re
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

FOLDER = "/courses"

_COURSE = re.compile(rf"({FOLDER}/([^/]+))/.*", re.DOTALL)
_COOKIE_PATH = re.compile(rb"(; path=)/", re.IGNORECASE)


def path_in_course(scope: Scope) -> str:
    """Return the path that was asked for, as the course knows it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def below(root: ASGIApp, courses: Mapping[str, ASGIApp]) -> ASGIApp:
    """Return ASGI: requests for `/courses/NAME/...` go to that course, all others to `root`."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        match = _COURSE.fullmatch(scope["path"]) if scope["type"] == "http" else None
        course = courses.get(match[2]) if match else None
        if match is None or course is None:
            await root(scope, receive, send)
            return
        path = match[1].encode()

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [(name, _move(name, value, path)) for name, value in message["headers"]]
                message = {**message, "headers": headers}
            await send(message)

        await course({**scope, "root_path": match[1]}, receive, send_below)

    return answer


def _move(name: bytes, value: bytes, path: bytes) -> bytes:
    if name == b"location" and value.startswith(b"/"):
        return path + value
    return _COOKIE_PATH.sub(rb"\1" + path + b"/", value) if name == b"set-cookie" else value
