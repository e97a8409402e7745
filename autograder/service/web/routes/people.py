"""People: the roster, who runs the course, a learner at one glance, and the teams of a lab."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service.errors import Refused
from autograder.service.records.people import FORMER, LEARNER, STAFF, Person
from autograder.service.records.roster import enrolment, roster
from autograder.service.records.roster.enrolment import enroll
from autograder.service.records.roster.teams import Change, rows, take, teams
from autograder.service.reports.everybodys_totals import Reckoning
from autograder.service.reports.exports import chunks, csv_lines
from autograder.service.reports.gradebook import read_counted
from autograder.service.times import iso
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import Body, Fields, Json, LabName, number, text_of_file

ROSTER_BYTES = 8 << 20  # sixty thousand people
_LINK_S = 7 * 86400.0  # a link that is mailed is followed within a week
_NAME_CHARS = 200


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how people come into the course and leave it, and the page of each learner."""
    _add_teams(api, pages, course)
    _add_api(api, course)
    _add_many(api, course)
    _add_learner(pages, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.put("/roster", openapi_extra=openapi.CSV)
    def put_roster(by: access.Instructor, body: Body, dry_run: bool = False) -> dict[str, Any]:
        return roster.take(course.edit(by), body, dry_run=dry_run)

    @api.post("/learners", status_code=201, openapi_extra=openapi.ENROLMENT)
    def enroll(by: access.Instructor, body: Json) -> dict[str, Any]:
        return _enroll(course, body, LEARNER, by)

    @api.post("/staff", status_code=201, openapi_extra=openapi.STAFF)
    def add_staff(by: access.Instructor, body: Json) -> dict[str, Any]:
        role = body.get("role")
        if role not in STAFF:
            raise Refused(422, f"staff: role: got {str(role)[:40]!r}, expected one of {STAFF}.")
        return _enroll(course, body, str(role), by)

    @api.delete("/people/{login}", status_code=204)
    def remove(by: access.Instructor, login: str) -> None:
        enrolment.remove(course.edit(by), course.person(login))

    @api.put("/people/{login}/time", openapi_extra=openapi.FACTOR)
    def stretch(by: access.Instructor, login: str, body: Json) -> dict[str, Any]:
        person = course.person(login)
        course.store.dates.stretch(person, body.get("factor"), by)
        return {"login": person.login, "factor": body["factor"]}


def _add_many(api: APIRouter, course: Course) -> None:
    @api.post("/tokens", status_code=201, openapi_extra=openapi.TOKENS)
    def give_tokens(by: access.Instructor, body: Json) -> dict[str, Any]:
        kind, section, renew = (
            body.get(name, other) for name, other in (("kind", "token"), *_WHOM.items())
        )
        well_formed = set(body) <= {"kind", *_WHOM} and isinstance(renew, bool)
        if not well_formed or not isinstance(kind, str) or not isinstance(section, str):
            expected = '{"kind": "token", "section": "", "renew": false}'
            raise Refused(422, f"tokens: expected {expected}.")
        head, *rows = _give_many(course, by, kind, section, renew)
        return {"people": [dict(zip(head, row, strict=True)) for row in rows]}

    @api.get("/people")
    def list_people(
        _by: access.Instructor, search: str = "", role: str = "", after: str = ""
    ) -> dict[str, Any]:
        members = enrolment.members(course.store.database, search=search, role=role, after=after)
        names = ("login", "name", "email", "section", "role")
        rows = [
            {"has_token": m.has_token, "factor": m.factor or 1.0}
            | {name: getattr(m.person, name) for name in names}
            for m in members
        ]
        return {"counts": enrolment.counts(course.store.database), "people": rows}


_WHOM: dict[str, Any] = {"section": "", "renew": False}


def _give_many(
    course: Course, by: Person, kind: str, section: str, renew: bool
) -> list[Sequence[str]]:
    """Return a head, and for each learner who gets a token or a link a row with it."""
    ends = course.store.clock() + (_LINK_S if kind == "link" else course.settings.bearer_s)
    whom: dict[str, Any] = {"kind": kind, "section": section, "renew": renew, "ends": ends}
    given_tokens = enrolment.give_many(course.edit(by), **whom)
    address = f"{course.url}/enter?code=" if kind == "link" else ""
    rows = [(p.login, p.name, p.email, p.section, f"{address}{token}") for p, token in given_tokens]
    return [("login", "name", "email", "section", kind), *rows]


Asked = Annotated[str, Query(max_length=_NAME_CHARS)]


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/people")
    def show_people(
        person: access.InstructorVisitor, search: Asked = "", role: Asked = "", after: Asked = ""
    ) -> Response:
        database = course.store.database
        members = enrolment.members(database, search=search, role=role, after=after)
        more = members[-1].person.login if len(members) == enrolment.PAGE_ROWS else ""
        filters = {"search": search, "role": role}
        shown: dict[str, Any] = {"members": members, "more": more, "asked": filters}
        roles = (LEARNER, *STAFF, FORMER)
        counts = enrolment.counts(database)
        summary = ", ".join(_count(counts[role], role) for role in roles if role in counts)
        beside: dict[str, Any] = {
            "summary": summary,
            "sections": course.store.roster.sections(),
            "platforms": course.lti.members.courses() if course.lti else [],
        }
        return course.page("people", person=person, roles=roles, **shown, **beside)

    @pages.post("/people/roster")
    async def show_roster(person: access.InstructorSender, request: Request) -> Response:
        missing = "roster: choose a CSV with a header"
        fields = await text_of_file(request, missing, ROSTER_BYTES)
        text, sure = fields["text"], "sure" in fields
        edit, data = course.edit(person), text.encode()
        changes = await run_in_threadpool(roster.take, edit, data, dry_run=not sure)
        return course.page("roster", person=person, text=text, sure=sure, changes=changes)

    @pages.post("/people/remove")
    def remove(by: access.InstructorSender, form: Fields) -> Response:
        person = course.person(form.get("login", ""))
        enrolment.remove(course.edit(by), person)
        return RedirectResponse("/people", 303)

    @pages.post("/people/tokens")
    def download_tokens(person: access.InstructorSender, form: Fields) -> Response:
        kind, renew = form.get("kind", ""), form.get("renew") == "on"
        rows = _give_many(course, person, kind, form.get("section", ""), renew)
        headers = {"Content-Disposition": f'attachment; filename="{kind}s.csv"'}
        lines: Iterator[str] = chunks(csv_lines(rows))
        return StreamingResponse(lines, media_type="text/csv", headers=headers)


def _count(count: int, role: str) -> str:
    return f"{count} {role}" if count == 1 or role == FORMER else f"{count} {role}s"


def _add_learner(pages: APIRouter, course: Course) -> None:
    @pages.get("/learners/{login}")
    def show_learner(person: access.StaffVisitor, login: str) -> Response:
        subject = course.person(login)
        labs, entries = course.labs_for(subject), course.store.submissions.all(person_id=subject.id)
        drafts = course.drafts_for(subject)
        factor = course.store.dates.calendar(subject.id).factors.get(subject.id, 1.0)
        reckoning = Reckoning.of(course.store.submissions)
        best = read_counted([subject], course.store.submissions)[subject.login]
        work: dict[str, Any] = {"labs": labs, "entries": entries, "drafts": drafts, "best": best}
        work |= {"course": reckoning.total(subject.id, best)}
        work |= {"decisions": {d.lab: d for d in course.store.submissions.decisions([subject.id])}}
        return course.page("learner", person=person, learner=subject, factor=factor, **work)

    @pages.post("/learners/{login}/time")
    def stretch(by: access.InstructorSender, login: str, form: Fields) -> Response:
        person = course.person(login)
        course.store.dates.stretch(person, number(form.get("factor", "")), by)
        return RedirectResponse(f"/learners/{quote(person.login, safe='')}", 303)


def _enroll(course: Course, body: dict[str, Any], role: str, by: Person) -> dict[str, Any]:
    lives_s = course.settings.bearer_s
    person, token, ends = enroll(course.store.roster, body, lives_s, role=role, by=by.login)
    facts = {"login": person.login, "name": person.name, "role": person.role}
    return {**facts, "token": token, "expires": iso(ends)}


def _add_teams(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how teams are listed and changed."""

    @api.get("/labs/{lab}/teams", response_class=Response, responses=openapi.EXPORT)
    def read_teams(_by: access.Staff, lab: LabName) -> Response:
        return StreamingResponse(_write_csv(course, lab), media_type="text/csv")

    @api.put("/labs/{lab}/teams", openapi_extra=openapi.CSV)
    def put_teams(
        by: access.Instructor, lab: LabName, body: Body, dry_run: bool = False
    ) -> dict[str, Any]:
        return {"changes": _take(course, lab, body, by, dry_run=dry_run)}

    @pages.get("/labs/{lab}/teams")
    def show_teams(person: access.StaffVisitor, lab: LabName) -> Response:
        return _show_page(course, person, lab, "".join(_write_csv(course, lab)))

    @pages.post("/labs/{lab}/teams")
    def change_teams(person: access.InstructorSender, lab: LabName, form: Fields) -> Response:
        text, sure = form.get("text", ""), "sure" in form
        changes = _take(course, lab, text.encode(), person, dry_run=not sure)
        if sure:
            return RedirectResponse(f"/labs/{quote(lab)}/teams", 303)
        return _show_page(course, person, lab, text, changes)


def _write_csv(course: Course, lab: str) -> Iterator[str]:
    return csv_lines(rows(teams(course.store.database, lab=lab)))


def _take(course: Course, lab: str, data: bytes, by: Person, *, dry_run: bool) -> list[Change]:
    find = course.store.roster.find
    return take(course.edit(by), lab, data, find=find, dry_run=dry_run)


def _show_page(
    course: Course, person: Person, lab: str, text: str, changes: list[Change] | None = None
) -> Response:
    listed = teams(course.store.database, lab=lab)
    shown: dict[str, Any] = {"lab": lab, "teams": listed, "text": text, "changes": changes}
    return course.page("teams", person=person, **shown)
