"""Marking by hand: one answer after the other, or those that are alike; who marks what, and what
those who mark share: kept comments, samples marked twice.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from autograder.records import ManualAnswer
from autograder.service.errors import Refused
from autograder.service.records.grades import kept_comments
from autograder.service.records.marking import assignments, marking
from autograder.service.records.marking.assignments import Assignment, Marker
from autograder.service.records.marking.marking import Walk
from autograder.service.records.marks import mark_digest, question_of
from autograder.service.records.people import Person
from autograder.service.records.roster.teams import find_senders
from autograder.service.web import access, openapi, views
from autograder.service.web.course import Course
from autograder.service.web.forms import NO_NUL, Digest, Fields, Json, OfQuestion, number

# The keys of the page on which answers are marked, as it and docs/running_a_course.md list them.
KEYS = (
    ("Enter", "in the field of the points: save, and on to the next that waits"),
    ("Ctrl+Enter", "save from any field"),
    ("n, p", "the next and the previous answer, marked or not"),
    ("1 to 9", "tick an item of the rubric, outside the fields"),
    ("m", "into the field of the points"),
    ("c", "into the comment"),
    ("g", "the answers that are alike"),
    ("Esc", "out of a field"),
    ("?", "show these keys"),
)


@dataclass(frozen=True)
class Way:
    """What the address of a page of answers says beside the question."""

    at: Annotated[int, Field(ge=0, le=2**62)] = 0
    named: bool = False
    blank: bool = False
    section: Annotated[str, Field(pattern=NO_NUL)] = ""
    sample: bool = False

    def walk(self, lab: str, question: str, person: Person) -> Walk:
        """Return the walk that a person asks for."""
        return Walk(lab, question, person.id, self.blank, self.section, self.sample)

    def link(self, path: str, at: int | None, *, named: bool = False) -> str:
        """Return the address of another answer on the way."""
        says = {"blank": self.blank, "sample": self.sample, "named": named}
        query = {name: 1 for name, value in says.items() if value}
        return f"{path}?{urlencode({**query, 'section': self.section, 'at': at or 0})}"


Asked = Annotated[Way, Depends()]


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add how staff mark answers, and what those who mark agree on."""
    _add_markers(api, pages, course)
    _add_answers(api, pages, course)
    _add_groups(api, pages, course)
    _add_comments(api, pages, course)
    _add_samples(api, pages, course)


def _add_answers(api: APIRouter, pages: APIRouter, course: Course) -> None:
    submissions = course.store.submissions

    @api.put("/submissions/{number}/marks", openapi_extra=openapi.MARKS)
    def put_marks(by: access.Staff, entry: access.CallersEntry, body: Json) -> dict[str, Any]:
        submissions.mark(entry.id, body, by)
        teams = find_senders(course.store.database, [entry.id])
        return views.summary(submissions.get(entry.id) or entry, teams)

    @api.get("/grading/{lab}/{question}")
    def read_answer(by: access.Staff, of: OfQuestion, asked: Asked) -> dict[str, Any]:
        desk = marking.desk(submissions, asked.walk(of.lab, of.question, by), asked.at)
        if desk is None:
            raise Refused(
                404, f"grading: {of.lab}: {of.question[:100]}: there is no answer to mark."
            )
        there: dict[str, Any] = {**vars(desk), **_read_beside(course, of.lab, of.question)}
        number = there.pop("entry").id
        return {**there, "submission": number, "answer": asdict(desk.answer)}

    @pages.get("/grading/{lab}/{question}")
    def show_answer(person: access.StaffVisitor, of: OfQuestion, asked: Asked) -> Response:
        walk = asked.walk(of.lab, of.question, person)
        desk = marking.desk(submissions, walk, asked.at)
        if desk is None:
            return RedirectResponse(_leave(walk, of.path), 303)
        place: dict[str, Any] = {"walk": walk, "asked": asked, "path": of.path, "keys": KEYS}
        beside = _read_beside(course, of.lab, of.question)
        return course.page("answer", person=person, **place, desk=desk, **beside)

    @pages.post("/grading/{lab}/{question}")
    def mark(person: access.StaffSender, of: OfQuestion, asked: Asked, form: Fields) -> Response:
        walk = asked.walk(of.lab, of.question, person)
        _require_seen(course, walk, asked.at, form)
        mark = _read_mark(course, of.lab, of.question, form, person)
        if form.get("second") == "1":
            course.store.second_marks.give(asked.at, of.question, mark, person)
        else:
            submissions.mark(asked.at, {of.question: mark}, person)
        after = marking.next_waiting(submissions, walk, asked.at)
        path = asked.link(of.path, after)
        return RedirectResponse(path if after else _leave(walk, of.path), 303)

    @pages.post("/submissions/{number}/manual")
    def mark_answer(person: access.StaffSender, number: int, form: Fields) -> Response:
        question = form.get("question", "")
        mark = {"points": form.get("score", ""), "comment": form.get("comment", "")}
        report = submissions.report(number) if "seen" in form else None
        if report is not None:
            _refuse_stale(number, question_of(report, question), form["seen"], mark)
        submissions.mark(number, {question: mark}, person)
        return RedirectResponse(f"/submissions/{number}", 303)


def _read_beside(course: Course, lab: str, question: str) -> dict[str, Any]:
    """Return what stands beside an answer."""
    text, model = course.catalog.read_question(lab, question)
    comments = kept_comments.of_question(course.store.database, lab, question)
    return {"question_text": text, "model_answer": model, "comments": comments}


def _require_seen(course: Course, walk: Walk, at: int, form: dict[str, str]) -> None:
    """Refuse (409) a mark of an answer that another person marked after it was shown."""
    desk = marking.desk(course.store.submissions, walk, at) if "seen" in form else None
    if desk is not None and not desk.second and desk.entry.id == at:
        _refuse_stale(at, desk.answer, form["seen"], form)


def _refuse_stale(at: int, answer: ManualAnswer, seen: str, mark: Mapping[str, str]) -> None:
    """Refuse (409) another `mark` than the answer has, unless what it has was `seen`."""
    score, points, comment = answer.score, mark.get("points", ""), mark.get("comment", "")
    wanted = (None if points == "" else number(points), comment)
    if seen != mark_digest(at, answer) and wanted != (score, answer.comment):
        now = "no points" if score is None else f"{score:g} points"
        problem = f"submission {at} was marked meanwhile, and has {now}"
        raise Refused(409, f"marking: {problem}. Go back, and load the page again.")


def _add_groups(api: APIRouter, pages: APIRouter, course: Course) -> None:
    submissions = course.store.submissions

    @api.get("/grading/{lab}/{question}/groups")
    def list_groups(_by: access.Staff, of: OfQuestion) -> dict[str, Any]:
        return {"groups": marking.groups(submissions, of.lab, of.question)}

    @api.get("/grading/{lab}/{question}/groups/{alike}")
    def read_group(_by: access.Staff, of: OfQuestion, alike: Digest) -> dict[str, Any]:
        variants = marking.variants(submissions, of.lab, of.question, alike)
        return {
            "variants": [{"text": v.answer.answer, "submissions": v.submissions} for v in variants]
        }

    @api.post("/grading/{lab}/{question}/groups/{alike}", openapi_extra=openapi.GROUP)
    def mark_group(by: access.Staff, of: OfQuestion, alike: Digest, body: Json) -> dict[str, Any]:
        numbers = body.get("submissions")
        if set(body) != {"submissions", "mark"} or not isinstance(numbers, list):
            raise Refused(422, 'group: expected {"submissions": [1, 2], "mark": {"points": 1.5}}.')
        walk = Walk(of.lab, of.question, by.id)
        return {"marked": marking.mark_group(submissions, walk, alike, numbers, body["mark"], by)}

    @pages.get("/grading/{lab}/{question}/groups")
    def show_groups(person: access.StaffVisitor, of: OfQuestion) -> Response:
        alike = marking.groups(submissions, of.lab, of.question)
        return course.page("groups", person=person, groups=alike, **vars(of), path=of.path)

    @pages.get("/grading/{lab}/{question}/groups/{alike}")
    def show_group(person: access.StaffVisitor, of: OfQuestion, alike: Digest) -> Response:
        variants = marking.variants(submissions, of.lab, of.question, alike)
        if not variants:
            return RedirectResponse(f"{of.path}/groups", 303)
        place: dict[str, Any] = {**vars(of), "path": of.path, "alike": alike}
        beside = _read_beside(course, of.lab, of.question)
        beside["full"] = sum(len(v.submissions) for v in variants) == marking.MOST_MEMBERS
        return course.page("group", person=person, variants=variants, **place, **beside)

    @pages.post("/grading/{lab}/{question}/groups/{alike}")
    def mark_and_show(
        person: access.StaffSender, of: OfQuestion, alike: Digest, form: Fields
    ) -> Response:
        numbers = [int(name[1:]) for name in form if re.fullmatch("a[0-9]{1,18}", name)]
        mark = _read_mark(course, of.lab, of.question, form, person)
        marking.mark_group(submissions, Walk(of.lab, of.question), alike, numbers, mark, person)
        return RedirectResponse(f"{of.path}/groups", 303)


def _read_mark(
    course: Course, lab: str, question: str, form: dict[str, str], person: Person
) -> dict[str, Any]:
    """Return the mark that a form says; what it has new for an item is kept, and part of it."""
    items = [text for name, text in form.items() if re.fullmatch("item[0-9]+", name)]
    comments = [form.get("comment", "").strip()]
    for name, text in form.items():
        if (match := re.fullmatch("new([0-9]*)", name)) and text.strip():
            item = form.get(f"of{match[1]}", "")
            comments.append(kept_comments.keep(course.edit(person), lab, question, item, text))
    comment = "\n".join(dict.fromkeys(filter(None, comments)))
    return {"points": form.get("points", ""), "items": items, "comment": comment}


def _leave(walk: Walk, path: str) -> str:
    """Return where somebody goes for whom nothing is left on the way."""
    return f"{path}/sample" if walk.sample else "/grading"


def _add_markers(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add who marks what, and how far they are."""
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
    def assign_and_show(person: access.InstructorSender, form: Fields) -> Response:
        _assign(course, form, person, remove=form.get("gone") == "1")
        return RedirectResponse("/grading/people", 303)


def _add_comments(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add the comments that markers share."""
    database = course.store.database

    @api.get("/grading/{lab}/{question}/comments")
    def list_comments(_by: access.Staff, of: OfQuestion) -> dict[str, Any]:
        return {"comments": kept_comments.of_question(database, of.lab, of.question)}

    @api.post("/grading/{lab}/{question}/comments", status_code=201, openapi_extra=openapi.COMMENT)
    def keep(by: access.Staff, of: OfQuestion, body: Json) -> dict[str, Any]:
        item, text = body.get("item", ""), body.get("text")
        text = kept_comments.keep(course.edit(by), of.lab, of.question, item, text)
        return {"item": item, "text": text}

    @api.delete("/grading/{lab}/{question}/comments/{number}", status_code=204)
    def remove(by: access.Staff, of: OfQuestion, number: int) -> None:
        kept_comments.remove(course.edit(by), number, of.lab, of.question)

    @pages.get("/grading/{lab}/{question}/comments")
    def show_comments(person: access.StaffVisitor, of: OfQuestion) -> Response:
        comments = kept_comments.of_question(database, of.lab, of.question)
        return course.page("comments", person=person, comments=comments, **vars(of), path=of.path)

    @pages.post("/grading/{lab}/{question}/comments/{number}")
    def remove_and_show(person: access.StaffSender, of: OfQuestion, number: int) -> Response:
        kept_comments.remove(course.edit(person), number, of.lab, of.question)
        return RedirectResponse(f"{of.path}/comments", 303)


def _add_samples(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add samples that two people mark, and how far they differ."""
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


def _assign(course: Course, body: dict[str, Any], by: Person, *, remove: bool) -> dict[str, Any]:
    assignment = Assignment.read(body)
    if assignment.lab:
        assignment = replace(assignment, lab=course.catalog.resolve(assignment.lab))
    if not remove:
        _require_known(course, assignment)
    whom = course.person(str(body.get("login", "")))
    assignments.assign(course.edit(by), whom, assignment, remove=remove)
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
