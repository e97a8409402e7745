"""The leaderboard of a lab, as JSON and as a page: learners see pseudonyms, staff names too."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.errors import Refused
from autograder.service.records import leaderboard
from autograder.service.records.dates import Rules
from autograder.service.records.leaderboard import Place
from autograder.service.records.people import Person
from autograder.service.web.access import Caller, Visitor
from autograder.service.web.course import Course
from autograder.service.web.forms import LabName

_MOST = 100  # places on the page; one's own stands there in any case


def _places(course: Course, lab: str, person: Person) -> dict[str, list[Place]]:
    """Return the places in a lab by question.

    Raises:
        Refused: 404, there is no such lab, or its leaderboard is off, or held back for learners.
    """
    rules = course.store.dates.calendar().rules.get(lab, Rules())
    if not rules.leaderboard:
        raise Refused(404, f"{lab}: its leaderboard is off. Instructors switch it on under Labs.")
    if rules.held and not person.is_staff:
        raise Refused(404, f"{lab}: its grades are held back, and its leaderboard with them.")
    return leaderboard.of_lab(course.store.database, lab)


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add both routes."""

    @api.get("/labs/{lab}/leaderboard")
    def board(person: Caller, lab: LabName) -> dict[str, Any]:
        questions = [
            {"question": question, "rows": [_row(place, person) for place in own]}
            for question, own in _places(course, lab, person).items()
        ]
        return {"lab": lab, "questions": questions}

    @pages.get("/labs/{lab}/leaderboard")
    def board_page(person: Visitor, lab: LabName) -> Response:
        places = _places(course, lab, person)
        shown = {
            question: [p for n, p in enumerate(own) if n < _MOST or p.person_id == person.id]
            for question, own in places.items()
        }
        counts = {question: len(own) for question, own in places.items()}
        return course.page("leaderboard", person=person, lab=lab, questions=shown, counts=counts)


def _row(place: Place, person: Person) -> dict[str, Any]:
    row = {"rank": place.rank, "pseudonym": place.pseudonym, "ratio": place.ratio}
    if person.is_staff:
        return {**row, "login": place.login, "name": place.name}
    return {**row, "you": place.person_id == person.id}
