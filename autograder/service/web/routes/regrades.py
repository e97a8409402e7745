"""Batches of re-gradings: begun, looked at, published."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.records.marking.regrades import Batch
from autograder.service.reports.gradebook import PAGE_ROWS
from autograder.service.times import iso
from autograder.service.web.access import (
    Instructor,
    InstructorSender,
    Staff,
    StaffSender,
    StaffVisitor,
)
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, JsonIfAny, LabName, Start


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add grading a lab again, for staff."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.post("/labs/{lab}/regrade", status_code=202)
    def regrade(
        by: Staff, lab: LabName, body: JsonIfAny, question: str | None = None
    ) -> dict[str, Any]:
        if not set(body) <= {"question"} or not isinstance(body.get("question"), str | None):
            raise Refused(422, 'regrade: expected no body, or {"question": the name of one}.')
        return {"batch": course.regrade_lab(lab, question or body.get("question"), by)}

    @api.get("/regrades")
    def batches(_by: Staff) -> dict[str, Any]:
        return {"batches": [_batch(batch) for batch in course.store.regrades.all()]}

    @api.get("/regrades/{batch}")
    def batch(_by: Staff, batch: int) -> dict[str, Any]:
        return _changed(course, batch)

    @api.post("/regrades/{batch}/publish")
    def publish(by: Instructor, batch: int) -> dict[str, Any]:
        course.store.regrades.publish(batch, by)
        return _changed(course, batch)


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.post("/labs/{lab}/regrade")
    def regrade(person: StaffSender, lab: LabName, form: Fields) -> Response:
        batch = course.regrade_lab(lab, form.get("question", "").strip() or None, person)
        return RedirectResponse(f"/regrades/{batch}", 303)

    @pages.get("/regrades/{batch}")
    def changes(person: StaffVisitor, batch: int, after: Start = 0) -> Response:
        current, changes = course.store.regrades.get(batch, after=after, most=PAGE_ROWS)
        more = changes[-1].id if len(changes) == PAGE_ROWS else None
        shown: dict[str, Any] = {"batch": current, "changes": changes, "more": more}
        shown["count"] = course.store.regrades.changed(batch)
        return course.page("regrade", person=person, **shown)

    @pages.get("/regrades/{batch}/state")
    def state(_by: StaffVisitor, batch: int) -> dict[str, Any]:
        return {"state": str(course.store.regrades.get(batch, most=1)[0].waiting)}

    @pages.post("/regrades/{batch}/publish")
    def publish(person: InstructorSender, batch: int) -> Response:
        course.store.regrades.publish(batch, person)
        return RedirectResponse(f"/regrades/{batch}", 303)


def _changed(course: Course, number: int) -> dict[str, Any]:
    batch, changes = course.store.regrades.get(number)
    return {**_batch(batch), "changed": changes}


def _batch(batch: Batch) -> dict[str, Any]:
    values = {"batch": batch.id, **vars(batch), "started_at": iso(batch.started_at)}
    del values["id"]
    return values
