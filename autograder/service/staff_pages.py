"""The pages of staff: gradebook, marks by hand, re-gradings, dates, the queue, the audit log."""

import re
from dataclasses import fields
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service import (
    audit_log,
    auth,
    exports,
    gradebook,
    marking,
    operations,
    overview,
    staff_api,
    views,
)
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import Fields
from autograder.service.page import Paging, page, visitor
from autograder.service.policy import Rules
from autograder.service.roster import Person
from autograder.service.staff_api import PageNumber
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
    _marking_routes(pages, course)
    return pages


def _staff(request: Request, course: Course) -> Person:
    return auth.staff_only(visitor(request, course))


def _staff_form(request: Request, course: Course) -> Person:
    auth.same_origin(request, course)
    return _staff(request, course)


def _gradebook_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/gradebook")
    def book(
        request: Request,
        lab: str = "",
        section: str = "",
        search: str = "",
        sort: str = "login",
        number: PageNumber = 1,
    ) -> Response:
        person = _staff(request, course)
        asked = gradebook.Asked(lab, section, search, sort, number)
        found = gradebook.page(course.roster, course.ledger, asked)
        labs = course.ledger.labs()
        order = sort if sort != "login" else ""  # as it is when nothing is said
        query = {"lab": lab, "section": section, "search": search, "sort": order}
        return page(
            "gradebook",
            person=person,
            rows=found.rows,
            learners=found.learners,
            labs=[lab] if lab else labs,
            all_labs=labs,
            sections=course.roster.sections(),
            orders=_orders(labs),
            asked=asked,
            queue=operations.state(course),
            paging=Paging("/gradebook", number, found.count, query),
            formats=list(exports.FORMATS),
            names=FORMAT_NAMES,
        )

    @pages.get("/gradebook/export")
    def export(request: Request, format: str = "csv") -> Response:
        _staff(request, course)
        pieces = exports.export(format, course.roster, course.ledger)
        kind = exports.media_type(format)
        name = f'attachment; filename="gradebook-{format}.{kind.partition("/")[2]}"'
        headers = {"Content-Disposition": name}
        return StreamingResponse(exports.chunks(pieces), media_type=kind, headers=headers)

    @pages.get("/learners/{login}")
    def learner(request: Request, login: str) -> Response:
        person = _staff(request, course)
        found = course.roster.find(login)
        if found is None:
            raise Refused(404, f"nobody here has the login {login[:100]!r}.")
        labs, entries = views.labs_for(found, course), course.ledger.all(person_id=found.id)
        return page("learner", person=person, learner=found, labs=labs, entries=entries)

    @pages.get("/audit")
    def audit(request: Request, number: PageNumber = 1) -> Response:
        person = _staff(request, course)
        lines, total = audit_log.read(course.database, number, staff_api.PAGE_LINES)
        paging = Paging("/audit", number, pages_of(total, staff_api.PAGE_LINES))
        return page("audit", person=person, entries=lines, paging=paging)


def _orders(labs: list[str]) -> list[tuple[str, str]]:
    """Return what the gradebook can be sorted by, and how it is called."""
    points = [(f"-{lab}", f"{lab}, the best first") for lab in labs]
    points += [(lab, f"{lab}, the least first") for lab in labs]
    totals = [("-total", "total, the best first"), ("total", "total, the least first")]
    return [*((name, name) for name in gradebook.ORDERS), *totals, *points]


def _queue_routes(pages: APIRouter, course: Course) -> None:
    @pages.get("/queue")
    def queue(request: Request) -> Response:
        return page("queue", person=_staff(request, course), queue=operations.state(course))

    @pages.post("/queue/resume")
    def resume(request: Request) -> Response:
        _staff_form(request, course)
        course.queue.resume()
        return RedirectResponse("/queue", 303)

    @pages.post("/queue/retry")
    def retry(request: Request) -> Response:
        _staff_form(request, course)
        operations.retry_parked(course)
        return RedirectResponse("/queue", 303)

    @pages.post("/submissions/{number}/regrade")
    def regrade(request: Request, number: int) -> Response:
        person = _staff_form(request, course)
        if course.claims.regrade(number, by=person.login):
            course.queue.wake()
        return RedirectResponse(f"/submissions/{number}", 303)

    @pages.post("/submissions/{number}/manual")
    def manual(request: Request, number: int, form: Fields) -> Response:
        person = _staff_form(request, course)
        mark = {"points": form.get("score", ""), "comment": form.get("comment", "")}
        if not course.ledger.mark(number, {form.get("question", ""): mark}, person):
            raise Refused(409, f"submission {number}: it is not graded yet.")
        return RedirectResponse(f"/submissions/{number}", 303)


def _lab_routes(pages: APIRouter, course: Course) -> None:
    @pages.post("/labs/{lab}/dates")
    def dates(request: Request, lab: str, form: Fields) -> Response:
        person = auth.instructor_only(_staff_form(request, course))
        rules = Rules.read(_rules(form))
        course.dates.set_rules(course.shelf.resolve(lab), rules, person)
        return RedirectResponse("/labs", 303)

    @pages.post("/labs/{lab}/extensions")
    def extension(request: Request, lab: str, form: Fields) -> Response:
        person = auth.instructor_only(_staff_form(request, course))
        learner = staff_api.known(course, form.get("login", ""))
        due = date(form.get("due", "").strip() or None, "extension: due")
        course.dates.extend(course.shelf.resolve(lab), learner, due, person)
        return RedirectResponse(f"/learners/{quote(learner.login, safe='')}", 303)

    @pages.get("/labs/{lab}/numbers")
    def numbers(request: Request, lab: str) -> Response:
        person, full = _staff(request, course), course.shelf.resolve(lab)
        found = overview.overview(course.roster, course.ledger, full)
        return page("numbers", person=person, lab=full, found=found)

    @pages.get("/labs/{lab}/similarity")
    def similarity(request: Request, lab: str) -> Response:
        person, full = _staff(request, course), course.shelf.resolve(lab)
        return page("similarity", person=person, lab=full, found=course.similarity.of(full))

    @pages.get("/labs/{lab}/similarity/{question}")
    def side_by_side(request: Request, lab: str, question: str, left: int, right: int) -> Response:
        person, full = _staff(request, course), course.shelf.resolve(lab)
        entries = [views.entry_for(person, course.ledger, number) for number in (left, right)]
        texts = course.similarity.texts(full, question, [left, right])
        sides = list(zip(entries, texts, strict=True))
        return page("side_by_side", person=person, lab=full, question=question, sides=sides)

    @pages.post("/labs/{lab}/regrade")
    def regrade(request: Request, lab: str, form: Fields) -> Response:
        person = _staff_form(request, course)
        question = form.get("question", "").strip() or None
        batch = staff_api.start_regrade(course, lab, question, person)
        return RedirectResponse(f"/regrades/{batch}", 303)

    @pages.get("/regrades/{batch}")
    def changes(request: Request, batch: int) -> Response:
        person = _staff(request, course)
        found, changed = course.regrades.get(batch)
        return page("regrade", person=person, batch=found, changes=changed)

    @pages.get("/regrades/{batch}/state")
    def state(request: Request, batch: int) -> dict[str, Any]:
        _staff(request, course)
        return {"state": str(course.regrades.get(batch)[0].waiting)}

    @pages.post("/regrades/{batch}/publish")
    def publish(request: Request, batch: int) -> Response:
        person = auth.instructor_only(_staff_form(request, course))
        course.regrades.publish(batch, person)
        return RedirectResponse(f"/regrades/{batch}", 303)


def _rules(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form of a lab's dates says, as JSON would."""
    given: dict[str, Any] = {}
    for field in fields(Rules):
        text = form.get(field.name, "").strip()
        if field.name in ("opens", "due", "late_until"):
            given[field.name] = text or None
        elif field.name in ("solutions", "leaderboard"):
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
    def grading(request: Request) -> Response:
        person = _staff(request, course)
        return page("grading", person=person, waiting=course.ledger.to_mark())

    @pages.get("/grading/{lab}/{question}")
    def answer(
        request: Request,
        lab: str,
        question: str,
        at: int = 0,
        named: Annotated[bool, Query()] = False,
    ) -> Response:
        person = _staff(request, course)
        desk = marking.desk(course.ledger, course.shelf.resolve(lab), question, at)
        if desk is None:
            return RedirectResponse("/grading", 303)
        path = f"/grading/{quote(lab)}/{quote(question, safe='')}"
        return page(
            "answer",
            person=person,
            lab=lab,
            question=question,
            named=named,
            path=path,
            **vars(desk),
        )

    @pages.post("/grading/{lab}/{question}")
    def mark(request: Request, lab: str, question: str, form: Fields) -> Response:
        person, full = _staff_form(request, course), course.shelf.resolve(lab)
        at = int(form["at"]) if re.fullmatch("[0-9]{1,19}", form.get("at", "")) else 0
        items = [text for name, text in form.items() if name.startswith("item")]
        given = {
            "points": form.get("points", ""),
            "comment": form.get("comment", ""),
            "items": items,
        }
        if not course.ledger.mark(at, {question: given}, person):
            raise Refused(409, f"submission {at}: it is not graded yet.")
        after = marking.next_waiting(course.ledger, full, question, at)
        path = f"/grading/{quote(lab)}/{quote(question, safe='')}"
        return RedirectResponse(f"{path}?at={after}" if after else "/grading", 303)
