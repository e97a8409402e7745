"""Predictions over HTTP: JSON is read once, checked, and becomes an array.

    POST /apps/NAME/predict    {"x", "context"}           Prediction's fields
    POST /apps/NAME/feedback   {"x", "label", "context"}  {"ok": true}
    GET  /  /metrics  /metrics.json  /healthz

Every error is {"detail": words}: 4xx for what the caller got wrong, 503 with Retry-After where
there was no time, 500 where a model raised by itself.

May import: server, metering; FastAPI.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response

from minitorch.errors import (
    ContainerDied,
    DeadlineMissed,
    MinitorchError,
    ModelFailed,
    UnknownApp,
)
from minitorch.serve.metering import prometheus
from minitorch.serve.server import Server

MOST_BYTES = 8 * 2**20
MOST_REQUESTS = 4_000  # under way at once; what comes beyond is refused before it is read
PAGE = Path(__file__).with_name("page.html")
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'"
)


RETRY = {"Retry-After": "1"}


def application(server: Server) -> FastAPI:
    """Return the HTTP application over a server that is open."""
    app = FastAPI(title="minitorch.serve", docs_url=None, redoc_url=None)
    scrape = prometheus(server.metrics)
    under_way = 0

    @contextmanager
    def admitted() -> Iterator[None]:
        nonlocal under_way
        if under_way >= MOST_REQUESTS:
            raise HTTPException(503, "more requests are under way than this server takes", RETRY)
        under_way += 1
        try:
            yield
        finally:
            under_way -= 1

    @app.exception_handler(MinitorchError)
    async def told(_: Request, error: MinitorchError) -> Response:
        return _json(_status(error), {"detail": str(error)})

    @app.post("/apps/{name}/predict")
    async def predict(name: str, request: Request) -> Response:
        with admitted():
            x, context = await _fields(request, "x")
            asked = server.send(name, x, context)
            found = await asked.future
            if found.is_default and isinstance(asked.error, ModelFailed) and asked.error.by_input:
                raise asked.error
            return _json(200, {field: getattr(found, field) for field in found.__slots__})

    @app.post("/apps/{name}/feedback")
    async def feedback(name: str, request: Request) -> Response:
        with admitted():
            x, label, context = await _fields(request, "x", "label")
            await server.feedback(name, x, label, context)
            return _json(200, {"ok": True})

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(scrape(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/metrics.json")
    async def numbers() -> Response:
        found = server.metrics()
        apps = {name: kept["weights"].get(None, {}) for name, kept in found["apps"].items()}
        return _json(200, {"slo_ms": server.slo_ms, "models": found["models"], "apps": apps})

    @app.get("/healthz")
    async def healthz() -> Response:
        out = server.unhealthy()
        return _json(503 if out else 200, {"status": "down" if out else "ok", "down": out})

    @app.get("/")
    async def page() -> Response:
        headers = {"Content-Security-Policy": POLICY}
        return Response(PAGE.read_bytes(), media_type="text/html", headers=headers)

    return app


async def _fields(request: Request, *required: str) -> list[Any]:
    """Return a body's required fields and its context, or refuse what is none."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MOST_BYTES:
            raise HTTPException(413, f"the body is larger than {MOST_BYTES} bytes")
        parts.append(part)
    try:
        body = json.loads(b"".join(parts), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise HTTPException(422, f'the body is {type(body).__name__}, expected an object with "x"')
    if lacking := [name for name in required if name not in body]:
        raise HTTPException(422, f'"{lacking[0]}" is missing')
    if strange := sorted(set(body) - {*required, "context"}):
        raise HTTPException(422, f'"{strange[0]}" is not known here')
    return [body[name] for name in required] + [body.get("context")]


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _status(error: MinitorchError) -> int:
    if isinstance(error, UnknownApp):
        return 404
    if isinstance(error, DeadlineMissed | ContainerDied):
        return 503
    if isinstance(error, ModelFailed):
        return 422 if error.by_input else 500
    return 422 if isinstance(error, ValueError | TypeError) else 500


def _json(status: int, content: Any) -> Response:
    text = json.dumps(_plain(content), allow_nan=False)
    headers = RETRY if status == 503 else None
    return Response(text, status, headers, media_type="application/json")


def _plain(value: Any) -> Any:
    """Return what JSON can hold: arrays as lists, numbers that JSON has not as null."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return [value.real, value.imag] if isinstance(value, complex) else value
