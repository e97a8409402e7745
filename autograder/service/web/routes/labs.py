"""Labs: their dates and who has longer, how they went, what is alike in them, and solutions."""

from dataclasses import fields
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response, StreamingResponse

from autograder.service.errors import Refused
from autograder.service.records.rules import DATES, Rules
from autograder.service.records.terms.schedule import digest, take
from autograder.service.reports import numbers
from autograder.service.times import date
from autograder.service.web import access, openapi
from autograder.service.web.course import Course
from autograder.service.web.forms import Fields, Json, LabName, RecordedLab, number


def add_routes(api: APIRouter, pages: APIRouter, course: Course) -> None:
    """Add what is asked of labs as a whole."""
    _add_api(api, course)
    _add_pages(pages, course)


def _add_api(api: APIRouter, course: Course) -> None:
    @api.get("/labs/{lab}/solutions/{question}")
    def read_solution(person: access.Caller, lab: LabName, question: str) -> dict[str, Any]:
        rules = course.store.dates.calendar(person.id).of(lab, person.id)
        refusal = rules.solutions_refusal(course.store.clock())
        if refusal and not person.is_staff:
            raise Refused(403, f"{lab}: {refusal}.")
        text = course.catalog.solution_of(lab, question)
        if text is None:
            raise Refused(404, f"{lab}: there is no question called {question[:100]!r}.")
        return {"lab": lab, "question": question, "solution": text}

    @api.get("/labs")
    def list_labs(person: access.Caller) -> dict[str, Any]:
        return {"labs": course.labs_for(person)}

    @api.put("/labs/{lab}", openapi_extra=openapi.RULES)
    def put_rules(by: access.Instructor, lab: LabName, body: Json) -> dict[str, Any]:
        new_rules = Rules.read(body)
        course.store.dates.set_rules(lab, new_rules, by)
        course.totals.wake()
        return {"name": lab, **new_rules.to_dict()}

    @api.get("/labs/{lab}/numbers", responses=openapi.EXPORT)
    def read_numbers(_by: access.Staff, lab: RecordedLab, format: str = "json") -> Any:
        overview = numbers.overview(course.store.database, lab)
        if format not in ("json", "csv"):
            raise Refused(422, f"numbers: got format {format[:40]!r}, expected json or csv.")
        if format == "csv":
            return StreamingResponse(numbers.lines(overview), media_type="text/csv")
        return {"lab": lab, **overview.to_dict()}

    @api.get("/labs/{lab}/similarity")
    def compare_answers(_by: access.Staff, lab: LabName) -> dict[str, Any]:
        alike = course.similarity.of(lab)
        pairs = [
            {"question": p.question, "share": p.share, "left": left, "right": right}
            for p, left, right in alike.pairs
        ]
        return {"lab": lab, "compared": alike.compared, "pairs": pairs}

    @api.put("/labs/{lab}/extensions/{login}", openapi_extra=openapi.EXTENSION)
    def extend(by: access.Instructor, lab: LabName, login: str, body: Json) -> dict[str, Any]:
        if set(body) != {"due"}:
            raise Refused(422, 'extension: expected {"due": a time with its zone, or null}.')
        due = date(body["due"], "extension: due")
        learner = course.person(login)
        new_rules = course.store.dates.extend(lab, learner, due, by)
        return {"name": lab, "login": learner.login, **new_rules.to_dict()}


def _add_pages(pages: APIRouter, course: Course) -> None:
    @pages.get("/labs")
    def show_labs(person: access.Visitor) -> Response:
        labs, rules = course.labs_for(person), course.store.dates.calendar().rules
        seen = {lab["name"]: digest({lab["name"]: rules.get(lab["name"], Rules())}) for lab in labs}
        beside: dict[str, Any] = {
            **course.news(person),
            "batches": course.store.regrades.all() if person.is_staff else [],
            "drafts": course.drafts_for(person),
            "seen": seen,
        }
        return course.page(
            "labs", person=person, labs=labs, fields=FIELDS, date_fields=DATES, **beside
        )

    @pages.post("/labs/{lab}/dates")
    def set_dates(person: access.InstructorSender, lab: LabName, form: Fields) -> Response:
        says = {lab: Rules.read(_read_rules(form)).to_dict()}
        take(course.edit(person), says, dry_run=False, seen=form.get("seen"))
        course.totals.wake()
        return RedirectResponse("/labs", 303)

    @pages.post("/labs/{lab}/extensions")
    def extend(person: access.InstructorSender, lab: LabName, form: Fields) -> Response:
        learner = course.person(form.get("login", ""))
        due = date(form.get("due", "").strip() or None, "extension: due")
        course.store.dates.extend(lab, learner, due, person)
        return RedirectResponse(f"/learners/{quote(learner.login, safe='')}", 303)

    @pages.get("/labs/{lab}/numbers")
    def show_numbers(person: access.StaffVisitor, lab: RecordedLab) -> Response:
        overview = numbers.overview(course.store.database, lab)
        return course.page(
            "numbers", person=person, lab=lab, overview=overview, parts=numbers.PARTS
        )

    @pages.get("/labs/{lab}/numbers.csv")
    def download_numbers(_by: access.StaffVisitor, lab: RecordedLab) -> Response:
        headers = {"Content-Disposition": f'attachment; filename="{quote(lab)}-numbers.csv"'}
        pieces = numbers.lines(numbers.overview(course.store.database, lab))
        return StreamingResponse(pieces, media_type="text/csv", headers=headers)

    @pages.get("/labs/{lab}/similarity")
    def show_alike(person: access.StaffVisitor, lab: LabName) -> Response:
        return course.page("similarity", person=person, lab=lab, alike=course.similarity.of(lab))

    @pages.get("/labs/{lab}/similarity/{question}")
    def show_side_by_side(
        person: access.StaffVisitor, lab: LabName, question: str, left: int, right: int
    ) -> Response:
        entries = [
            access.entry_for(person, course.store.submissions, number) for number in (left, right)
        ]
        texts = course.similarity.texts(lab, question, [left, right])
        sides = list(zip(entries, texts, strict=True))
        return course.page("side_by_side", person=person, lab=lab, question=question, sides=sides)


# Of a lab's rules, and how the page calls them.
FIELDS = (
    ("opens", "Opens"),
    ("due", "Due"),
    ("late_until", "Late until"),
    ("penalty_per_day", "Share lost a day"),
    ("attempts", "Attempts"),
    ("grace_minutes", "Grace, minutes"),
    ("requests_until", "Re-grade requests until"),
)


def _read_rules(form: dict[str, str]) -> dict[str, Any]:
    """Return what the form of a lab's dates says, as JSON would."""
    values: dict[str, Any] = {}
    for field in fields(Rules):
        text = form.get(field.name, "").strip()
        if field.name in DATES:
            values[field.name] = text or None
        elif field.default is False:  # a box to tick
            values[field.name] = bool(text)
        elif text:
            values[field.name] = number(text, int if field.name == "attempts" else float)
    return values
