"""The dates of all labs in one table: as a file, from a file, and moved by weeks."""

import re
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.rules import DATES
from autograder.service.records.terms import schedule
from autograder.service.records.terms.schedule import Change
from autograder.service.reports.exports import csv_lines
from autograder.service.web import openapi
from autograder.service.web.access import Instructor, InstructorSender, InstructorVisitor, Staff
from autograder.service.web.course import Course
from autograder.service.web.forms import Body, Fields, Json, LabName


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the schedule of the course."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.get("/schedule", response_class=Response, responses=openapi.EXPORT)
    def schedule_(_by: Staff) -> Response:
        return StreamingResponse(_lines(course), media_type="text/csv")

    @api.put("/schedule", openapi_extra=openapi.CSV)
    def put(by: Instructor, body: Body, dry_run: bool = False) -> dict[str, Any]:
        return {"changes": _take(course, body, by, dry_run=dry_run)}

    @api.put("/labs/{lab}/held", openapi_extra=openapi.HELD)
    def hold(by: Instructor, lab: LabName, body: Json, dry_run: bool = False) -> dict[str, Any]:
        held = {lab: {"held": body.get("held")}}
        return {"changes": _put(course, held, by, dry_run=dry_run)}

    @api.post("/schedule/shift", openapi_extra=openapi.SHIFT)
    def shift(by: Instructor, body: Json, dry_run: bool = False) -> dict[str, Any]:
        database, now, weeks = course.store.database, course.store.clock(), body.get("weeks")
        return {"changes": schedule.shift(database, now, weeks, by, dry_run=dry_run)}


def _lines(course: Course) -> Iterator[str]:
    rules = course.store.dates.calendar().rules
    return csv_lines(schedule.rows(list(course.catalog.names), rules))


def _take(course: Course, data: bytes, by: Person, *, dry_run: bool) -> list[Change]:
    says = schedule.read(data, course.catalog.resolve)
    return _put(course, says, by, dry_run=dry_run)


def _put(
    course: Course, says: dict[str, dict[str, Any]], by: Person, *, dry_run: bool
) -> list[Change]:
    store = course.store
    changes = schedule.take(store.database, store.clock(), says, by, dry_run=dry_run)
    course.totals.wake()
    return changes


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/schedule")
    def table(person: InstructorVisitor) -> Response:
        return _page(course, person, "".join(_lines(course)))

    @pages.get("/schedule.csv")
    def download(_by: InstructorVisitor) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="schedule.csv"'}
        return StreamingResponse(_lines(course), media_type="text/csv", headers=headers)

    @pages.post("/schedule")
    def put(person: InstructorSender, form: Fields) -> Response:
        text, sure = form.get("text", ""), "sure" in form
        changes = _take(course, text.encode(), person, dry_run=not sure)
        if sure:
            return RedirectResponse("/schedule", 303)
        return _page(course, person, text, changes)

    @pages.post("/schedule/dates")
    def dates(person: InstructorSender, form: Fields) -> Response:
        says: dict[str, dict[str, Any]] = {}
        for field, text in form.items():
            kind, _, name = field.partition(".")
            if kind not in DATES:
                raise Refused(422, f"schedule: got a date called {kind[:40]!r}.")
            says.setdefault(course.catalog.resolve(name), {})[kind] = text.strip() or None
        _put(course, says, person, dry_run=False)
        return RedirectResponse("/schedule", 303)

    @pages.post("/labs/{lab}/held")
    def hold(person: InstructorSender, lab: LabName, form: Fields) -> Response:
        _put(course, {lab: {"held": "held" in form}}, person, dry_run=False)
        return RedirectResponse("/schedule", 303)

    @pages.post("/schedule/shift")
    def shift(person: InstructorSender, form: Fields) -> Response:
        text = form.get("weeks", "")
        weeks = int(text) if re.fullmatch("-?[0-9]{1,3}", text) else text
        database, now = course.store.database, course.store.clock()
        schedule.shift(database, now, weeks, person, dry_run=False)
        return RedirectResponse("/schedule", 303)


def _page(
    course: Course, person: Person, text: str, changes: list[Change] | None = None
) -> Response:
    rules = course.store.dates.calendar().rules
    labs = {name: rules.get(name) for name in course.catalog.names}
    return course.page("schedule", person=person, labs=labs, text=text, changes=changes)
