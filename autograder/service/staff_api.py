"""What staff do over HTTP: people, dates, marks, re-gradings, the gradebook, the audit log."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi

from autograder.errors import AutograderError
from autograder.service import audit_log, auth, gradebook, openapi, views
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import json_object
from autograder.service.policy import Rules
from autograder.service.regrades import Batch, Change
from autograder.service.roster import STAFF, Person
from autograder.service.submissions import pages_of
from autograder.service.times import date, iso

PAGE_LINES = 100

# A later page would be the offset of a row that no table has.
PageNumber = Annotated[int, Query(alias="page", ge=1, le=1_000_000)]


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
    async def roster(request: Request, dry_run: bool = False) -> dict[str, Any]:
        by = await run_in_threadpool(auth.instructor_bearer, request, course)
        body = await request.body()
        result = await run_in_threadpool(course.take_roster, body, by, dry_run=dry_run)
        return result.to_dict()

    @api.post("/learners", status_code=201, openapi_extra=openapi.ENROLMENT)
    async def enroll(request: Request) -> dict[str, Any]:
        by = await run_in_threadpool(auth.instructor_bearer, request, course)
        asked = auth.Enrolment.read(await json_object(request), course.settings.bearer_s)
        person, token = await run_in_threadpool(auth.enroll, course.roster, asked, by=by.login)
        return {**_person(person), "token": token, "expires": iso(asked.expires_at)}

    @api.post("/staff", status_code=201, openapi_extra=openapi.STAFF)
    async def staff(request: Request) -> dict[str, Any]:
        by = await run_in_threadpool(auth.instructor_bearer, request, course)
        body = await json_object(request)
        role = body.get("role")
        if role not in STAFF:
            raise Refused(422, f"staff: role: got {str(role)[:40]!r}, expected one of {STAFF}.")
        asked = auth.Enrolment.read(body, course.settings.bearer_s)
        person, token = await run_in_threadpool(
            auth.enroll, course.roster, asked, role=role, by=by.login
        )
        return {**_person(person), "token": token, "expires": iso(asked.expires_at)}


def _person(person: Person) -> dict[str, Any]:
    return {"login": person.login, "name": person.name, "role": person.role}


def _lab_routes(api: APIRouter, course: Course) -> None:
    @api.get("/labs")
    def labs(request: Request) -> dict[str, Any]:
        return {"labs": views.labs_for(auth.bearer(request, course), course)}

    @api.put("/labs/{lab}", openapi_extra=openapi.RULES)
    async def rules(request: Request, lab: str) -> dict[str, Any]:
        by = await run_in_threadpool(auth.instructor_bearer, request, course)
        full = course.shelf.resolve(lab)
        found = Rules.read(await json_object(request))
        await run_in_threadpool(course.dates.set_rules, full, found, by)
        return {"name": full, **found.to_dict()}

    @api.get("/labs/{lab}/similarity")
    def similarity(request: Request, lab: str) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        full = course.shelf.resolve(lab)
        found = course.similarity.of(full)
        pairs = [
            {"question": p.question, "share": p.share, "left": vars(left), "right": vars(right)}
            for p, left, right in found.pairs
        ]
        return {"lab": full, "compared": found.compared, "pairs": pairs}

    @api.put("/labs/{lab}/extensions/{login}", openapi_extra=openapi.EXTENSION)
    async def extension(request: Request, lab: str, login: str) -> dict[str, Any]:
        by = await run_in_threadpool(auth.instructor_bearer, request, course)
        full = course.shelf.resolve(lab)
        body = await json_object(request)
        if set(body) != {"due"}:
            raise Refused(422, 'extension: expected {"due": a time with its zone, or null}.')
        due = date(body["due"], "extension: due")
        learner = await run_in_threadpool(known, course, login)
        found = await run_in_threadpool(course.dates.extend, full, learner, due, by)
        return {"name": full, "login": learner.login, **found.to_dict()}


def known(course: Course, login: str) -> Person:
    """Return the person of that login.

    Raises:
        Refused: 404, there is none.
    """
    person = course.roster.find(login)
    if person is None:
        raise Refused(404, f"extension: nobody here has the login {login[:100]!r}.")
    return person


def _regrade_routes(api: APIRouter, course: Course) -> None:
    @api.put("/submissions/{number}/marks", openapi_extra=openapi.MARKS)
    async def marks(request: Request, number: int) -> dict[str, Any]:
        by = await run_in_threadpool(auth.staff_bearer, request, course)
        body = await json_object(request)
        return await run_in_threadpool(_mark, course, number, body, by)

    @api.post("/labs/{lab}/regrade", status_code=202)
    def regrade(request: Request, lab: str, question: str | None = None) -> dict[str, Any]:
        by = auth.staff_bearer(request, course)
        return {"batch": start_regrade(course, lab, question, by)}

    @api.get("/regrades")
    def batches(request: Request) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        return {"batches": [_batch(batch) for batch in course.regrades.all()]}

    @api.get("/regrades/{batch}")
    def batch(request: Request, batch: int) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        found, changes = course.regrades.get(batch)
        return {**_batch(found), "changed": [_change(change) for change in changes]}

    @api.post("/regrades/{batch}/publish")
    def publish(request: Request, batch: int) -> dict[str, Any]:
        by = auth.instructor_bearer(request, course)
        course.regrades.publish(batch, by)
        found, changes = course.regrades.get(batch)
        return {**_batch(found), "changed": [_change(change) for change in changes]}


def _mark(course: Course, number: int, body: dict[str, Any], by: Person) -> dict[str, Any]:
    entry = views.entry_for(by, course.ledger, number)
    if not course.ledger.mark(number, body, by):
        raise Refused(409, f"submission {number}: it is not graded yet.")
    return views.summary(course.ledger.get(entry.id) or entry)


def start_regrade(course: Course, lab: str, question: str | None, by: Person) -> int:
    """Begin a batch and wake the graders; return its number.

    Raises:
        Refused: 404, there is no such lab, or no such question in it; 422, it cannot be read.
    """
    full = course.shelf.resolve(lab)
    if question is not None:
        try:
            known = course.shelf.questions(full)
        except (AutograderError, OSError) as error:
            problem = str(error).splitlines()[0][:200]
            raise Refused(422, f"regrade: {full} cannot be read: {problem}") from error
        if question not in known:
            expected = f"one of {', '.join(known)}"
            raise Refused(404, f"regrade: got question {question[:60]!r}, expected {expected}.")
    batch = course.regrades.start(full, question, by)
    course.queue.wake()
    return batch


def _batch(batch: Batch) -> dict[str, Any]:
    found = {"batch": batch.id, **asdict(batch), "started_at": iso(batch.started_at)}
    del found["id"]
    return found


def _change(change: Change) -> dict[str, Any]:
    return asdict(change)


def _reading_routes(api: APIRouter, course: Course) -> None:
    @api.get("/gradebook")
    def book(
        request: Request,
        lab: str = "",
        section: str = "",
        search: str = "",
        sort: str = "login",
        number: PageNumber = 1,
    ) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        full = course.shelf.resolve(lab) if lab else ""
        asked = gradebook.Asked(full, section, search, sort, number)
        found = gradebook.page(course.roster, course.ledger, asked)
        return {
            "rows": [views.gradebook_row(row) for row in found.rows],
            "page": number,
            "pages": found.count,
            "learners": found.learners,
        }

    @api.get("/audit")
    def audit(request: Request, number: PageNumber = 1) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        entries, total = audit_log.read(course.database, number, PAGE_LINES)
        return {"entries": entries, "page": number, "pages": pages_of(total, PAGE_LINES)}


def _session_routes(api: APIRouter, course: Course) -> None:
    @api.get("/sessions")
    def sessions(request: Request) -> dict[str, Any]:
        person = auth.bearer(request, course)
        return {"sessions": [views.session(s) for s in course.roster.sessions(person)]}

    @api.delete("/sessions/{key}", status_code=204)
    def end(request: Request, key: str) -> None:
        person = auth.bearer(request, course)
        if not course.roster.end_session(person, key):
            raise Refused(404, f"sessions: you have none called {key[:20]!r}.")


def schema_route(course: Course) -> APIRouter:
    """Return the route of the description of this interface."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/openapi.json")
    def described(request: Request) -> dict[str, Any]:
        auth.staff_bearer(request, course)
        found = get_openapi(title="Course", version="1", routes=request.app.routes)
        return openapi.completed(found)

    return routes
