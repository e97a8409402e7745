"""The gradebook and its exports; what staff decide of whole labs, and of the course total."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.records import without_number
from autograder.service.errors import Refused
from autograder.service.grading.catalog import Titles
from autograder.service.records.grades import course_rule
from autograder.service.records.grades.course_rule import CourseRule
from autograder.service.records.grades.decisions import decide
from autograder.service.records.people import Person
from autograder.service.records.roster.teams import find_senders
from autograder.service.reports import exports, gradebook, platforms
from autograder.service.reports.everybodys_totals import bring_up_to_date
from autograder.service.web import access, openapi, views
from autograder.service.web.course import Course
from autograder.service.web.forms import AnyLabName, Asked, Body, Fields, Json, RecordedLab, number
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
    _add_decisions(api, pages, course)
    _add_book(api, pages, course)
    _add_export(api, pages, course)


def _add_book(api: APIRouter, pages: APIRouter, course: Course) -> None:
    store = course.store

    @api.get("/gradebook")
    def read_book(_by: access.Staff, lab: AnyLabName, asked: Asked) -> dict[str, Any]:
        if asked.sort.removeprefix("-") == gradebook.COURSE:  # a program has no line to read
            bring_up_to_date(store.submissions)
        rows_page = gradebook.page(store.submissions, replace(asked, lab=lab))
        numbers = [entry.id for row in rows_page.rows for entry in row.labs.values()]
        teams = find_senders(store.database, numbers)
        return {
            "rows": [views.gradebook_row(row, teams) for row in rows_page.rows],
            "page": asked.page,
            "pages": rows_page.count,
            "learners": rows_page.learners,
        }

    @pages.get("/gradebook")
    def show_book(person: access.StaffVisitor, asked: Asked) -> Response:
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
            orders=_list_orders(labs, course.catalog.titles),
            asked=asked,
            queue=course.queue_state(),
            paging=Paging("/gradebook", asked.page, rows_page.count, query),
            names=FORMAT_NAMES,
            rule=course.rule().words(course.catalog.titles),
        )


def _add_export(api: APIRouter, pages: APIRouter, course: Course) -> None:
    store = course.store
    described: dict[str, Any] = {"response_class": Response, "responses": openapi.EXPORT}

    @api.get("/export", **described)
    def export(_by: access.Staff, lab: AnyLabName, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, store.roster, store.submissions, lab=lab)
        return StreamingResponse(exports.chunks(pieces), media_type=kind)

    def book_of(lab: str) -> exports.Book:
        return exports.Book(store.roster, store.submissions, lab, course.catalog.titles)

    @api.get("/export/notes")
    def read_notes(_by: access.Staff, lab: AnyLabName) -> dict[str, Any]:
        return {"problems": [], "skipped": [], "not_final": exports.not_final(book_of(lab))}

    @api.post("/export/notes", openapi_extra=openapi.CSV)
    def note_problems(
        _by: access.Staff, lab: AnyLabName, template: Body, format: str = "canvas"
    ) -> dict[str, Any]:
        book = book_of(lab)
        done = platforms.fill_template(format, template, book)
        notes = {"problems": done.problems, "skipped": done.skipped}
        return {**notes, "not_final": exports.not_final(book)}

    @api.post("/export", **described, openapi_extra=openapi.CSV)
    def fill(
        _by: access.Staff, lab: AnyLabName, template: Body, format: str = "canvas"
    ) -> Response:
        pieces = platforms.fill_template(format, template, book_of(lab)).lines()
        return StreamingResponse(exports.chunks(pieces), media_type="text/csv")

    @pages.get("/gradebook/export")
    def download(_by: access.StaffVisitor, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, store.roster, store.submissions)
        name = f'attachment; filename="gradebook-{format}.{kind.partition("/")[2]}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(exports.chunks(pieces), media_type=kind, headers=headers)


def _list_orders(labs: list[str], titles: Titles) -> list[tuple[str, str]]:
    """Return what the gradebook can be sorted by, and how it is called."""
    points = [(f"-{lab}", f"{titles[lab]}, the best first") for lab in labs]
    points += [(lab, f"{titles[lab]}, the least first") for lab in labs]
    totals = [("-total", "points, the best first"), ("total", "points, the least first")]
    course = ("course total, the best first", "course total, the least first")
    totals += zip((f"-{gradebook.COURSE}", gradebook.COURSE), course, strict=True)
    return [*((name, name) for name in gradebook.ORDERS), *totals, *points]


def _add_decisions(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what staff decide about labs, and the course's rule."""
    store = course.store

    @api.get("/rule")
    def read_rule(_person: access.Caller) -> dict[str, Any]:
        return _describe(course, course.rule())

    @api.put("/rule", openapi_extra=openapi.RULE)
    def put_rule(by: access.Instructor, body: Json) -> dict[str, Any]:
        return _describe(course, _put(course, body, by))

    @api.put("/labs/{lab}/grades/{login}", openapi_extra=openapi.GRADE)
    def put_grade(
        by: access.Instructor, lab: RecordedLab, login: str, body: Json
    ) -> dict[str, Any]:
        learner = course.person(login)
        decide(course.edit(by), lab, learner, body)
        now = [vars(d) for d in store.submissions.decisions([learner.id], lab)]
        decided = {name: now[0][name] for name in ("points", "max_score", "comment")} if now else {}
        excused = bool(now) and decided["points"] is None
        return {"lab": lab, "login": learner.login, "excused": excused, **decided}

    @pages.get("/rule")
    def show_rule(person: access.InstructorVisitor) -> Response:
        held = course.rule()
        words = held.words(course.catalog.titles)
        labs = course.catalog.names
        return course.page("rule", person=person, rule=held, words=words, labs=labs)

    @pages.post("/rule")
    def change_rule(person: access.InstructorSender, form: Fields) -> Response:
        weights = {
            name.removeprefix("weight-"): number(text)
            for name, text in form.items()
            if name.startswith("weight-") and text.strip()
        }
        drop = form.get("drop_lowest", "").strip()
        whole = int(drop) if drop.isascii() and drop.isdigit() and len(drop) < 9 else drop
        _put(course, {"drop_lowest": whole, "weights": weights}, person)
        return RedirectResponse("/rule", 303)

    @pages.post("/learners/{login}/grades")
    def decide_grade(person: access.InstructorSender, login: str, form: Fields) -> Response:
        learner, lab = course.person(login), course.catalog.resolve(form.get("lab", ""))
        decide(course.edit(person), lab, learner, _read_decision(form))
        return RedirectResponse(f"/learners/{quote(learner.login, safe='')}", 303)


def _describe(course: Course, rule: CourseRule) -> dict[str, Any]:
    return {**rule.to_dict(), "words": rule.words(course.catalog.titles)}


def _put(course: Course, body: dict[str, Any], by: Person) -> CourseRule:
    labs = course.catalog.names
    if isinstance(body.get("weights"), dict):  # labs may be called without their numbers
        full = {without_number(lab): lab for lab in labs}
        weights = {full.get(lab, lab): weight for lab, weight in body["weights"].items()}
        body = {**body, "weights": weights}
    rule = course_rule.put(course.edit(by), body, labs)
    course.totals.wake()
    return rule


def _read_decision(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form says, as JSON would."""
    kind, comment = form.get("what", ""), form.get("comment", "")
    points, full = form.get("points", "").strip(), form.get("max_score", "").strip()
    if kind == "points" and points:
        most = {"max_score": number(full)} if full else {}
        return {"points": number(points), "comment": comment, **most}
    if kind in ("excused", "none") and not points:
        return {"excused": kind == "excused", "comment": comment}
    expected = "points and the button that sets them, or none and another button"
    raise Refused(422, f"grade: expected {expected}.")
