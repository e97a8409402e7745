"""Marking by hand: what waits for a person, one answer after the other, and the marks."""

import re
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.records import marking
from autograder.service.web import openapi, views
from autograder.service.web.access import CallersEntry, Staff, StaffSender, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, Json, LabName


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how staff mark answers."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.put("/submissions/{number}/marks", openapi_extra=openapi.MARKS)
    def marks(by: Staff, entry: CallersEntry, body: Json) -> dict[str, Any]:
        course.store.submissions.mark(entry.id, body, by)
        return views.summary(course.store.submissions.get(entry.id) or entry)


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/grading")
    def grading(person: StaffVisitor) -> Response:
        return course.page("grading", person=person, piles=marking.waiting(course.store.database))

    @pages.get("/grading/{lab}/{question}")
    def answer(
        person: StaffVisitor,
        lab: LabName,
        question: str,
        at: int = 0,
        named: bool = False,
        blank: bool = False,
    ) -> Response:
        desk = marking.desk(course.store.submissions, lab, question, at, written=not blank)
        if desk is None:
            return RedirectResponse("/grading", 303)
        place: dict[str, Any] = {
            "lab": lab,
            "question": question,
            "path": _path(lab, question),
            "named": named,
            "blank": blank,
        }
        return course.page("answer", person=person, **place, **vars(desk))

    @pages.post("/grading/{lab}/{question}")
    def mark(person: StaffSender, lab: LabName, question: str, form: Fields) -> Response:
        at = int(form["at"]) if re.fullmatch("[0-9]{1,19}", form.get("at", "")) else 0
        items = [text for name, text in form.items() if name.startswith("item")]
        values = {"points": form.get("points", ""), "comment": form.get("comment", "")}
        course.store.submissions.mark(at, {question: {**values, "items": items}}, person)
        blank = form.get("blank") == "1"
        after = marking.next_waiting(course.store.submissions, lab, question, at, written=not blank)
        path = f"{_path(lab, question)}?{'blank=1&' if blank else ''}at={after}"
        return RedirectResponse(path if after else "/grading", 303)

    @pages.post("/submissions/{number}/manual")
    def manual(person: StaffSender, number: int, form: Fields) -> Response:
        mark = {"points": form.get("score", ""), "comment": form.get("comment", "")}
        course.store.submissions.mark(number, {form.get("question", ""): mark}, person)
        return RedirectResponse(f"/submissions/{number}", 303)


def _path(lab: str, question: str) -> str:
    return f"/grading/{quote(lab)}/{quote(question, safe='')}"
