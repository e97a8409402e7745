"""How the server is doing, for a monitor and for Prometheus; and the interface, described."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse, Response

from autograder.service.web import openapi
from autograder.service.web.access import Staff
from autograder.service.web.course import Course


def add_routes(api: APIRouter, _pages: APIRouter, course: Course) -> None:
    """Add whether the server lives, under `/api`."""

    @api.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "labs": course.catalog.names}


def router(course: Course) -> APIRouter:
    """Return the routes beside `/api`."""
    routes = APIRouter()

    @routes.get("/healthz")
    def healthz() -> dict[str, Any]:
        found = course.queue_state()
        return {"status": "paused" if found["paused"] else "ok", "reason": found["reason"]}

    @routes.get("/metrics", response_class=Response, responses=openapi.METRICS)
    def metrics() -> Response:
        return PlainTextResponse(prometheus(course), media_type="text/plain; version=0.0.4")

    @routes.get("/openapi.json", include_in_schema=False)
    def described(request: Request, _by: Staff) -> dict[str, Any]:
        found = get_openapi(title="Course", version="1", routes=request.app.routes)
        return openapi.completed(found)

    return routes


def prometheus(course: Course) -> str:
    """Return the state of the queue in Prometheus's text format.

    Source: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
    """
    tally, reasons = course.queue.tally, course.queue.reasons()
    waiting = course.store.claims.waiting()
    paused = {f'{{lab="{_label(lab)}",reason="{_label(why)}"}}': 1 for lab, why in reasons.items()}
    ended = {f'{{outcome="{outcome}"}}': count for outcome, count in tally.outcomes.items()}
    lines = [
        *_metric("submissions_waiting", "Submissions that wait.", waiting.waiting),
        *_metric("submissions_grading", "Submissions being graded.", waiting.grading),
        *_metric("submissions_parked", "Submissions put aside.", waiting.parked),
        *_metric("oldest_seconds", "How long the first has waited.", waiting.oldest_s),
        *_metric("queue_paused", "Labs that cannot be graded now.", len(reasons)),
        *_metric("lab_paused", "Why a lab is paused.", paused),
        *_metric("grading_seconds_total", "Time of gradings.", tally.graded_s),
        *_metric("gradings_total", "How gradings ended.", ended),
    ]
    return "\n".join(lines) + "\n"


def _metric(name: str, says: str, values: float | Mapping[str, float]) -> list[str]:
    """Return the lines of a metric: one value, or one for each set of labels."""
    name, kind = f"course_{name}", "counter" if name.endswith("_total") else "gauge"
    found = values if isinstance(values, Mapping) else {"": values}
    lines = [f"{name}{labels} {value}" for labels, value in found.items()]
    return [f"# HELP {name} {says}", f"# TYPE {name} {kind}", *lines]


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
