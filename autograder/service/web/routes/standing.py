"""How a learner stands: for them and for staff, on a leaderboard, and their dates as a calendar."""

import math
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query
from fastapi.responses import Response

from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.rules import Rules
from autograder.service.records.standings import leaderboard
from autograder.service.records.standings.leaderboard import Board, Place
from autograder.service.reports import standing
from autograder.service.reports.everybodys_totals import Reckoning
from autograder.service.reports.gradebook import read_counted
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import LabName

_CALENDAR = {"Content-Disposition": 'attachment; filename="labs.ics"'}


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the standing and the calendar of whoever asks, and of a learner for staff."""
    _add_leaderboard(api, pages, course)

    @api.get("/standing")
    def read_own(person: access.Caller) -> dict[str, Any]:
        return _describe(course, person, person)

    @api.get("/learners/{login}/standing")
    def read_theirs(by: access.Staff, login: str) -> dict[str, Any]:
        return _describe(course, course.person(login), by)

    @api.get("/calendar", response_class=Response, responses=openapi.CALENDAR)
    def read_calendar(person: access.Caller) -> Response:
        return Response(_write_calendar(course, person), media_type="text/calendar")

    @pages.get("/standing")
    def show_own(person: access.Visitor) -> Response:
        return course.page("standing", person=person, **_describe(course, person, person))

    @pages.get("/calendar.ics")
    def download(person: access.Visitor) -> Response:
        text = _write_calendar(course, person)
        return Response(text, media_type="text/calendar", headers=_CALENDAR)


def _describe(course: Course, person: Person, reader: Person) -> dict[str, Any]:
    """Return how somebody stands in each lab and in all, as far as `reader` may see it."""
    seen = course.store.submissions.seen_by(reader)
    best = read_counted([person], seen)[person.login]
    reckoning = Reckoning.of(seen)
    total = reckoning.total(person.id, best)
    labs = standing.standing(course.labs_for(person, also=best), best, reckoning.now, total.dropped)
    return {
        "labs": labs,
        "total": total.share,
        "rule": reckoning.rule.words(course.catalog.titles),
        "score": math.fsum(place.score or 0.0 for place in labs),
        "max_score": math.fsum(place.max_score or 0.0 for place in labs),
        "late_days": sum(place.late_days for place in labs),
        "missing": sum(place.state == standing.MISSING for place in labs),
    }


def _write_calendar(course: Course, person: Person) -> str:
    host = urlsplit(course.url).hostname or "course"
    host = f"{course.name}.{host}" if course.name else host
    return standing.calendar(course.labs_for(person), host, course.store.clock())


Most = Annotated[int, Query(alias="limit", ge=1, le=1000)]


def _read_boards(course: Course, lab: str, person: Person, most: int = 100) -> dict[str, Board]:
    """Return the first places in a lab by question; one's own stands there in any case."""
    rules = course.store.dates.calendar(person.id).rules.get(lab, Rules())
    if not rules.leaderboard:
        raise Refused(404, f"{lab}: its leaderboard is off. Instructors switch it on under Labs.")
    if rules.held and not person.is_staff:
        raise Refused(404, f"{lab}: its grades are held back, and its leaderboard with them.")
    return leaderboard.of_lab(course.store.database, lab, most=most, own=person.id)


def _add_leaderboard(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add both routes."""

    @api.get("/labs/{lab}/leaderboard")
    def read_boards(person: access.Caller, lab: LabName, most: Most = 100) -> dict[str, Any]:
        questions = [
            {
                "question": question,
                "learners": own.count,
                "rows": [_as_dict(place, person) for place in own.places],
            }
            for question, own in _read_boards(course, lab, person, most).items()
        ]
        return {"lab": lab, "questions": questions}

    @pages.get("/labs/{lab}/leaderboard")
    def show_boards(person: access.Visitor, lab: LabName) -> Response:
        boards = _read_boards(course, lab, person)
        return course.page("leaderboard", person=person, lab=lab, boards=boards)


def _as_dict(place: Place, person: Person) -> dict[str, Any]:
    row = {"rank": place.rank, "pseudonym": place.pseudonym, "ratio": place.ratio}
    if person.is_staff:
        return {**row, "login": place.login, "name": place.name}
    return {**row, "you": place.person_id == person.id}
