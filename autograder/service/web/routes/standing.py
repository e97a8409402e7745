"""How a learner stands, for them and for staff, and the dates that hold for them as a calendar."""

import math
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.records.people import Person
from autograder.service.reports import standing
from autograder.service.reports.gradebook import gradebook
from autograder.service.reports.standing import Place
from autograder.service.web import openapi
from autograder.service.web.access import Caller, Staff, Visitor
from autograder.service.web.course import Course
from autograder.service.web.page import page

_CALENDAR = {"Content-Disposition": 'attachment; filename="labs.ics"'}


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the standing and the calendar of whoever asks, and of a learner for staff."""

    @api.get("/standing")
    def mine(person: Caller) -> dict[str, Any]:
        return _plain(_places(course, person, person))

    @api.get("/learners/{login}/standing")
    def theirs(by: Staff, login: str) -> dict[str, Any]:
        return _plain(_places(course, course.person(login), by))

    @api.get("/calendar", response_class=Response, responses=openapi.CALENDAR)
    def dates(person: Caller) -> Response:
        return Response(_calendar(course, person), media_type="text/calendar")

    @pages.get("/standing")
    def how(person: Visitor) -> Response:
        places = _places(course, person, person)
        return page("standing", person=person, **_sums(places), places=places)

    @pages.get("/calendar.ics")
    def download(person: Visitor) -> Response:
        text = _calendar(course, person)
        return Response(text, media_type="text/calendar", headers=_CALENDAR)


def _places(course: Course, person: Person, reader: Person) -> list[Place]:
    entries = course.store.submissions.seen_by(reader).all(person_id=person.id)
    best = gradebook([person.login], entries)[person.login]
    return standing.standing(course.labs_for(person), best, course.store.clock())


def _sums(places: list[Place]) -> dict[str, Any]:
    return {
        "score": math.fsum(place.score or 0.0 for place in places),
        "max_score": math.fsum(place.max_score or 0.0 for place in places),
        "late_days": sum(place.late_days for place in places),
        "missing": sum(place.state == standing.MISSING for place in places),
    }


def _plain(places: list[Place]) -> dict[str, Any]:
    return {**_sums(places), "labs": [asdict(place) for place in places]}


def _calendar(course: Course, person: Person) -> str:
    host = urlsplit(course.url).hostname or "course"
    return standing.calendar(course.labs_for(person), host, course.store.clock())
