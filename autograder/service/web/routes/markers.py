"""Who marks what, how far they are, and what marks share: kept comments, samples marked twice."""

from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from autograder.service.errors import Refused
from autograder.service.records.grades import kept_comments
from autograder.service.records.marking import assignments, marking
from autograder.service.records.marking.assignments import Assignment, Marker
from autograder.service.records.people import Person
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, Json, OfQuestion


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the list of what waits, and what staff who mark agree on."""
    _add_api(api, course)
    _add_samples(api, pages, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    database = course.store.database

    @api.get("/grading")
    def read_state(by: access.Staff) -> dict[str, Any]:
        markers = [_as_dict(marker) for marker in assignments.markers(database)]
        own = next((marker for marker in markers if marker["login"] == by.login), None)
        samples = course.store.second_marks.samples(by)
        piles = marking.list_piles(database)
        return {"piles": piles, "samples": samples, "markers": markers, "mine": own}

    @api.put("/grading/assignments", openapi_extra=openapi.ASSIGNMENT)
    def assign(by: access.Instructor, body: Json) -> dict[str, Any]:
        return _assign(course, body, by, remove=False)

    @api.delete("/grading/assignments", openapi_extra=openapi.ASSIGNMENT)
    def take_back(by: access.Instructor, body: Json) -> dict[str, Any]:
        return _assign(course, body, by, remove=True)

    @api.get("/grading/{lab}/{question}/comments")
    def list_comments(_by: access.Staff, of: OfQuestion) -> dict[str, Any]:
        return {"comments": kept_comments.of_question(database, of.lab, of.question)}

    @api.post("/grading/{lab}/{question}/comments", status_code=201, openapi_extra=openapi.COMMENT)
    def keep(by: access.Staff, of: OfQuestion, body: Json) -> dict[str, Any]:
        item, now = body.get("item", ""), course.store.clock()
        text = kept_comments.keep(database, of.lab, of.question, item, body.get("text"), by, now)
        return {"item": item, "text": text}

    @api.delete("/grading/{lab}/{question}/comments/{number}", status_code=204)
    def remove(by: access.Staff, of: OfQuestion, number: int) -> None:
        kept_comments.remove(database, number, of.lab, of.question, by, course.store.clock())


def _add_samples(api: APIRouter, pages: APIRouter, course: Course) -> None:
    second_marks = course.store.second_marks

    @api.get("/grading/{lab}/{question}/sample")
    def read_sample(_by: access.Staff, of: OfQuestion) -> dict[str, Any]:
        sample = second_marks.agreement(of.lab, of.question)
        pairs = [{**vars(pair), "difference": pair.difference} for pair in sample.pairs]
        return {**vars(sample), "mean_difference": sample.mean_difference, "pairs": pairs}

    @api.post("/grading/{lab}/{question}/sample", status_code=201, openapi_extra=openapi.SAMPLE)
    def draw(by: access.Instructor, of: OfQuestion, body: Json) -> dict[str, Any]:
        return {"drawn": second_marks.draw(of.lab, of.question, body.get("size"), by)}

    @api.put("/grading/{lab}/{question}/sample/{number}", openapi_extra=openapi.MARK)
    def give(by: access.Staff, of: OfQuestion, number: int, body: Json) -> dict[str, Any]:
        second_marks.give(number, of.question, body, by)
        return {"submission": number, "question": of.question}

    @api.post("/grading/{lab}/{question}/sample/{number}", openapi_extra=openapi.DECISION)
    def decide(by: access.Staff, of: OfQuestion, number: int, body: Json) -> dict[str, Any]:
        second_marks.decide(number, of.question, body.get("take"), by)
        return {"submission": number, "question": of.question}

    @pages.get("/grading/{lab}/{question}/sample")
    def show_sample(person: access.StaffVisitor, of: OfQuestion) -> Response:
        agreement = second_marks.agreement(of.lab, of.question)
        return course.page("sample", person=person, agreement=agreement, **vars(of), path=of.path)

    @pages.post("/grading/{lab}/{question}/sample")
    def draw_more(person: access.InstructorSender, of: OfQuestion, form: Fields) -> Response:
        second_marks.draw(of.lab, of.question, form.get("size"), person)
        return RedirectResponse(f"{of.path}/sample", 303)

    @pages.post("/grading/{lab}/{question}/sample/{number}")
    def take(person: access.StaffSender, of: OfQuestion, number: int, form: Fields) -> Response:
        second_marks.decide(number, of.question, form.get("take"), person)
        return RedirectResponse(f"{of.path}/sample", 303)


def _add_pages(pages: APIRouter, course: Course) -> None:
    database = course.store.database

    @pages.get("/grading")
    def show_piles(person: access.StaffVisitor) -> Response:
        piles, mine = marking.list_piles(database), assignments.find_marker(database, person)
        samples = course.store.second_marks.samples(person)
        return course.page("grading", person=person, piles=piles, mine=mine, samples=samples)

    @pages.get("/grading/people")
    def show_markers(person: access.StaffVisitor) -> Response:
        beside: dict[str, Any] = {
            "questions": {lab: course.catalog.rubrics(lab) for lab in course.catalog.names},
            "sections": course.store.roster.sections(),
        }
        return course.page(
            "markers", person=person, markers=assignments.markers(database), **beside
        )

    @pages.post("/grading/people")
    def assign(person: access.InstructorSender, form: Fields) -> Response:
        _assign(course, form, person, remove=form.get("gone") == "1")
        return RedirectResponse("/grading/people", 303)

    @pages.get("/grading/{lab}/{question}/comments")
    def show_comments(person: access.StaffVisitor, of: OfQuestion) -> Response:
        comments = kept_comments.of_question(database, of.lab, of.question)
        return course.page("comments", person=person, comments=comments, **vars(of), path=of.path)

    @pages.post("/grading/{lab}/{question}/comments/{number}")
    def remove(person: access.StaffSender, of: OfQuestion, number: int) -> Response:
        kept_comments.remove(database, number, of.lab, of.question, person, course.store.clock())
        return RedirectResponse(f"{of.path}/comments", 303)


def _assign(course: Course, body: dict[str, Any], by: Person, *, remove: bool) -> dict[str, Any]:
    assignment = Assignment.read(body)
    if assignment.lab:
        assignment = replace(assignment, lab=course.catalog.resolve(assignment.lab))
    if not remove:
        _require_known(course, assignment)
    whom = course.person(str(body.get("login", "")))
    assignments.assign(
        course.store.database, whom, assignment, by, course.store.clock(), remove=remove
    )
    return {"login": whom.login, **asdict(assignment)}


def _require_known(course: Course, what: Assignment) -> None:
    """Refuse (404) what names a question or a section that there is not."""
    labs = [what.lab] if what.lab else course.catalog.names
    questions = {question for lab in labs for question in course.catalog.rubrics(lab)}
    questions |= {pile.question for pile in marking.list_piles(course.store.database)}
    sections = course.store.roster.sections()
    for kind, name, names in (
        ("question for a person", what.question, sorted(questions)),
        ("section", what.section, sections),
    ):
        if name and name not in names:
            expected = ", ".join(names)[:200] or "none"
            raise Refused(404, f"assign: {kind}: got {name!r}, expected one of: {expected}.")


def _as_dict(marker: Marker) -> dict[str, Any]:
    sums = {"waiting": marker.waiting, "written": marker.written, "marked": marker.marked}
    assigned = [asdict(assignment) for assignment in marker.assigned]
    return {"login": marker.login, "name": marker.name, "assigned": assigned, **sums}
