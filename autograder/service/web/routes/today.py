"""The home of staff: what came in, what waits, what is due, where many fail."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.records.marking import assignments
from autograder.service.reports import today
from autograder.service.web.access import Staff, StaffVisitor
from autograder.service.web.course import Course


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the page that staff arrive at, and the same as JSON."""

    @api.get("/today")
    def now(by: Staff) -> dict[str, Any]:
        mine = assignments.mine(course.store.database, by)
        own = {"queue": course.queue_state(), "my_marking": mine and mine.waiting}
        return {**asdict(today.today(course.store)), **own}

    @pages.get("/today")
    def home(person: StaffVisitor) -> Response:
        day, queue = today.today(course.store), course.queue_state()
        beside: dict[str, Any] = {"queue": queue, "day": today.day(course.store)}
        beside["mine"] = assignments.mine(course.store.database, person)
        return course.page("today", person=person, today=day, **beside)
