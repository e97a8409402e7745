"""The home of staff: what came in, what waits, what is due, where many fail."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.reports import today
from autograder.service.web.access import Staff, StaffVisitor
from autograder.service.web.course import Course


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the page that staff arrive at, and the same as JSON."""

    @api.get("/today")
    def now(_by: Staff) -> dict[str, Any]:
        return {**asdict(today.today(course.store)), "queue": course.queue_state()}

    @pages.get("/today")
    def home(person: StaffVisitor) -> Response:
        found, queue = today.today(course.store), course.queue_state()
        beside: dict[str, Any] = {"queue": queue, "day": today.day(course.store)}
        return course.page("today", person=person, found=found, **beside)
