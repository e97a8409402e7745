"""The audit log, page by page."""

from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.database import schema
from autograder.service.records import audit_log
from autograder.service.records.submissions.submissions import start_of_page
from autograder.service.web.access import Staff, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import PageNumber, Start

PAGE_LINES = 100


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add who changed what, for staff."""

    @api.get("/audit")
    def audit(_by: Staff, number: PageNumber = 1, before: Start = 0) -> dict[str, Any]:
        lines, more = _lines(course, number, before)
        return {"entries": lines, "page": number, "before": more}

    @pages.get("/audit")
    def audit_page(person: StaffVisitor, number: PageNumber = 1, before: Start = 0) -> Response:
        lines, more = _lines(course, number, before)
        return course.page(
            "audit", person=person, entries=lines, more=more, later=number > 1 or before
        )


def _lines(course: Course, number: int, before: int) -> tuple[list[dict[str, Any]], int | None]:
    """Return a page of the log, and before which line the next one begins."""
    database, column = course.store.database, schema.audit_log.c.id
    ids = sa.select(column).order_by(column.desc())
    before = before or start_of_page(database, ids, number, PAGE_LINES)
    lines = audit_log.read(database, PAGE_LINES, before=before)
    return lines, lines[-1]["id"] if len(lines) == PAGE_LINES else None
