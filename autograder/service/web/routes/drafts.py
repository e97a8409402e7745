"""A learner's own drafts, as JSON and on the pages: to look at, to hand in, to delete."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.records.people import Person
from autograder.service.records.submissions import drafts
from autograder.service.records.submissions.intake import Receipt
from autograder.service.times import iso
from autograder.service.web import openapi, views
from autograder.service.web.access import Caller, Sender, Visitor
from autograder.service.web.course import Course
from autograder.service.web.forms import LabName

_KIND = "application/x-ipynb+json"


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the routes of a lab's draft; each is about that of whoever asks."""

    @api.get("/labs/{lab}/draft")
    def draft(person: Caller, lab: LabName) -> dict[str, Any]:
        stored = drafts.get(course.store.database, person.id, lab)
        return {**vars(stored), "saved_at": iso(stored.saved_at)}

    notebooks: dict[str, Any] = {"response_class": Response, "responses": openapi.NOTEBOOK}

    @api.get("/labs/{lab}/draft/notebook", **notebooks)
    def notebook(person: Caller, lab: LabName) -> Response:
        return Response(_notebook(course, person, lab), media_type=_KIND)

    @api.delete("/labs/{lab}/draft", status_code=204)
    def delete(person: Caller, lab: LabName) -> None:
        if not _delete(course, person, lab):
            raise drafts.missing(lab)

    @api.post("/labs/{lab}/draft/submit", status_code=201)
    def submit(person: Caller, lab: LabName, response: Response) -> dict[str, Any]:
        receipt = _hand_in(course, person, lab)
        response.status_code = 201 if receipt.is_new else 200
        return views.receipt(receipt, course.url, course.catalog.checks(lab))

    @pages.get("/labs/{lab}/draft/notebook")
    def download(person: Visitor, lab: LabName) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{quote(lab)}-draft.ipynb"'}
        return Response(_notebook(course, person, lab), media_type=_KIND, headers=headers)

    @pages.post("/labs/{lab}/draft/delete")
    def delete_and_show(person: Sender, lab: LabName) -> Response:
        _delete(course, person, lab)
        return RedirectResponse("/labs", 303)

    @pages.post("/labs/{lab}/draft/submit")
    def submit_and_show(person: Sender, lab: LabName) -> Response:
        receipt = _hand_in(course, person, lab)
        return RedirectResponse(f"/submissions/{receipt.id}", 303)


def _notebook(course: Course, person: Person, lab: str) -> bytes:
    with course.store.database.read() as connection:
        return drafts.notebook(connection, person.id, lab)


def _delete(course: Course, person: Person, lab: str) -> bool:
    with course.store.database.write() as connection:
        return drafts.drop(connection, person.id, lab)


def _hand_in(course: Course, person: Person, lab: str) -> Receipt:
    course.limits.submissions.spend(person.id)
    receipt = course.store.submissions.add_draft(person, lab)
    course.queue.wake()
    return receipt
