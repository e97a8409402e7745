"""Announcements: staff write them, learners read them, here and in their notebooks."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.records.announcements import (
    Announcement,
    announce,
    list_announcements,
    mark_read,
    withdraw,
)
from autograder.service.records.people import Person
from autograder.service.times import iso
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, Json
from autograder.service.web.page import render_markdown


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how announcements are written, read and withdrawn."""
    database, clock = course.store.database, course.store.clock

    @api.get("/announcements")
    def list_shown(person: access.Caller, unread: bool = False) -> dict[str, Any]:
        shown = list_announcements(database, clock(), person, unread=unread)
        return {"announcements": [_as_dict(announcement) for announcement in shown]}

    @api.post("/announcements", status_code=201, openapi_extra=openapi.ANNOUNCEMENT)
    def write(by: access.Staff, body: Json) -> dict[str, Any]:
        return {"id": announce(course.edit(by), body)}

    @api.delete("/announcements/{number}", status_code=204)
    def remove(by: access.Staff, number: int) -> None:
        withdraw(course.edit(by), number)

    @api.post("/announcements/{number}/read", status_code=204)
    def read(person: access.Caller, number: int) -> None:
        mark_read(database, clock(), number, person)

    @pages.get("/announcements")
    def show_page(person: access.Visitor) -> Response:
        return _show_page(course, person, dict.fromkeys(_FIELDS, ""), preview="")

    @pages.post("/announcements")
    def write_and_show(person: access.StaffSender, form: Fields) -> Response:
        body = {name: form.get(name, "") for name in _FIELDS}
        if "preview" in form:
            return _show_page(course, person, body, preview=render_markdown(body["text"]))
        announce(course.edit(person), body)
        return RedirectResponse("/announcements", 303)

    @pages.post("/announcements/{number}/withdraw")
    def remove_and_show(person: access.StaffSender, number: int) -> Response:
        withdraw(course.edit(person), number)
        return RedirectResponse("/announcements", 303)

    @pages.post("/announcements/{number}/read")
    def read_and_show(person: access.Sender, number: int) -> Response:
        mark_read(database, clock(), number, person)
        return RedirectResponse("/announcements", 303)


_FIELDS = ("text", "section", "starts", "ends")


def _as_dict(shown: Announcement) -> dict[str, Any]:
    return {**asdict(shown), "starts": iso(shown.starts), "ends": iso(shown.ends)}


def _show_page(course: Course, person: Person, draft: dict[str, str], preview: str) -> Response:
    now = course.store.clock()
    shown: dict[str, Any] = {
        "shown": list_announcements(course.store.database, now, person),
        "now": now,
    }
    shown["sections"] = course.store.roster.sections() if person.is_staff else []
    return course.page("announcements", person=person, draft=draft, preview=preview, **shown)
