"""Submissions: handing in, what became of them, grading one again; and a learner's own drafts."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from autograder.grading.report import to_gradescope, to_html
from autograder.records import Report
from autograder.service.database.schema import PARKED, STORED
from autograder.service.errors import Refused
from autograder.service.records.marks import mark_digest, question_of
from autograder.service.records.people import LEARNER, Person
from autograder.service.records.roster.teams import find_senders
from autograder.service.records.submissions.intake import (
    Receipt,
    draft_notebook,
    drop_draft,
    get_draft,
    no_such_draft,
)
from autograder.service.records.submissions.submissions import Entry, Submissions
from autograder.service.reports.exports import chunks
from autograder.service.reports.gradebook import PAGE_ROWS
from autograder.service.times import iso
from autograder.service.web import access, openapi, views
from autograder.service.web.course import Course
from autograder.service.web.forms import LabName, PageNumber, Start, take_in


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what learners and staff ask of submissions."""
    _add_drafts(api, pages, course)
    _add_api(api, course)
    _add_pages(pages, course)


MostRows = Annotated[int | None, Query(alias="limit", ge=1, le=1000)]
_AT_ONCE = 1000


def _add_api(api: APIRouter, course: Course) -> None:
    @api.post("/submissions", status_code=201, openapi_extra=openapi.SUBMISSION)
    async def submit(request: Request, response: Response, person: access.Caller) -> dict[str, Any]:
        receipt = await take_in(request, course, person)
        response.status_code = 201 if receipt.is_new else 200
        checks = await run_in_threadpool(course.catalog.checks, receipt.lab)
        return views.receipt(receipt, course.url, checks)

    @api.get("/submissions")
    def list_submissions(_by: access.Staff, before: Start = 0, most: MostRows = None) -> Response:
        pieces = chunks(_write_list(course.store.submissions, before, most))
        return StreamingResponse(pieces, media_type="application/json")

    @api.get("/submissions/{number}")
    def read_submission(person: access.Caller, entry: access.CallersEntry) -> dict[str, Any]:
        report = _read_report(course, person, entry)
        shown = views.summary(entry, find_senders(course.store.database, [entry.id]))
        shown["report"] = report and to_gradescope(report, staff=person.is_staff)
        shown["reason"] = entry.reason
        if not person.is_staff:  # why there is no grade, or not the one that they expect
            problem = report.error or None if report else None
            shown["reason"] = views.PARKED_MESSAGE if entry.state == PARKED else problem
        return shown

    @api.get("/submissions/{number}/notebook", response_class=Response, responses=openapi.NOTEBOOK)
    def read_notebook(entry: access.CallersEntry) -> Response:
        return Response(
            course.store.submissions.notebook(entry.id), media_type="application/x-ipynb+json"
        )

    @api.post("/submissions/{number}/regrade", status_code=202)
    def regrade(by: access.Staff, number: int) -> dict[str, Any]:
        if not course.regrade(number, by):
            raise Refused(409, f"regrade: submission {number} is not there, or not finished yet.")
        return {"id": number, "state": STORED}


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/submissions")
    def show_submissions(
        person: access.Visitor, number: PageNumber = 1, before: Start = 0
    ) -> Response:
        return _show_list(course, person, number, before)

    @pages.post("/submissions")
    async def hand_in(request: Request, person: access.Sender) -> Response:
        receipt = await take_in(request, course, person)
        return RedirectResponse(f"/submissions/{receipt.id}", 303)

    @pages.get("/submissions/{number}/state")
    async def wait_for_state(entry: access.VisitorsEntry, seen: str = "") -> dict[str, Any]:
        return {"state": await course.live.wait_for_change(entry.id, seen)}

    @pages.get("/submissions/{number}")
    def show_submission(
        person: access.Visitor,
        entry: access.VisitorsEntry,
        viewed_as: Annotated[str, Query(alias="as")] = "",
    ) -> Response:
        as_learner = person.is_staff and viewed_as == "learner"
        viewer = replace(person, role=LEARNER) if as_learner else person
        return _show_submission(course, viewer, entry, viewed_as=as_learner)

    @pages.get("/submissions/{number}/report")
    def show_report(person: access.Visitor, entry: access.VisitorsEntry) -> Response:
        shown = _read_report(course, person, entry)
        if shown is None:
            why = "grades are held back" if entry.held_back else "it is not graded yet"
            raise Refused(404, f"submission {entry.id}: {why}.")
        return HTMLResponse(to_html(shown), headers=STANDALONE)

    @pages.get("/submissions/{number}/notebook")
    def download(entry: access.VisitorsEntry) -> Response:
        name = f'attachment; filename="{quote(entry.lab)}-{entry.id}.ipynb"'
        data, kind = course.store.submissions.notebook(entry.id), "application/x-ipynb+json"
        return Response(data, media_type=kind, headers={"Content-Disposition": name})

    @pages.post("/submissions/{number}/regrade")
    def regrade(person: access.StaffSender, number: int) -> Response:
        course.regrade(number, person)
        return RedirectResponse(f"/submissions/{number}", 303)


def _show_list(course: Course, person: Person, number: int, before: int) -> Response:
    whose = None if person.is_staff else person.id
    shown = course.store.submissions.seen_by(person)
    start = before or shown.start_of_page(number, PAGE_ROWS, person_id=whose)
    entries = shown.page(PAGE_ROWS, before=start, person_id=whose)
    return course.page(
        "submissions",
        person=person,
        entries=entries,
        later=start > 0,
        more=entries[-1].id if len(entries) == PAGE_ROWS else None,
        teams=find_senders(course.store.database, [entry.id for entry in entries]),
        drafts=course.drafts_for(person),
        requests=[] if person.is_staff else course.store.requests.of_person(person.id),
        **course.news(person),
    )


def _show_submission(course: Course, person: Person, entry: Entry, *, viewed_as: bool) -> Response:
    shown, requests = course.store.submissions.seen_by(person), course.store.requests
    entry = shown.get(entry.id) or entry
    report = _read_report(course, person, entry)
    results = report.results if report else ()
    return course.page(
        "submission",
        threads=requests.threads(entry),
        team=find_senders(course.store.database, [entry.id]).get(entry.id),
        refusal=requests.refusal(entry),
        person=person,
        entry=entry,
        report=report,
        questions=[(name, list(group)) for name, group in groupby(results, attrgetter("question"))],
        seen=lambda question: report and mark_digest(entry.id, question_of(report, question)),
        parked_message=views.PARKED_MESSAGE,
        viewed_as=viewed_as,
        others=shown.of_people([entry.person_id], lab=entry.lab),
    )


def _write_list(all_submissions: Submissions, before: int, most: int | None) -> Iterator[str]:
    """Yield a list as JSON, the newest first: at most so many, or all that there are."""
    separator = "["
    while entries := all_submissions.page(most or _AT_ONCE, before=before):
        teams = find_senders(all_submissions.database, [entry.id for entry in entries])
        for entry in entries:
            yield f"{separator}{json.dumps(views.summary(entry, teams))}"
            separator = ",\n"
        before = entries[-1].id
        if most is not None:
            break
    yield "[]" if separator == "[" else "]"


def _read_report(course: Course, person: Person, entry: Entry) -> Report | None:
    report = course.store.submissions.seen_by(person).report(entry.id)
    return report if report is None or person.is_staff else views.for_learner(report)


# The standalone report brings its style inside itself, and nothing else.
STANDALONE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
}


_KIND = "application/x-ipynb+json"


def _add_drafts(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the routes of a lab's draft; each is about that of whoever asks."""

    @api.get("/labs/{lab}/draft")
    def read_draft(person: access.Caller, lab: LabName) -> dict[str, Any]:
        stored = get_draft(course.store.database, person.id, lab)
        return {**vars(stored), "saved_at": iso(stored.saved_at)}

    notebooks: dict[str, Any] = {"response_class": Response, "responses": openapi.NOTEBOOK}

    @api.get("/labs/{lab}/draft/notebook", **notebooks)
    def read_notebook(person: access.Caller, lab: LabName) -> Response:
        return Response(_read_notebook(course, person, lab), media_type=_KIND)

    @api.delete("/labs/{lab}/draft", status_code=204)
    def delete(person: access.Caller, lab: LabName) -> None:
        if not _delete(course, person, lab):
            raise no_such_draft(lab)

    @api.post("/labs/{lab}/draft/submit", status_code=201)
    def submit(person: access.Caller, lab: LabName, response: Response) -> dict[str, Any]:
        receipt = _hand_in(course, person, lab)
        response.status_code = 201 if receipt.is_new else 200
        return views.receipt(receipt, course.url, course.catalog.checks(lab))

    @pages.get("/labs/{lab}/draft/notebook")
    def download(person: access.Visitor, lab: LabName) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{quote(lab)}-draft.ipynb"'}
        return Response(_read_notebook(course, person, lab), media_type=_KIND, headers=headers)

    @pages.post("/labs/{lab}/draft/delete")
    def delete_and_show(person: access.Sender, lab: LabName) -> Response:
        _delete(course, person, lab)
        return RedirectResponse("/labs", 303)

    @pages.post("/labs/{lab}/draft/submit")
    def submit_and_show(person: access.Sender, lab: LabName) -> Response:
        receipt = _hand_in(course, person, lab)
        return RedirectResponse(f"/submissions/{receipt.id}", 303)


def _read_notebook(course: Course, person: Person, lab: str) -> bytes:
    with course.store.database.read() as connection:
        return draft_notebook(connection, person.id, lab)


def _delete(course: Course, person: Person, lab: str) -> bool:
    with course.store.database.write() as connection:
        return drop_draft(connection, person.id, lab)


def _hand_in(course: Course, person: Person, lab: str) -> Receipt:
    course.limits.submissions.spend(person.id)
    receipt = course.store.submissions.add_draft(person, lab)
    course.queue.wake()
    return receipt
