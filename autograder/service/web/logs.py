"""The log on standard error: lines of text, or of JSON with one for each request.

Of a request the path alone is written, for codes travel in queries; what looks like a token is
taken out of every line of JSON.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autograder.service.tokens import LOOKS_LIKE

_TOKENS = re.compile(LOOKS_LIKE)

log = logging.getLogger(__name__)


def log_to_stderr(format: str = "text") -> None:
    """Send the log of the service, and warnings of the rest, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        Json() if format == "json" else logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.captureWarnings(True)
    logging.getLogger("autograder").setLevel(logging.INFO)


class Json(logging.Formatter):
    """One object a line: time, level, message, and what a record has of a request or an error."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return _TOKENS.sub("[token]", json.dumps(line))


def log_request(scope: Scope, status: int | None, seconds: float) -> None:
    """Write a line for a request; `status` is null where it had no answer."""
    values = {"method": scope["method"], "path": scope["path"], "status": status}
    log.info("request", extra={"request": {**values, "ms": round(1000 * seconds, 1)}})


def watch_requests(app: ASGIApp, *listeners: Callable[[Scope, int | None, float], None]) -> ASGIApp:
    """Return ASGI middleware that tells of each request its status and the seconds that it took.

    The status is None where there was no answer.
    """

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        status: int | None = None

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.monotonic()
        try:
            await app(scope, receive, send_noted)
        finally:
            for listener in listeners:
                listener(scope, status, time.monotonic() - began)

    return answer
