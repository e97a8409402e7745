"""The log on standard error: lines of text, or of JSON with one for each request.

Of a request the path alone is written, for codes travel in queries; what looks like a token is
taken out of every line of JSON.
"""

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from autograder.service.tokens import LOOKS_LIKE

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "request", {}),
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return _TOKENS.sub("[token]", json.dumps(found))


class RequestLog:
    """ASGI middleware: a line for each request; `status` is null where it had no answer."""

    def __init__(self, app: "ASGIApp") -> None:
        self._app = app

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one request, and say what came of it."""
        status: int | None = None

        async def send_noted(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        began = time.monotonic()
        try:
            await self._app(scope, receive, send_noted)
        finally:
            ms = round(1000 * (time.monotonic() - began), 1)
            said = {"method": scope["method"], "path": scope["path"], "status": status, "ms": ms}
            log.info("request", extra={"request": said})
