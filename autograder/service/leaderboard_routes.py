"""The leaderboard of a lab, as JSON and as a page: learners see pseudonyms, staff names too."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service import leaderboard
from autograder.service.auth import Caller, Visitor
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.leaderboard import Place
from autograder.service.page import page
from autograder.service.policy import Rules
from autograder.service.roster import Person

_MOST = 100  # places on the page; one's own stands there in any case


def router(course: Course) -> APIRouter:
    """Return both routes."""
    routes = APIRouter()

    @routes.get("/api/labs/{lab}/leaderboard")
    def board(person: Caller, lab: str) -> dict[str, Any]:
        full, found = _of(course, lab)
        questions = [
            {"question": question, "rows": [_row(place, person) for place in places]}
            for question, places in found.items()
        ]
        return {"lab": full, "questions": questions}

    @routes.get("/labs/{lab}/leaderboard", include_in_schema=False)
    def board_page(person: Visitor, lab: str) -> Response:
        full, found = _of(course, lab)
        shown = {
            question: [p for n, p in enumerate(places) if n < _MOST or p.person_id == person.id]
            for question, places in found.items()
        }
        counts = {question: len(places) for question, places in found.items()}
        return page("leaderboard", person=person, lab=full, questions=shown, counts=counts)

    return routes


def _of(course: Course, lab: str) -> tuple[str, dict[str, list[Place]]]:
    """Return a lab's name and its places by question.

    Raises:
        Refused: 404, there is no such lab, or its leaderboard is off.
    """
    full = course.shelf.resolve(lab)
    if not course.dates.calendar().rules.get(full, Rules()).leaderboard:
        raise Refused(404, f"{full}: its leaderboard is off. Instructors switch it on under Labs.")
    return full, leaderboard.of_lab(course.database, full)


def _row(place: Place, person: Person) -> dict[str, Any]:
    row = {"rank": place.rank, "pseudonym": place.pseudonym, "ratio": place.ratio}
    if person.is_staff:
        return {**row, "login": place.login, "name": place.name}
    return {**row, "you": place.person_id == person.id}
