"""People: the roster, who learns and who runs the course, and a learner at one glance."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from autograder.service.errors import Refused
from autograder.service.records.people import LEARNER, STAFF, Person, enroll
from autograder.service.times import iso
from autograder.service.web import openapi
from autograder.service.web.access import Instructor, StaffVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import Body, Json
from autograder.service.web.page import page


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how people come into the course, and the page of each learner."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
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


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/learners/{login}")
    def learner(person: StaffVisitor, login: str) -> Response:
        subject = course.person(login)
        labs, entries = course.labs_for(subject), course.store.submissions.all(person_id=subject.id)
        drafts = course.drafts_for(subject)
        work: dict[str, Any] = {"labs": labs, "entries": entries, "drafts": drafts}
        return page("learner", person=person, learner=subject, **work)


def _enrolled(course: Course, body: dict[str, Any], role: str, by: Person) -> dict[str, Any]:
    lives_s = course.settings.bearer_s
    person, token, ends = enroll(course.store.roster, body, lives_s, role=role, by=by.login)
    known = {"login": person.login, "name": person.name, "role": person.role}
    return {**known, "token": token, "expires": iso(ends)}
