"""The gradebook, and its exports."""

from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response, StreamingResponse

from autograder.service.grading.catalog import Titles
from autograder.service.records.roster.teams import handed_in_by
from autograder.service.reports import exports, gradebook, platforms
from autograder.service.reports.everybodys_totals import bring_up_to_date
from autograder.service.web import openapi, views
from autograder.service.web.access import Staff, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import AnyLabName, Asked, Body
from autograder.service.web.page import Paging

FORMAT_NAMES = {
    "totals": "spreadsheets",
    "csv": "spreadsheets, a line a lab",
    "canvas": "Canvas",
    "moodle": "Moodle",
    "gradescope": "Gradescope",
}


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what counts of everybody, for staff."""
    _add_api(api, course)
    _add_export(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    store = course.store

    @api.get("/gradebook")
    def book(_by: Staff, lab: AnyLabName, asked: Asked) -> dict[str, Any]:
        if asked.sort.removeprefix("-") == gradebook.COURSE:  # a program has no line to read
            bring_up_to_date(store.submissions)
        rows_page = gradebook.page(store.submissions, replace(asked, lab=lab))
        numbers = [entry.id for row in rows_page.rows for entry in row.labs.values()]
        teams = handed_in_by(store.database, numbers)
        return {
            "rows": [views.gradebook_row(row, teams) for row in rows_page.rows],
            "page": asked.page,
            "pages": rows_page.count,
            "learners": rows_page.learners,
        }


def _add_export(api: APIRouter, course: Course) -> None:
    store = course.store
    described: dict[str, Any] = {"response_class": Response, "responses": openapi.EXPORT}

    @api.get("/export", **described)
    def export(_by: Staff, lab: AnyLabName, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, store.roster, store.submissions, lab=lab)
        return StreamingResponse(exports.chunks(pieces), media_type=kind)

    def book_of(lab: str) -> exports.Book:
        return exports.Book(store.roster, store.submissions, lab)

    @api.get("/export/notes")
    def notes(_by: Staff, lab: AnyLabName) -> dict[str, Any]:
        return {"problems": [], "not_final": exports.not_final(book_of(lab))}

    @api.post("/export/notes", openapi_extra=openapi.CSV)
    def notes_on(
        _by: Staff, lab: AnyLabName, template: Body, format: str = "canvas"
    ) -> dict[str, Any]:
        book = book_of(lab)
        problems = platforms.filled(format, template, book).problems
        return {"problems": problems, "not_final": exports.not_final(book)}

    @api.post("/export", **described, openapi_extra=openapi.CSV)
    def fill(_by: Staff, lab: AnyLabName, template: Body, format: str = "canvas") -> Response:
        pieces = platforms.filled(format, template, book_of(lab)).lines()
        return StreamingResponse(exports.chunks(pieces), media_type="text/csv")


def _add_pages(pages: APIRouter, course: Course) -> None:
    store = course.store

    @pages.get("/gradebook")
    def book(person: StaffVisitor, asked: Asked) -> Response:
        rows_page = gradebook.page(store.submissions, asked)
        if rows_page.stale:
            course.totals.wake()
        labs = store.submissions.labs()
        order = asked.sort if asked.sort != "login" else ""  # as it is when nothing is said
        query = {"lab": asked.lab, "section": asked.section, "search": asked.search, "sort": order}
        return course.page(
            "gradebook",
            person=person,
            rows=rows_page.rows,
            stale=rows_page.stale,
            learners=rows_page.learners,
            labs=[asked.lab] if asked.lab else labs,
            all_labs=labs,
            sections=store.roster.sections(),
            orders=_orders(labs, course.catalog.titles),
            asked=asked,
            queue=course.queue_state(),
            paging=Paging("/gradebook", asked.page, rows_page.count, query),
            names=FORMAT_NAMES,
            rule=course.rule().words(course.catalog.titles),
        )

    @pages.get("/gradebook/export")
    def export(_by: StaffVisitor, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, store.roster, store.submissions)
        name = f'attachment; filename="gradebook-{format}.{kind.partition("/")[2]}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(exports.chunks(pieces), media_type=kind, headers=headers)


def _orders(labs: list[str], titles: Titles) -> list[tuple[str, str]]:
    """Return what the gradebook can be sorted by, and how it is called."""
    points = [(f"-{lab}", f"{titles[lab]}, the best first") for lab in labs]
    points += [(lab, f"{titles[lab]}, the least first") for lab in labs]
    totals = [("-total", "points, the best first"), ("total", "points, the least first")]
    course = ("course total, the best first", "course total, the least first")
    totals += zip((f"-{gradebook.COURSE}", gradebook.COURSE), course, strict=True)
    return [*((name, name) for name in gradebook.ORDERS), *totals, *points]
