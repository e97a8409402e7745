"""How the server is doing, for a monitor and for Prometheus; and the interface, described."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from autograder.service.web import openapi
from autograder.service.web.access import Staff
from autograder.service.web.course import Course
from autograder.service.web.late_routes import LateRouter


def add_routes(api: APIRouter, _pages: APIRouter, course: Course) -> None:
    """Add whether the server lives, under `/api`."""

    @api.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "labs": course.catalog.names}


def router(course: Course) -> LateRouter:
    """Return the routes beside `/api`."""
    routes = LateRouter()

    @routes.get("/healthz")
    def healthz() -> dict[str, Any]:
        reasons = [course.queue_state()["reason"]]
        reasons += [_told(name, other) for name, other in course.others.items()]
        reason = "; ".join(filter(None, reasons)) or None
        return {"status": "paused" if reason else "ok", "reason": reason}

    @routes.get("/metrics", response_class=Response, responses=openapi.METRICS)
    def metrics(request: Request) -> Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return Response(request.app.state.metrics.text(), headers=headers)

    @routes.get("/openapi.json", include_in_schema=False)
    def described(request: Request, _by: Staff) -> dict[str, Any]:
        routes = [getattr(route, "whole", route) for route in request.app.routes]
        description = get_openapi(title="Course", version="1", routes=routes)
        if course.path:
            description["servers"] = [{"url": course.path}]
        return openapi.completed(description)

    return routes


def _told(name: str, course: Course) -> str:
    reason = course.queue_state()["reason"]
    return f"{name}: {reason}" if reason else ""
