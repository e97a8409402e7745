"""Predictions over HTTP: JSON is read once, checked, and becomes an array.

    POST /apps/NAME/predict    {"x", "context"}           Prediction's fields
    POST /apps/NAME/feedback   {"x", "label", "context"}  {"ok": true}
    POST /apps/NAME/generate   Server.generate's          server-sent events
    GET  /apps/NAME            a page to type on, where a generator was deployed with words
    GET  /apps/NAME/words      {"words"}
    GET  /  /metrics  /metrics.json  /healthz

Every error is {"detail": words}: 4xx for what the caller got wrong, 503 with Retry-After where
there was no time, 500 where a model raised by itself.

Requests are counted and timed for Prometheus by the pattern of their route: what clients make up is
counted together, as "other". Errors are requests whose status is 400 or more; 499 is a client that
has left in the middle of its body.

May import: fastapi, NumPy, prometheus_client, starlette, admission, counts, errors, events, server,
wire.
"""

import asyncio
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect

from minitorch.errors import ContainerDied, DeadlineMissed, MinitorchError, ModelFailed, UnknownApp
from minitorch.serve.admission import RETRY, Admission, Gate
from minitorch.serve.counts import COUNTERS
from minitorch.serve.generation.events import Events
from minitorch.serve.server import Server
from minitorch.serve.wire import as_input

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


MOST_BYTES = 8 * 2**20
BODY_S = 30.0  # for a client to send its body: until then it counts as under way
TOKEN_BYTES = 40  # of a prompt, as Python holds it
SHOW = Path(__file__).parents[1] / "show"
INLINE = "'unsafe-inline'; "
POLICY = f"default-src 'none'; script-src {INLINE}style-src {INLINE}connect-src 'self'"
TIMES = ("latency_ms", "first_token_ms", "between_tokens_ms")
OPTIONS = {"temperature", "top_k", "seed", "stop", "deadline_ms", "first_token_deadline_ms"}
STATUS = {UnknownApp: 404, DeadlineMissed: 503, ContainerDied: 503, ValueError: 422, TypeError: 422}


def application(server: Server, gate: Gate | None = None) -> FastAPI:
    """Return the HTTP application over a server; the gate says how much may be under way."""
    app = FastAPI(title="minitorch.serve", docs_url=None, redoc_url=None)
    registry = CollectorRegistry()
    gate = gate or Gate()
    registry.register(Scrape(server, gate))
    app.add_middleware(Admission, gate=gate)
    app.add_middleware(RequestCounts, registry=registry)

    @app.exception_handler(MinitorchError)
    async def answer_error(_: Request, error: MinitorchError) -> Response:
        return refusal(error)

    add_routes_for_queries(app, server)
    add_routes_for_generation(app, server)
    add_routes_for_operators(app, server, registry)
    return app


def refusal(error: MinitorchError) -> Response:
    """Return the answer that says what was wrong."""
    by_input = isinstance(error, ModelFailed) and error.by_input
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    return _json(422 if by_input else status, {"detail": str(error)})


def add_routes_for_queries(app: FastAPI, server: Server) -> None:
    """Answer queries and feedback."""

    @app.post("/apps/{name}/predict")
    async def predict(name: str, request: Request) -> Response:
        fields = await _fields(request, {"x"}, {"context"})
        x = _input(request, fields.pop("x"))
        ask = server.send(name, x, fields.get("context"))
        prediction = await ask.future
        if prediction.is_default and isinstance(ask.error, ModelFailed) and ask.error.by_input:
            raise ask.error
        return _json(200, {field: getattr(prediction, field) for field in prediction.__slots__})

    @app.post("/apps/{name}/feedback")
    async def feedback(name: str, request: Request) -> Response:
        fields = await _fields(request, {"x", "label"}, {"context"})
        x = _input(request, fields.pop("x"))
        await server.feedback(name, x, fields["label"], fields.get("context"))
        return _json(200, {"ok": True})


def add_routes_for_generation(app: FastAPI, server: Server) -> None:
    """Answer requests to generate, and who wants to type one."""

    @app.post("/apps/{name}/generate")
    async def generate(name: str, request: Request) -> Response:
        fields = await _fields(request, {"tokens", "max_tokens"}, OPTIONS)
        stream = server.generate(name, **fields)
        request.scope["place"].hold(TOKEN_BYTES * len(fields["tokens"]))
        return Events(stream, refusal)

    @app.get("/apps/{name}/words")
    async def words(name: str) -> Response:
        return _json(200, {"words": server.words(name)})

    @app.get("/apps/{name}")
    async def typing(name: str) -> Response:
        server.words(name)
        return _page("typing.html")


def add_routes_for_operators(app: FastAPI, server: Server, registry: CollectorRegistry) -> None:
    """Answer those who watch the server: its page, its numbers, its health."""

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @app.get("/metrics.json")
    async def numbers() -> Response:
        metrics = server.metrics()
        apps = {name: state["weights"].get(None, {}) for name, state in metrics["apps"].items()}
        return _json(200, {"slo_ms": server.slo_ms, "models": metrics["models"], "apps": apps})

    @app.head("/healthz")
    @app.get("/healthz")
    async def healthz() -> Response:
        out = server.unhealthy()
        return _json(503 if out else 200, {"status": "down" if out else "ok", "down": out})

    @app.get("/")
    async def page() -> Response:
        return _page("serving.html")


@dataclass(eq=False)
class Scrape(Collector):
    """A server's metrics for Prometheus, as they are when it asks."""

    server: Server
    gate: Gate

    def collect(self) -> Iterable[Any]:
        """Return what was counted, and the weights of no context: of contexts there are many."""
        families: dict[str, Any] = {
            name: CounterMetricFamily(f"serve_{name}", "of a model", labels=["model"])
            for name in (*COUNTERS, "tokens", "cancelled")
        }
        words = "as Server.metrics says"
        metrics = self.server.metrics()
        for model, counts in metrics["models"].items():
            for name, value in counts.items():
                more = {"0.5": value["p50"], "0.99": value["p99"]} if name in TIMES else {}
                labels = ["model", "quantile"] if name in TIMES else ["model"]
                if name not in families:
                    families[name] = GaugeMetricFamily(f"serve_{name}", words, labels=labels)
                for quantile, time_ms in more.items():
                    families[name].add_metric([model, quantile], time_ms)
                if not more:
                    families[name].add_metric([model], value)
        weights = GaugeMetricFamily("serve_weight", words, labels=["app", "model"])
        for app, state in metrics["apps"].items():
            for model, weight in state["weights"].get(None, {}).items():
                weights.add_metric([app, model], weight)
        under_way = (
            GaugeMetricFamily("serve_under_way", "Queries under way.", self.gate.queries),
            GaugeMetricFamily("serve_under_way_bytes", "What they hold.", self.gate.n_bytes),
        )
        return [*families.values(), weights, *under_way]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of JSON, or refuse one that has two values for a key."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for (name, _), key in zip_longest(pairs, fields) if name != key)
        raise HTTPException(422, f'"{twice}" stands twice in the body. Send it once')
    return fields


def _input(request: Request, x: object) -> np.ndarray:
    """Return an input as an array that the request's place holds.

    Refuse numbers that are too large for any float.
    """
    array = as_input(x)
    place = request.scope["place"]
    place.hold(place.n_bytes + array.nbytes)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise HTTPException(422, "x has a number beyond all floats. Send finite numbers")
    return array


def _check_texts(x: object) -> None:
    """Refuse texts of which a long one would have NumPy give each of the others as much room."""
    parts = np.asarray(x, object)
    longest = max([len(part) for part in parts.ravel().tolist() if type(part) is str], default=0)
    if longest * parts.size > MOST_BYTES:
        words = f"x has {parts.size} parts and one of {longest} characters. Cut it"
        raise HTTPException(422, words)


async def _body(request: Request) -> bytes:
    """Return the body of a query that is let in.

    Refuse one that is too large, too slow, or never comes.
    """
    too_large = HTTPException(413, f"the body is larger than {MOST_BYTES} bytes")
    if int(request.headers.get("content-length", 0)) > MOST_BYTES:
        raise too_large
    content = bytearray()
    place = request.scope["place"]
    place.enter()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                content += part
                if len(content) > MOST_BYTES:
                    raise too_large
                place.hold(len(content))
    except TimeoutError as error:
        raise HTTPException(408, f"the body took longer than {BODY_S:g} s to come") from error
    except ClientDisconnect as error:  # nobody hears it, but it is counted
        raise HTTPException(499, "the client has left in the middle of its body") from error
    return bytes(content)


async def _fields(request: Request, required: set[str], options: set[str]) -> dict[str, Any]:
    """Return a body's fields, or refuse what is none."""
    content = await _body(request)
    try:
        body = json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise HTTPException(422, f"the body is {type(body).__name__}, expected an object")
    if lacking := sorted(required - set(body)):
        raise HTTPException(422, f'"{lacking[0]}" is missing')
    if strange := sorted(set(body) - required - options):
        raise HTTPException(422, f'"{strange[0]}" is not known here')
    if content.count(b'"') > 2 * len(body):  # not in names alone
        _check_texts(body.get("x"))
    return body


def _page(name: str) -> Response:
    headers = {"Content-Security-Policy": POLICY}
    return Response((SHOW / name).read_bytes(), media_type="text/html", headers=headers)


def _json(status: int, content: object) -> Response:
    text = json.dumps(_plain(content), allow_nan=False, default=str)
    return Response(text, status, RETRY if status == 503 else None, "application/json")


def _plain(value: object) -> Any:
    """Return what JSON can hold: arrays as lists, numbers that JSON has not as null."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        """Serve one request and count it; `status` is "none" where it had no answer.

        What raises here is answered outside, with 500.
        """
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
        except Exception:
            status = "500" if status == "none" else status
            raise
        finally:
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = getattr(scope.get("route"), "path", "other")
            self._requests.labels(method, route, status).inc()
            self._seconds.labels(method, route).observe(time.monotonic() - began)
