"""Re-grading: batches of it, and the requests for it, where learners and staff see a thread."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.records.marking import regrade_requests
from autograder.service.records.marking.regrade_requests import RegradeRequest
from autograder.service.records.marking.regrades import PUBLISHED, Batch
from autograder.service.reports.gradebook import PAGE_ROWS
from autograder.service.times import iso
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import AnyLabName, Fields, Json, JsonIfAny, LabName, Start


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add grading a lab again, for staff."""
    _add_requests(api, pages, course)
    _add_batches(api, pages, course)


def _add_batches(api: APIRouter, pages: APIRouter, course: Course) -> None:
    @api.post("/labs/{lab}/regrade", status_code=202)
    def regrade(
        by: access.Staff, lab: LabName, body: JsonIfAny, question: str | None = None
    ) -> dict[str, Any]:
        if not set(body) <= {"question"} or not isinstance(body.get("question"), str | None):
            raise Refused(422, 'regrade: expected no body, or {"question": the name of one}.')
        return {"batch": course.regrade_lab(lab, question or body.get("question"), by)}

    @api.get("/regrades")
    def list_batches(_by: access.Staff) -> dict[str, Any]:
        return {"batches": [_describe(batch) for batch in course.store.regrades.all()]}

    @api.get("/regrades/{batch}")
    def read_batch(_by: access.Staff, batch: int) -> dict[str, Any]:
        return _describe_changes(course, batch)

    @api.post("/regrades/{batch}/publish")
    def publish(by: access.Instructor, batch: int) -> dict[str, Any]:
        course.store.regrades.publish(batch, by)
        return _describe_changes(course, batch)

    @pages.post("/labs/{lab}/regrade")
    def regrade_and_show(person: access.StaffSender, lab: LabName, form: Fields) -> Response:
        batch = course.regrade_lab(lab, form.get("question", "").strip() or None, person)
        return RedirectResponse(f"/regrades/{batch}", 303)

    @pages.get("/regrades/{batch}")
    def show_changes(person: access.StaffVisitor, batch: int, after: Start = 0) -> Response:
        regrades = course.store.regrades
        current, changes = regrades.get(batch, after=after, most=PAGE_ROWS)
        more = changes[-1].id if len(changes) == PAGE_ROWS else None
        shown: dict[str, Any] = {"batch": current, "changes": changes, "more": more}
        shown |= {"count": regrades.count_changed(batch), "rescaled": 0, "differences": {}}
        if current.state != PUBLISHED:  # then the report from before counts no more
            shown["rescaled"] = regrades.count_rescaled(batch)
            shown["differences"] = regrades.differences(batch, changes)
        return course.page("regrade", person=person, **shown)

    @pages.get("/regrades/{batch}/state")
    def read_state(_by: access.StaffVisitor, batch: int) -> dict[str, Any]:
        return {"state": str(course.store.regrades.get(batch, most=1)[0].waiting)}

    @pages.post("/regrades/{batch}/publish")
    def publish_and_show(person: access.InstructorSender, batch: int) -> Response:
        course.store.regrades.publish(batch, person)
        return RedirectResponse(f"/regrades/{batch}", 303)


def _describe_changes(course: Course, number: int) -> dict[str, Any]:
    batch, changes = course.store.regrades.get(number)
    rescaled = 0 if batch.state == PUBLISHED else course.store.regrades.count_rescaled(number)
    return {**_describe(batch), "changed": changes, "rescaled": rescaled}


def _describe(batch: Batch) -> dict[str, Any]:
    values = {"batch": batch.id, **vars(batch), "started_at": iso(batch.started_at)}
    del values["id"]
    return values


def _add_requests(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how grades are asked about, and the list of what waits."""

    @api.post("/submissions/{number}/requests", status_code=201, openapi_extra=openapi.REQUEST)
    def say(by: access.Caller, entry: access.CallersEntry, body: Json) -> dict[str, Any]:
        return _as_dict(course.store.requests.say(entry, by, body))

    @api.get("/submissions/{number}/requests")
    def list_threads(entry: access.CallersEntry) -> dict[str, Any]:
        by_question = course.store.requests.threads(entry)
        return {
            "refusal": course.store.requests.refusal(entry),
            "requests": [
                {**_as_dict(request), "messages": [{**vars(m), "at": iso(m.at)} for m in messages]}
                for request, messages in by_question.values()
            ],
        }

    @api.get("/requests")
    def list_requests(
        _by: access.Staff, lab: AnyLabName, after: Start = 0, answered: bool = False
    ) -> dict[str, Any]:
        queue = course.store.requests.waiting(lab=lab, after=after, answered=answered)
        counts = course.store.requests.counts()
        return {"labs": counts, "requests": [_as_dict(request) for request in queue]}

    @pages.get("/requests")
    def show_requests(
        person: access.StaffVisitor, lab: AnyLabName, after: Start = 0, answered: bool = False
    ) -> Response:
        queue = course.store.requests.waiting(lab=lab, after=after, answered=answered)
        asked: dict[str, Any] = {"lab": lab, "answered": answered}
        more = queue[-1].id if len(queue) == regrade_requests.PAGE_ROWS else None
        counts = course.store.requests.counts()
        shown: dict[str, Any] = {"requests": queue, "counts": counts, "more": more, "asked": asked}
        return course.page("requests", person=person, **shown)

    @pages.post("/submissions/{number}/requests")
    def say_and_show(person: access.Sender, entry: access.VisitorsEntry, form: Fields) -> Response:
        course.store.requests.say(entry, person, dict(form))
        return RedirectResponse(f"/submissions/{entry.id}", 303)


def _as_dict(request: RegradeRequest) -> dict[str, Any]:
    return {**vars(request), "asked_at": iso(request.asked_at)}
