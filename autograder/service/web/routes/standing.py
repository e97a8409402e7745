"""How a learner stands, for them and for staff, and the dates that hold for them as a calendar."""

import math
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.records.people import Person
from autograder.service.reports import standing
from autograder.service.reports.gradebook import counted
from autograder.service.reports.totals import Reckoning
from autograder.service.web import openapi
from autograder.service.web.access import Caller, Staff, Visitor
from autograder.service.web.course import Course

_CALENDAR = {"Content-Disposition": 'attachment; filename="labs.ics"'}


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the standing and the calendar of whoever asks, and of a learner for staff."""

    @api.get("/standing")
    def mine(person: Caller) -> dict[str, Any]:
        return _standing(course, person, person)

    @api.get("/learners/{login}/standing")
    def theirs(by: Staff, login: str) -> dict[str, Any]:
        return _standing(course, course.person(login), by)

    @api.get("/calendar", response_class=Response, responses=openapi.CALENDAR)
    def dates(person: Caller) -> Response:
        return Response(_calendar(course, person), media_type="text/calendar")

    @pages.get("/standing")
    def how(person: Visitor) -> Response:
        return course.page("standing", person=person, **_standing(course, person, person))

    @pages.get("/calendar.ics")
    def download(person: Visitor) -> Response:
        text = _calendar(course, person)
        return Response(text, media_type="text/calendar", headers=_CALENDAR)


def _standing(course: Course, person: Person, reader: Person) -> dict[str, Any]:
    """Return how somebody stands in each lab and in all, as far as `reader` may see it."""
    seen = course.store.submissions.seen_by(reader)
    best = counted([person], seen)[person.login]
    reckoning = Reckoning.of(seen)
    total = reckoning.total(person.id, best)
    labs = standing.standing(course.labs_for(person), best, reckoning.now, total.dropped)
    return {
        "labs": labs,
        "total": total.share,
        "rule": reckoning.rule.words(course.catalog.titles),
        "score": math.fsum(place.score or 0.0 for place in labs),
        "max_score": math.fsum(place.max_score or 0.0 for place in labs),
        "late_days": sum(place.late_days for place in labs),
        "missing": sum(place.state == standing.MISSING for place in labs),
    }


def _calendar(course: Course, person: Person) -> str:
    host = urlsplit(course.url).hostname or "course"
    host = f"{course.name}.{host}" if course.name else host
    return standing.calendar(course.labs_for(person), host, course.store.clock())
