"""Re-grade requests: a learner asks about a question's grade, staff answer; both see the thread."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.records.marking.regrade_requests import PAGE_ROWS, RegradeRequest
from autograder.service.times import iso
from autograder.service.web import openapi
from autograder.service.web.access import (
    Caller,
    CallersEntry,
    Sender,
    Staff,
    StaffVisitor,
    VisitorsEntry,
)
from autograder.service.web.course import Course
from autograder.service.web.forms import AnyLabName, Fields, Json, Start


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how grades are asked about, and the list of what waits."""

    @api.post("/submissions/{number}/requests", status_code=201, openapi_extra=openapi.REQUEST)
    def say(by: Caller, entry: CallersEntry, body: Json) -> dict[str, Any]:
        return _plain(course.store.requests.say(entry, by, body))

    @api.get("/submissions/{number}/requests")
    def threads(entry: CallersEntry) -> dict[str, Any]:
        by_question = course.store.requests.threads(entry)
        return {
            "refusal": course.store.requests.refusal(entry),
            "requests": [
                {**_plain(request), "messages": [{**vars(m), "at": iso(m.at)} for m in messages]}
                for request, messages in by_question.values()
            ],
        }

    @api.get("/requests")
    def requests(
        _by: Staff, lab: AnyLabName, after: Start = 0, answered: bool = False
    ) -> dict[str, Any]:
        queue = course.store.requests.waiting(lab=lab, after=after, answered=answered)
        counts = course.store.requests.counts()
        return {"labs": counts, "requests": [_plain(request) for request in queue]}

    @pages.get("/requests")
    def requests_page(
        person: StaffVisitor, lab: AnyLabName, after: Start = 0, answered: bool = False
    ) -> Response:
        queue = course.store.requests.waiting(lab=lab, after=after, answered=answered)
        asked: dict[str, Any] = {"lab": lab, "answered": answered}
        more = queue[-1].id if len(queue) == PAGE_ROWS else None
        counts = course.store.requests.counts()
        shown: dict[str, Any] = {"requests": queue, "counts": counts, "more": more, "asked": asked}
        return course.page("requests", person=person, **shown)

    @pages.post("/submissions/{number}/requests")
    def say_and_show(person: Sender, entry: VisitorsEntry, form: Fields) -> Response:
        course.store.requests.say(entry, person, dict(form))
        return RedirectResponse(f"/submissions/{entry.id}", 303)


def _plain(request: RegradeRequest) -> dict[str, Any]:
    return {**vars(request), "asked_at": iso(request.asked_at)}
