"""What staff do over HTTP: people, dates, marks, re-gradings, the gradebook, the audit log."""

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter

from autograder.service import audit_log, auth, gradebook, openapi, views
from autograder.service.api import Seen
from autograder.service.auth import Caller, Instructor, Staff
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import AnyLabName, Asked, Body, Json, JsonIfAny, LabName, PageNumber
from autograder.service.policy import Rules
from autograder.service.regrades import Batch
from autograder.service.roster import LEARNER, STAFF, Person
from autograder.service.submissions import pages_of
from autograder.service.times import date, iso

PAGE_LINES = 100


def router(course: Course) -> APIRouter:
    """Return the routes under `/api` that are for staff, and those of labs and sessions."""
    api = APIRouter(prefix="/api")
    _people_routes(api, course)
    _lab_routes(api, course)
    _regrade_routes(api, course)
    _reading_routes(api, course)
    _session_routes(api, course)
    return api


def _people_routes(api: APIRouter, course: Course) -> None:
    @api.put("/roster", openapi_extra=openapi.CSV)
    def roster(by: Instructor, body: Body, dry_run: bool = False) -> dict[str, Any]:
        return course.take_roster(body, by, dry_run=dry_run)

    @api.post("/learners", status_code=201, openapi_extra=openapi.ENROLMENT)
    def enroll(by: Instructor, body: Json) -> dict[str, Any]:
        return _enrolled(course, body, LEARNER, by)

    @api.post("/staff", status_code=201, openapi_extra=openapi.STAFF)
    def staff(by: Instructor, body: Json) -> dict[str, Any]:
        role = body.get("role")
        if role not in STAFF:
            raise Refused(422, f"staff: role: got {str(role)[:40]!r}, expected one of {STAFF}.")
        return _enrolled(course, body, str(role), by)


def _enrolled(course: Course, body: dict[str, Any], role: str, by: Person) -> dict[str, Any]:
    lives_s = course.settings.bearer_s
    person, token, ends = auth.enroll(course.roster, body, lives_s, role=role, by=by.login)
    known = {"login": person.login, "name": person.name, "role": person.role}
    return {**known, "token": token, "expires": iso(ends)}


def _lab_routes(api: APIRouter, course: Course) -> None:
    @api.get("/labs")
    def labs(person: Caller) -> dict[str, Any]:
        return {"labs": views.labs_for(person, course)}

    @api.put("/labs/{lab}", openapi_extra=openapi.RULES)
    def rules(by: Instructor, lab: LabName, body: Json) -> dict[str, Any]:
        found = Rules.read(body)
        course.dates.set_rules(lab, found, by)
        return {"name": lab, **found.to_dict()}

    @api.get("/labs/{lab}/similarity")
    def similarity(_by: Staff, lab: LabName) -> dict[str, Any]:
        found = course.similarity.of(lab)
        pairs = [
            {"question": p.question, "share": p.share, "left": left, "right": right}
            for p, left, right in found.pairs
        ]
        return {"lab": lab, "compared": found.compared, "pairs": pairs}

    @api.put("/labs/{lab}/extensions/{login}", openapi_extra=openapi.EXTENSION)
    def extension(by: Instructor, lab: LabName, login: str, body: Json) -> dict[str, Any]:
        if set(body) != {"due"}:
            raise Refused(422, 'extension: expected {"due": a time with its zone, or null}.')
        due = date(body["due"], "extension: due")
        learner = course.person(login)
        found = course.dates.extend(lab, learner, due, by)
        return {"name": lab, "login": learner.login, **found.to_dict()}


def _regrade_routes(api: APIRouter, course: Course) -> None:
    @api.put("/submissions/{number}/marks", openapi_extra=openapi.MARKS)
    def marks(by: Staff, entry: Seen, body: Json) -> dict[str, Any]:
        course.submissions.mark(entry.id, body, by)
        return views.summary(course.submissions.get(entry.id) or entry)

    @api.post("/labs/{lab}/regrade", status_code=202)
    def regrade(
        by: Staff, lab: LabName, body: JsonIfAny, question: str | None = None
    ) -> dict[str, Any]:
        if not set(body) <= {"question"} or not isinstance(body.get("question"), str | None):
            raise Refused(422, 'regrade: expected no body, or {"question": the name of one}.')
        return {"batch": course.regrade_lab(lab, question or body.get("question"), by)}

    @api.get("/regrades")
    def batches(_by: Staff) -> dict[str, Any]:
        return {"batches": [_batch(batch) for batch in course.regrades.all()]}

    @api.get("/regrades/{batch}")
    def batch(_by: Staff, batch: int) -> dict[str, Any]:
        found, changes = course.regrades.get(batch)
        return {**_batch(found), "changed": [asdict(change) for change in changes]}

    @api.post("/regrades/{batch}/publish")
    def publish(by: Instructor, batch: int) -> dict[str, Any]:
        course.regrades.publish(batch, by)
        found, changes = course.regrades.get(batch)
        return {**_batch(found), "changed": [asdict(change) for change in changes]}


def _batch(batch: Batch) -> dict[str, Any]:
    found = {"batch": batch.id, **asdict(batch), "started_at": iso(batch.started_at)}
    del found["id"]
    return found


def _reading_routes(api: APIRouter, course: Course) -> None:
    @api.get("/gradebook")
    def book(_by: Staff, lab: AnyLabName, asked: Asked) -> dict[str, Any]:
        found = gradebook.page(course.roster, course.submissions, replace(asked, lab=lab))
        return {
            "rows": [views.gradebook_row(row) for row in found.rows],
            "page": asked.page,
            "pages": found.count,
            "learners": found.learners,
        }

    @api.get("/audit")
    def audit(_by: Staff, number: PageNumber = 1) -> dict[str, Any]:
        entries, total = audit_log.read(course.database, number, PAGE_LINES)
        return {"entries": entries, "page": number, "pages": pages_of(total, PAGE_LINES)}


def _session_routes(api: APIRouter, course: Course) -> None:
    @api.get("/sessions")
    def sessions(person: Caller) -> dict[str, Any]:
        return {"sessions": [views.session(s) for s in course.roster.sessions(person)]}

    @api.delete("/sessions/{key}", status_code=204)
    def end(person: Caller, key: str) -> None:
        if not course.roster.end_session(person, key):
            raise Refused(404, f"sessions: you have none called {key[:20]!r}.")
