"""Requests over HTTP, counted and timed by route for Prometheus.

The route is the pattern that the application has found for a request, such as
"/apps/{name}/predict": what clients make up is counted together, as "other". Errors are requests
whose status is 400 or more.

May import: prometheus_client; to check types, starlette.
"""

import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0)  # from a cached answer to a long generation
METHODS = {"GET", "HEAD", "POST"}


class RequestCounts:
    """ASGI middleware: the status and the seconds of each request go into a registry."""

    def __init__(self, app: "ASGIApp", registry: CollectorRegistry) -> None:
        self._app = app
        self._requests = Counter(
            "serve_requests",
            "Requests, by what they were answered with.",
            labelnames=("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "serve_request_seconds",
            "How long requests took, streamed answers included.",
            labelnames=("method", "route"),
            registry=registry,
            buckets=SECONDS,
        )

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Serve one request and count it; `status` is "none" where it had no answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = "none"

        async def note_and_send(message: "Message") -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        began = time.monotonic()
        try:
            await self._app(scope, receive, note_and_send)
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = getattr(scope.get("route"), "path", "other")
            self._requests.labels(method, route, status).inc()
            self._seconds.labels(method, route).observe(time.monotonic() - began)
