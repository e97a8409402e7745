"""The leaderboard of a lab, as JSON and as a page: learners see pseudonyms, staff names too."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.rules import Rules
from autograder.service.records.standings import leaderboard
from autograder.service.records.standings.leaderboard import Board, Place
from autograder.service.web.access import Caller, Visitor
from autograder.service.web.course import Course
from autograder.service.web.forms import LabName

Most = Annotated[int, Query(alias="limit", ge=1, le=1000)]


def _boards(course: Course, lab: str, person: Person, most: int = 100) -> dict[str, Board]:
    """Return the first places in a lab by question; one's own stands there in any case.

    Raises:
        Refused: 404, there is no such lab, or its leaderboard is off, or held back for learners.
    """
    rules = course.store.dates.calendar(person.id).rules.get(lab, Rules())
    if not rules.leaderboard:
        raise Refused(404, f"{lab}: its leaderboard is off. Instructors switch it on under Labs.")
    if rules.held and not person.is_staff:
        raise Refused(404, f"{lab}: its grades are held back, and its leaderboard with them.")
    return leaderboard.of_lab(course.store.database, lab, most=most, own=person.id)


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add both routes."""

    @api.get("/labs/{lab}/leaderboard")
    def board(person: Caller, lab: LabName, most: Most = 100) -> dict[str, Any]:
        questions = [
            {
                "question": question,
                "learners": own.count,
                "rows": [_row(place, person) for place in own.places],
            }
            for question, own in _boards(course, lab, person, most).items()
        ]
        return {"lab": lab, "questions": questions}

    @pages.get("/labs/{lab}/leaderboard")
    def board_page(person: Visitor, lab: LabName) -> Response:
        boards = _boards(course, lab, person)
        return course.page("leaderboard", person=person, lab=lab, boards=boards)


def _row(place: Place, person: Person) -> dict[str, Any]:
    row = {"rank": place.rank, "pseudonym": place.pseudonym, "ratio": place.ratio}
    if person.is_staff:
        return {**row, "login": place.login, "name": place.name}
    return {**row, "you": place.person_id == person.id}
