"""The dates of all labs in one table; and the plan of a term, for the next and from the last."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.rules import DATES
from autograder.service.records.terms import schedule
from autograder.service.records.terms.plans import current_plan, take
from autograder.service.records.terms.schedule import Change
from autograder.service.reports.exports import csv_lines
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import Body, Fields, Json, RecordedLab, read_json, text_of_file


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the schedule of the course."""
    _add_term(api, pages, course)
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.get("/schedule", response_class=Response, responses=openapi.EXPORT)
    def read_schedule(_by: access.Staff) -> Response:
        return StreamingResponse(_write_csv(course), media_type="text/csv")

    @api.put("/schedule", openapi_extra=openapi.CSV)
    def put(by: access.Instructor, body: Body, dry_run: bool = False) -> dict[str, Any]:
        return {"changes": _take(course, body, by, dry_run=dry_run)}

    @api.put("/labs/{lab}/held", openapi_extra=openapi.HELD)
    def hold(
        by: access.Instructor, lab: RecordedLab, body: Json, dry_run: bool = False
    ) -> dict[str, Any]:
        held = {lab: {"held": body.get("held")}}
        return {"changes": _put(course, held, by, dry_run=dry_run)}

    @api.post("/schedule/shift", openapi_extra=openapi.SHIFT)
    def shift(by: access.Instructor, body: Json, dry_run: bool = False) -> dict[str, Any]:
        changes = schedule.shift(course.edit(by), body.get("weeks"), dry_run=dry_run)
        return {"changes": changes}


def _write_csv(course: Course) -> Iterator[str]:
    rules = course.store.dates.calendar().rules
    return csv_lines(schedule.rows(list(course.catalog.names), rules))


def _take(course: Course, data: bytes, by: Person, **how: Any) -> list[Change]:
    return _put(course, schedule.read(data, course.catalog.resolve), by, **how)


def _put(course: Course, says: dict[str, dict[str, Any]], by: Person, **how: Any) -> list[Change]:
    """Change what holds as `schedule.take` does."""
    changes = schedule.take(course.edit(by), says, **how)
    course.totals.wake()
    return changes


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/schedule")
    def show_schedule(person: access.InstructorVisitor) -> Response:
        return _show_page(course, person, "".join(_write_csv(course)))

    @pages.get("/schedule.csv")
    def download(_by: access.InstructorVisitor) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="schedule.csv"'}
        return StreamingResponse(_write_csv(course), media_type="text/csv", headers=headers)

    @pages.post("/schedule")
    def put(person: access.InstructorSender, form: Fields) -> Response:
        text, sure = form.get("text", ""), "sure" in form
        changes = _take(course, text.encode(), person, dry_run=not sure, seen=form.get("seen"))
        if sure:
            return RedirectResponse("/schedule", 303)
        return _show_page(course, person, text, changes)

    @pages.post("/schedule/dates")
    def set_dates(person: access.InstructorSender, form: Fields) -> Response:
        says: dict[str, dict[str, Any]] = {}
        seen = form.pop("seen", None)
        for field, text in form.items():
            kind, _, name = field.partition(".")
            if kind not in DATES:
                raise Refused(422, f"schedule: got a date called {kind[:40]!r}.")
            says.setdefault(course.catalog.resolve(name), {})[kind] = text.strip() or None
        _put(course, says, person, dry_run=False, seen=seen)
        return RedirectResponse("/schedule", 303)

    @pages.post("/labs/{lab}/held")
    def hold(person: access.InstructorSender, lab: RecordedLab, form: Fields) -> Response:
        _put(course, {lab: {"held": "held" in form}}, person, dry_run=False)
        return RedirectResponse("/schedule", 303)

    @pages.post("/schedule/shift")
    def shift(person: access.InstructorSender, form: Fields) -> Response:
        text = form.get("weeks", "")
        weeks = int(text) if re.fullmatch("-?[0-9]{1,3}", text) else text
        schedule.shift(course.edit(person), weeks, dry_run=False, seen=form.get("seen"))
        return RedirectResponse("/schedule", 303)


def _show_page(
    course: Course, person: Person, text: str, changes: list[Change] | None = None
) -> Response:
    rules = course.store.dates.calendar().rules
    labs = {name: rules.get(name) for name in course.catalog.names}
    shown: dict[str, Any] = {"text": text, "changes": changes, "seen": schedule.digest(rules)}
    return course.page("schedule", person=person, labs=labs, **shown)


PLAN_BYTES = 8 << 20  # some ten thousand comments


def _add_term(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how a term's plan leaves a course and comes into the next."""

    @api.get("/term")
    def read_plan(_by: access.Instructor) -> dict[str, Any]:
        return current_plan(course.store.database)

    @api.post("/term", openapi_extra=openapi.TERM)
    def import_plan(by: access.Instructor, body: Json, dry_run: bool = False) -> dict[str, Any]:
        return _take_term(course, body, by, dry_run=dry_run)

    @pages.get("/term")
    def show_form(person: access.InstructorVisitor) -> Response:
        return course.page("term", person=person, changes=None, fields={})

    @pages.get("/term.json")
    def download(_by: access.InstructorVisitor) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="term.json"'}
        return JSONResponse(current_plan(course.store.database), headers=headers)

    @pages.post("/term")
    async def import_file(person: access.InstructorSender, request: Request) -> Response:
        fields = await text_of_file(request, "term: choose the file of a term's plan", PLAN_BYTES)
        plan, dry_run = _read_form(fields), "sure" not in fields
        changes = await run_in_threadpool(_take_term, course, plan, person, dry_run=dry_run)
        shown: dict[str, Any] = {"changes": changes, "fields": fields}
        return course.page("term", person=person, **shown)


def _take_term(
    course: Course, body: dict[str, Any], by: Person, *, dry_run: bool
) -> dict[str, Any]:
    catalog = course.catalog
    rubrics = {name: partial(catalog.rubrics, name) for name in catalog.names}
    changes = take(course.edit(by), body, rubrics, dry_run=dry_run)
    course.totals.wake()
    return changes


def _read_form(fields: dict[str, str]) -> dict[str, Any]:
    """Return what a form asks for; an empty field says nothing."""
    try:
        term = read_json(fields["text"])
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"term: the file is not JSON: {error}.") from error
    filled = {name: text.strip() for name in _ASKED if (text := fields.get(name, "")).strip()}
    weeks = filled.get("weeks", "")
    number = weeks.removeprefix("-").isascii() and weeks.removeprefix("-").isdigit()
    return {"term": term, **filled, **({"weeks": int(weeks[:9])} if number else {})}


_ASKED = ("start", "weeks", "zone")
