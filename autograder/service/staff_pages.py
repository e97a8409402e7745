"""The pages of staff: gradebook, marks by hand, re-gradings, dates, the queue, the audit log."""

import re
from dataclasses import fields
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service import audit_log, exports, gradebook, marking, operations, views
from autograder.service.auth import InstructorSender, StaffSender, StaffVisitor
from autograder.service.course import Course
from autograder.service.forms import Asked, Fields, LabName, PageNumber
from autograder.service.page import Paging, page
from autograder.service.policy import Rules
from autograder.service.staff_api import PAGE_LINES
from autograder.service.submissions import pages_of
from autograder.service.times import date

FORMAT_NAMES = {
    "csv": "spreadsheets",
    "canvas": "Canvas",
    "moodle": "Moodle",
    "gradescope": "Gradescope",
}


def router(course: Course) -> APIRouter:
    """Return the routes of the pages that are for staff."""
    pages = APIRouter(include_in_schema=False)
    _gradebook_routes(pages, course)
    _queue_routes(pages, course)
    _lab_routes(pages, course)
    _batch_routes(pages, course)
    _marking_routes(pages, course)
    return pages


def _gradebook_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/gradebook")
    def book(person: StaffVisitor, asked: Asked) -> Response:
        found = gradebook.page(course.roster, course.submissions, asked)
        labs = course.submissions.labs()
        order = asked.sort if asked.sort != "login" else ""  # as it is when nothing is said
        query = {"lab": asked.lab, "section": asked.section, "search": asked.search, "sort": order}
        return page(
            "gradebook",
            person=person,
            rows=found.rows,
            learners=found.learners,
            labs=[asked.lab] if asked.lab else labs,
            all_labs=labs,
            sections=course.roster.sections(),
            orders=_orders(labs),
            asked=asked,
            queue=operations.state(course),
            paging=Paging("/gradebook", asked.page, found.count, query),
            names=FORMAT_NAMES,
        )

    @pages.get("/gradebook/export")
    def export(_by: StaffVisitor, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, course.roster, course.submissions)
        name = f'attachment; filename="gradebook-{format}.{kind.partition("/")[2]}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(exports.chunks(pieces), media_type=kind, headers=headers)

    @pages.get("/learners/{login}")
    def learner(person: StaffVisitor, login: str) -> Response:
        found = course.person(login)
        labs, entries = views.labs_for(found, course), course.submissions.all(person_id=found.id)
        drafts = views.drafts_for(found, course)
        said: dict[str, Any] = {"labs": labs, "entries": entries, "drafts": drafts}
        return page("learner", person=person, learner=found, **said)

    @pages.get("/audit")
    def audit(person: StaffVisitor, number: PageNumber = 1) -> Response:
        lines, total = audit_log.read(course.database, number, PAGE_LINES)
        paging = Paging("/audit", number, pages_of(total, PAGE_LINES))
        return page("audit", person=person, entries=lines, paging=paging)


def _orders(labs: list[str]) -> list[tuple[str, str]]:
    """Return what the gradebook can be sorted by, and how it is called."""
    points = [(f"-{lab}", f"{lab}, the best first") for lab in labs]
    points += [(lab, f"{lab}, the least first") for lab in labs]
    totals = [("-total", "total, the best first"), ("total", "total, the least first")]
    return [*((name, name) for name in gradebook.ORDERS), *totals, *points]


def _queue_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/queue")
    def queue(person: StaffVisitor) -> Response:
        return page("queue", person=person, queue=operations.state(course))

    @pages.post("/queue/resume")
    def resume(_by: StaffSender) -> Response:
        course.queue.resume()
        return RedirectResponse("/queue", 303)

    @pages.post("/queue/retry")
    def retry(_by: StaffSender) -> Response:
        course.retry_parked()
        return RedirectResponse("/queue", 303)

    @pages.post("/submissions/{number}/regrade")
    def regrade(person: StaffSender, number: int) -> Response:
        course.regrade(number, person)
        return RedirectResponse(f"/submissions/{number}", 303)

    @pages.post("/submissions/{number}/manual")
    def manual(person: StaffSender, number: int, form: Fields) -> Response:
        mark = {"points": form.get("score", ""), "comment": form.get("comment", "")}
        course.submissions.mark(number, {form.get("question", ""): mark}, person)
        return RedirectResponse(f"/submissions/{number}", 303)


def _lab_routes(pages: APIRouter, course: Course) -> None:
    @pages.post("/labs/{lab}/dates")
    def dates(person: InstructorSender, lab: LabName, form: Fields) -> Response:
        course.dates.set_rules(lab, Rules.read(_rules(form)), person)
        return RedirectResponse("/labs", 303)

    @pages.post("/labs/{lab}/extensions")
    def extension(person: InstructorSender, lab: LabName, form: Fields) -> Response:
        learner = course.person(form.get("login", ""))
        due = date(form.get("due", "").strip() or None, "extension: due")
        course.dates.extend(lab, learner, due, person)
        return RedirectResponse(f"/learners/{quote(learner.login, safe='')}", 303)

    @pages.get("/labs/{lab}/numbers")
    def numbers(person: StaffVisitor, lab: LabName) -> Response:
        found = gradebook.overview(course.roster, course.submissions, lab)
        return page("numbers", person=person, lab=lab, found=found)

    @pages.get("/labs/{lab}/similarity")
    def similarity(person: StaffVisitor, lab: LabName) -> Response:
        return page("similarity", person=person, lab=lab, found=course.similarity.of(lab))

    @pages.get("/labs/{lab}/similarity/{question}")
    def side_by_side(
        person: StaffVisitor, lab: LabName, question: str, left: int, right: int
    ) -> Response:
        entries = [views.entry_for(person, course.submissions, number) for number in (left, right)]
        texts = course.similarity.texts(lab, question, [left, right])
        sides = list(zip(entries, texts, strict=True))
        return page("side_by_side", person=person, lab=lab, question=question, sides=sides)


def _batch_routes(pages: APIRouter, course: Course) -> None:
    @pages.post("/labs/{lab}/regrade")
    def regrade(person: StaffSender, lab: LabName, form: Fields) -> Response:
        batch = course.regrade_lab(lab, form.get("question", "").strip() or None, person)
        return RedirectResponse(f"/regrades/{batch}", 303)

    @pages.get("/regrades/{batch}")
    def changes(person: StaffVisitor, batch: int) -> Response:
        found, changed = course.regrades.get(batch)
        return page("regrade", person=person, batch=found, changes=changed)

    @pages.get("/regrades/{batch}/state")
    def state(_by: StaffVisitor, batch: int) -> dict[str, Any]:
        return {"state": str(course.regrades.get(batch)[0].waiting)}

    @pages.post("/regrades/{batch}/publish")
    def publish(person: InstructorSender, batch: int) -> Response:
        course.regrades.publish(batch, person)
        return RedirectResponse(f"/regrades/{batch}", 303)


def _rules(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form of a lab's dates says, as JSON would."""
    given: dict[str, Any] = {}
    for field in fields(Rules):
        text = form.get(field.name, "").strip()
        if field.name in ("opens", "due", "late_until"):
            given[field.name] = text or None
        elif field.default is False:  # a box to tick
            given[field.name] = bool(text)
        elif text:
            given[field.name] = _number(text, whole=field.name == "attempts")
    return given


def _number(text: str, *, whole: bool) -> float | str:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        return text  # which `Rules.read` refuses, by name


def _marking_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/grading")
    def grading(person: StaffVisitor) -> Response:
        return page("grading", person=person, piles=marking.waiting(course.database))

    @pages.get("/grading/{lab}/{question}")
    def answer(
        person: StaffVisitor,
        lab: LabName,
        question: str,
        at: int = 0,
        named: bool = False,
        blank: bool = False,
    ) -> Response:
        desk = marking.desk(course.submissions, lab, question, at, written=not blank)
        if desk is None:
            return RedirectResponse("/grading", 303)
        said: dict[str, Any] = {
            "lab": lab,
            "question": question,
            "path": _path(lab, question),
            "named": named,
            "blank": blank,
        }
        return page("answer", person=person, **said, **vars(desk))

    @pages.post("/grading/{lab}/{question}")
    def mark(person: StaffSender, lab: LabName, question: str, form: Fields) -> Response:
        at = int(form["at"]) if re.fullmatch("[0-9]{1,19}", form.get("at", "")) else 0
        items = [text for name, text in form.items() if name.startswith("item")]
        given = {"points": form.get("points", ""), "comment": form.get("comment", "")}
        course.submissions.mark(at, {question: {**given, "items": items}}, person)
        blank = form.get("blank") == "1"
        after = marking.next_waiting(course.submissions, lab, question, at, written=not blank)
        path = f"{_path(lab, question)}?{'blank=1&' if blank else ''}at={after}"
        return RedirectResponse(path if after else "/grading", 303)


def _path(lab: str, question: str) -> str:
    return f"/grading/{quote(lab)}/{quote(question, safe='')}"
