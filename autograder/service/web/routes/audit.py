"""The audit log, page by page."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.records import audit_log
from autograder.service.records.submissions import pages_of
from autograder.service.web.access import Staff, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import PageNumber
from autograder.service.web.page import Paging

PAGE_LINES = 100


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add who changed what, for staff."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.get("/audit")
    def audit(_by: Staff, number: PageNumber = 1) -> dict[str, Any]:
        entries, total = audit_log.read(course.store.database, number, PAGE_LINES)
        return {"entries": entries, "page": number, "pages": pages_of(total, PAGE_LINES)}


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/audit")
    def audit(person: StaffVisitor, number: PageNumber = 1) -> Response:
        lines, total = audit_log.read(course.store.database, number, PAGE_LINES)
        paging = Paging("/audit", number, pages_of(total, PAGE_LINES))
        return course.page("audit", person=person, entries=lines, paging=paging)
