"""A learner's own drafts, as JSON and on the pages: to look at, to hand in, to delete."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service import learner_drafts, openapi, views
from autograder.service.auth import Caller, Sender, Visitor
from autograder.service.course import Course
from autograder.service.forms import LabName
from autograder.service.roster import Person
from autograder.service.submissions import Receipt
from autograder.service.times import iso

_KIND = "application/x-ipynb+json"


def router(course: Course) -> APIRouter:
    """Return the routes of a lab's draft; each is about that of whoever asks."""
    routes = APIRouter()
    _api_routes(routes, course)
    _page_routes(routes, course)
    return routes


def _api_routes(routes: APIRouter, course: Course) -> None:
    @routes.get("/api/labs/{lab}/draft")
    def draft(person: Caller, lab: LabName) -> dict[str, Any]:
        found = learner_drafts.get(course.database, person.id, lab)
        return {**vars(found), "saved_at": iso(found.saved_at)}

    notebooks: dict[str, Any] = {"response_class": Response, "responses": openapi.NOTEBOOK}

    @routes.get("/api/labs/{lab}/draft/notebook", **notebooks)
    def notebook(person: Caller, lab: LabName) -> Response:
        return Response(_notebook(course, person, lab), media_type=_KIND)

    @routes.delete("/api/labs/{lab}/draft", status_code=204)
    def delete(person: Caller, lab: LabName) -> None:
        if not _delete(course, person, lab):
            raise learner_drafts.missing(lab)

    @routes.post("/api/labs/{lab}/draft/submit", status_code=201)
    def submit(person: Caller, lab: LabName, response: Response) -> dict[str, Any]:
        receipt = _hand_in(course, person, lab)
        response.status_code = 201 if receipt.is_new else 200
        return views.receipt(receipt, course.url, course.catalog.checks(lab))


def _page_routes(routes: APIRouter, course: Course) -> None:
    @routes.get("/labs/{lab}/draft/notebook", include_in_schema=False)
    def notebook(person: Visitor, lab: LabName) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{quote(lab)}-draft.ipynb"'}
        return Response(_notebook(course, person, lab), media_type=_KIND, headers=headers)

    @routes.post("/labs/{lab}/draft/delete", include_in_schema=False)
    def delete(person: Sender, lab: LabName) -> Response:
        _delete(course, person, lab)
        return RedirectResponse("/labs", 303)

    @routes.post("/labs/{lab}/draft/submit", include_in_schema=False)
    def submit(person: Sender, lab: LabName) -> Response:
        receipt = _hand_in(course, person, lab)
        return RedirectResponse(f"/submissions/{receipt.id}", 303)


def _notebook(course: Course, person: Person, lab: str) -> bytes:
    with course.database.read() as connection:
        return learner_drafts.notebook(connection, person.id, lab)


def _delete(course: Course, person: Person, lab: str) -> bool:
    with course.database.write() as connection:
        return learner_drafts.drop(connection, person.id, lab)


def _hand_in(course: Course, person: Person, lab: str) -> Receipt:
    course.rate.spend(person.id)
    receipt = course.submissions.add_draft(person, lab)
    course.queue.wake()
    return receipt
