"""The plan of a term: given out for the next, and taken over from the last."""

import json
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response

from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.terms.imports import take
from autograder.service.records.terms.plans import current_plan
from autograder.service.web import openapi
from autograder.service.web.access import Instructor, InstructorSender, InstructorVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import Json, once, text_of_file

PLAN_BYTES = 8 << 20  # some ten thousand comments


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how a term's plan leaves a course and comes into the next."""

    @api.get("/term")
    def plan(_by: Instructor) -> dict[str, Any]:
        return current_plan(course.store.database)

    @api.post("/term", openapi_extra=openapi.TERM)
    def import_(by: Instructor, body: Json, dry_run: bool = False) -> dict[str, Any]:
        return _take(course, body, by, dry_run=dry_run)

    @pages.get("/term")
    def form(person: InstructorVisitor) -> Response:
        return course.page("term", person=person, changes=None, fields={})

    @pages.get("/term.json")
    def download(_by: InstructorVisitor) -> Response:
        headers = {"Content-Disposition": 'attachment; filename="term.json"'}
        return JSONResponse(current_plan(course.store.database), headers=headers)

    @pages.post("/term")
    async def show(person: InstructorSender, request: Request) -> Response:
        fields = await text_of_file(request, "term: choose the file of a term's plan", PLAN_BYTES)
        plan, dry_run = _asked(fields), "sure" not in fields
        changes = await run_in_threadpool(_take, course, plan, person, dry_run=dry_run)
        shown: dict[str, Any] = {"changes": changes, "fields": fields}
        return course.page("term", person=person, **shown)


def _take(course: Course, body: dict[str, Any], by: Person, *, dry_run: bool) -> dict[str, Any]:
    catalog, store = course.catalog, course.store
    rubrics = {name: partial(catalog.rubrics, name) for name in catalog.names}
    changes = take(store.database, store.clock(), body, rubrics, by, dry_run=dry_run)
    course.totals.wake()
    return changes


def _asked(fields: dict[str, str]) -> dict[str, Any]:
    """Return what a form asks for; an empty field says nothing."""
    try:
        term = json.loads(fields["text"], object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"term: the file is not JSON: {error}.") from error
    filled = {name: text.strip() for name in _ASKED if (text := fields.get(name, "")).strip()}
    weeks = filled.get("weeks", "")
    number = weeks.removeprefix("-").isascii() and weeks.removeprefix("-").isdigit()
    return {"term": term, **filled, **({"weeks": int(weeks[:9])} if number else {})}


_ASKED = ("start", "weeks", "zone")
