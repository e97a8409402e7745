"""How the course is doing: today, the queue, the audit log; its server, and the courses there."""

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST

from autograder.service.database import schema
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.marking import assignments
from autograder.service.records.roster import enrolment
from autograder.service.records.submissions.submissions import start_of_page
from autograder.service.reports import today
from autograder.service.web import access, openapi
from autograder.service.web.below import FOLDER
from autograder.service.web.course import Course
from autograder.service.web.forms import PageNumber, Start
from autograder.service.web.late_routes import LateRouter
from autograder.service.web.page import page


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what staff look at every day."""
    _add_today(api, pages, course)
    _add_audit(api, pages, course)
    _add_queue(api, pages, course)


def router(course: Course) -> LateRouter:
    """Return the routes beside `/api`."""
    routes = LateRouter()

    @routes.get("/healthz")
    def say_health() -> dict[str, Any]:
        reasons = {name: other.queue_state()["reason"] for name, other in course.others.items()}
        others = [f"{name}: {reason}" for name, reason in reasons.items() if reason]
        reason = "; ".join(filter(None, [course.queue_state()["reason"], *others])) or None
        return {"status": "paused" if reason else "ok", "reason": reason}

    @routes.get("/metrics", response_class=Response, responses=openapi.METRICS)
    def read_metrics(request: Request) -> Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return Response(request.app.state.metrics.text(), headers=headers)

    @routes.get("/openapi.json", include_in_schema=False)
    def describe_api(request: Request, _by: access.Staff) -> dict[str, Any]:
        routes = [getattr(route, "whole", route) for route in request.app.routes]
        description = get_openapi(title="Course", version="1", routes=routes)
        if course.path:
            description["servers"] = [{"url": course.path}]
        return openapi.complete_description(description)

    return routes


def _add_queue(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the queue's state and what staff do about it."""

    @api.get("/queue")
    def read_queue(_by: access.Staff) -> dict[str, Any]:
        return course.queue_state()

    @api.post("/queue/resume")
    def resume(_by: access.Staff) -> dict[str, Any]:
        course.queue.resume()
        return course.queue_state()

    @api.post("/parked/retry")
    def retry(_by: access.Staff) -> dict[str, Any]:
        return {"retried": course.retry_parked()}

    @pages.get("/queue")
    def show_queue(person: access.StaffVisitor) -> Response:
        return course.page("queue", person=person, queue=course.queue_state())

    @pages.post("/queue/resume")
    def resume_and_show(_by: access.StaffSender) -> Response:
        course.queue.resume()
        return RedirectResponse("/queue", 303)

    @pages.post("/queue/retry")
    def retry_and_show(_by: access.StaffSender) -> Response:
        course.retry_parked()
        return RedirectResponse("/queue", 303)


PAGE_LINES = 100


def _add_audit(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add who changed what, for staff."""

    @api.get("/audit")
    def read_audit(_by: access.Staff, number: PageNumber = 1, before: Start = 0) -> dict[str, Any]:
        lines, more = _read_lines(course, number, before)
        return {"entries": lines, "page": number, "before": more}

    @pages.get("/audit")
    def show_audit(
        person: access.StaffVisitor, number: PageNumber = 1, before: Start = 0
    ) -> Response:
        lines, more = _read_lines(course, number, before)
        return course.page(
            "audit", person=person, entries=lines, more=more, later=number > 1 or before
        )


def _read_lines(
    course: Course, number: int, before: int
) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page of the log, and before which line the next one begins."""
    database, column = course.store.database, schema.audit_log.c.id
    ids = sa.select(column).order_by(column.desc())
    before = before or start_of_page(database, ids, number, PAGE_LINES)
    lines = audit_log.read(database, PAGE_LINES, before=before)
    return lines, lines[-1]["id"] if len(lines) == PAGE_LINES else None


def _add_today(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the page that staff arrive at, and the same as JSON."""

    @api.get("/today")
    def read_today(by: access.Staff) -> dict[str, Any]:
        mine = assignments.find_marker(course.store.database, by)
        own = {"queue": course.queue_state(), "my_marking": mine and mine.waiting}
        return {**asdict(today.today(course.store)), **own}

    @pages.get("/today")
    def show_today(person: access.StaffVisitor) -> Response:
        day, queue = today.today(course.store), course.queue_state()
        beside: dict[str, Any] = {"queue": queue, "day": today.day(course.store)}
        beside["mine"] = assignments.find_marker(course.store.database, person)
        return course.page("today", person=person, today=day, **beside)


_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def router_of_many(course: Course) -> LateRouter:
    """Return the routes of the server whose first course this is; they go before those of it."""
    routes = LateRouter(include_in_schema=False)

    @routes.get("/")
    def list_courses() -> Response:
        counts = enrolment.counts(course.store.database)
        used = sum(counts.values()) > 1  # by anybody but the instructor whom every course has
        return page("courses", courses=course.others.values(), first=course if used else None)

    @routes.get(FOLDER)
    def lead_home() -> Response:
        return RedirectResponse("/", 303)

    @routes.api_route(f"{FOLDER}/{{name}}", methods=_METHODS)
    @routes.api_route(f"{FOLDER}/{{name}}/{{rest:path}}", methods=_METHODS)
    def lead_on(name: str) -> Response:
        if name not in course.others:
            raise Refused(404, f"there is no course {name[:60]!r} on this server.")
        return RedirectResponse(f"{FOLDER}/{name}/", 303)

    return routes
