"""The queue: what waits and why, going on after a pause, and another try for what is parked."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.web.access import Staff, StaffSender, StaffVisitor
from autograder.service.web.course import Course


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the queue's state and what staff do about it."""

    @api.get("/queue")
    def queue(_by: Staff) -> dict[str, Any]:
        return course.queue_state()

    @api.post("/queue/resume")
    def resume(_by: Staff) -> dict[str, Any]:
        course.queue.resume()
        return course.queue_state()

    @api.post("/parked/retry")
    def retry(_by: Staff) -> dict[str, Any]:
        return {"retried": course.retry_parked()}

    @pages.get("/queue")
    def queue_page(person: StaffVisitor) -> Response:
        return course.page("queue", person=person, queue=course.queue_state())

    @pages.post("/queue/resume")
    def resume_and_show(_by: StaffSender) -> Response:
        course.queue.resume()
        return RedirectResponse("/queue", 303)

    @pages.post("/queue/retry")
    def retry_and_show(_by: StaffSender) -> Response:
        course.retry_parked()
        return RedirectResponse("/queue", 303)
