"""Grades by staff: those of whole labs, and how labs make up the course total."""

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.records import without_number
from autograder.service.errors import Refused
from autograder.service.records.grades import course_rule
from autograder.service.records.grades.course_rule import CourseRule
from autograder.service.records.grades.decisions import decide
from autograder.service.records.people import Person
from autograder.service.web import openapi
from autograder.service.web.access import Caller, Instructor, InstructorSender, InstructorVisitor
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, Json, LabName, number


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what staff decide about labs, and the course's rule."""
    store = course.store

    @api.get("/rule")
    def rule(_person: Caller) -> dict[str, Any]:
        return _said(course, course.rule())

    @api.put("/rule", openapi_extra=openapi.RULE)
    def put(by: Instructor, body: Json) -> dict[str, Any]:
        return _said(course, _put(course, body, by))

    @api.put("/labs/{lab}/grades/{login}", openapi_extra=openapi.GRADE)
    def grade(by: Instructor, lab: LabName, login: str, body: Json) -> dict[str, Any]:
        learner = course.person(login)
        decide(store.database, store.clock(), lab, learner, body, by)
        now = [vars(d) for d in store.submissions.decisions([learner.id], lab)]
        known = {name: now[0][name] for name in ("points", "max_score", "comment")} if now else {}
        excused = bool(now) and known["points"] is None
        return {"lab": lab, "login": learner.login, "excused": excused, **known}

    @pages.get("/rule")
    def form(person: InstructorVisitor) -> Response:
        held = course.rule()
        words = held.words(course.catalog.titles)
        labs = course.catalog.names
        return course.page("rule", person=person, rule=held, words=words, labs=labs)

    @pages.post("/rule")
    def change(person: InstructorSender, form: Fields) -> Response:
        weights = {
            name.removeprefix("weight-"): number(text)
            for name, text in form.items()
            if name.startswith("weight-") and text.strip()
        }
        drop = form.get("drop_lowest", "").strip()
        whole = int(drop) if drop.isascii() and drop.isdigit() and len(drop) < 9 else drop
        _put(course, {"drop_lowest": whole, "weights": weights}, person)
        return RedirectResponse("/rule", 303)

    @pages.post("/learners/{login}/grades")
    def decided(person: InstructorSender, login: str, form: Fields) -> Response:
        learner, lab = course.person(login), course.catalog.resolve(form.get("lab", ""))
        decide(store.database, store.clock(), lab, learner, _decision(form), person)
        return RedirectResponse(f"/learners/{quote(learner.login, safe='')}", 303)


def _said(course: Course, rule: CourseRule) -> dict[str, Any]:
    return {**rule.to_dict(), "words": rule.words(course.catalog.titles)}


def _put(course: Course, body: dict[str, Any], by: Person) -> CourseRule:
    store, labs = course.store, course.catalog.names
    if isinstance(body.get("weights"), dict):  # labs may be called without their numbers
        full = {without_number(lab): lab for lab in labs}
        weights = {full.get(lab, lab): weight for lab, weight in body["weights"].items()}
        body = {**body, "weights": weights}
    rule = course_rule.put(store.database, store.clock(), body, labs, by)
    course.totals.wake()
    return rule


def _decision(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form says, as JSON would."""
    kind, comment = form.get("what", ""), form.get("comment", "")
    points, full = form.get("points", "").strip(), form.get("max_score", "").strip()
    if kind == "points" and points:
        most = {"max_score": number(full)} if full else {}
        return {"points": number(points), "comment": comment, **most}
    if kind in ("excused", "none") and not points:
        return {"excused": kind == "excused", "comment": comment}
    expected = "points and the button that sets them, or none and another button"
    raise Refused(422, f"grade: expected {expected}.")
