"""The teams of a lab: who is in which, and the list of them as a file."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service.records.people import Person
from autograder.service.records.roster.teams import Change, rows, take, teams
from autograder.service.reports.exports import csv_lines
from autograder.service.web import openapi
from autograder.service.web.access import Instructor, InstructorSender, Staff, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import Body, Fields, LabName


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how teams are listed and changed."""

    @api.get("/labs/{lab}/teams", response_class=Response, responses=openapi.EXPORT)
    def listed(_by: Staff, lab: LabName) -> Response:
        return StreamingResponse(_lines(course, lab), media_type="text/csv")

    @api.put("/labs/{lab}/teams", openapi_extra=openapi.CSV)
    def put(by: Instructor, lab: LabName, body: Body, dry_run: bool = False) -> dict[str, Any]:
        return {"changes": _take(course, lab, body, by, dry_run=dry_run)}

    @pages.get("/labs/{lab}/teams")
    def table(person: StaffVisitor, lab: LabName) -> Response:
        return _page(course, person, lab, "".join(_lines(course, lab)))

    @pages.post("/labs/{lab}/teams")
    def change(person: InstructorSender, lab: LabName, form: Fields) -> Response:
        text, sure = form.get("text", ""), "sure" in form
        changes = _take(course, lab, text.encode(), person, dry_run=not sure)
        if sure:
            return RedirectResponse(f"/labs/{quote(lab)}/teams", 303)
        return _page(course, person, lab, text, changes)


def _lines(course: Course, lab: str) -> Iterator[str]:
    return csv_lines(rows(teams(course.store.database, lab=lab)))


def _take(course: Course, lab: str, data: bytes, by: Person, *, dry_run: bool) -> list[Change]:
    database, now, find = course.store.database, course.store.clock(), course.store.roster.find
    return take(database, now, lab, data, by, find=find, dry_run=dry_run)


def _page(
    course: Course, person: Person, lab: str, text: str, changes: list[Change] | None = None
) -> Response:
    listed = teams(course.store.database, lab=lab)
    shown: dict[str, Any] = {"lab": lab, "teams": listed, "text": text, "changes": changes}
    return course.page("teams", person=person, **shown)
