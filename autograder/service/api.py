"""The HTTP interface for programs: JSON in and out, `Authorization: Bearer`."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response, StreamingResponse
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from autograder.errors import SubmissionError
from autograder.grading.report import to_gradescope
from autograder.grading.submission import read
from autograder.records import Report
from autograder.service import exports, openapi, platforms, views
from autograder.service.auth import Caller, Here, Staff
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.forms import AnyLabName, Body, LabName, once
from autograder.service.limits import too_large
from autograder.service.roster import Person
from autograder.service.schema import PARKED, STORED
from autograder.service.submissions import Entry, Receipt

Fields = dict[str, UploadFile | str]

_KEY_CHARS = 200


def _entry(number: int, course: Here, person: Caller) -> Entry:
    return views.entry_for(person, course.submissions, number)


Seen = Annotated[Entry, Depends(_entry)]


def router(course: Course) -> APIRouter:
    """Return the routes under `/api`."""
    api = APIRouter(prefix="/api")

    @api.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "labs": course.catalog.names}

    @api.post("/submissions", status_code=201, openapi_extra=openapi.SUBMISSION)
    async def submit(request: Request, response: Response, person: Caller) -> dict[str, Any]:
        receipt = await take_in(request, course, person)
        response.status_code = 201 if receipt.is_new else 200
        checks = await run_in_threadpool(course.catalog.checks, receipt.lab)
        return views.receipt(receipt, course.url, checks)

    @api.get("/submissions")
    def submissions(_by: Staff) -> list[dict[str, Any]]:
        return [views.summary(entry) for entry in course.submissions.all()]

    @api.get("/submissions/{number}")
    def submission(person: Caller, entry: Seen) -> dict[str, Any]:
        report = views.report_for(person, course.submissions, entry)
        found = views.summary(entry)
        found["report"] = report and to_gradescope(report, staff=person.is_staff)
        found["reason"] = entry.reason if person.is_staff else _told(entry, report)
        return found

    @api.get("/submissions/{number}/notebook", response_class=Response, responses=openapi.NOTEBOOK)
    def notebook(entry: Seen) -> Response:
        return Response(
            course.submissions.notebook(entry.id), media_type="application/x-ipynb+json"
        )

    @api.get("/labs/{lab}/solutions/{question}")
    def solution(person: Caller, lab: LabName, question: str) -> dict[str, Any]:
        return views.solution(person, course, lab, question)

    @api.post("/submissions/{number}/regrade", status_code=202)
    def regrade(by: Staff, number: int) -> dict[str, Any]:
        if not course.regrade(number, by):
            raise Refused(409, f"regrade: submission {number} is not there, or not finished yet.")
        return {"id": number, "state": STORED}

    @api.post("/login-codes", status_code=201)
    def login_code(person: Caller) -> dict[str, str]:
        return {"code": course.roster.give_token(person, "code", lives_s=course.settings.code_s)}

    _export_routes(api, course)
    return api


def _export_routes(api: APIRouter, course: Course) -> None:
    described: dict[str, Any] = {"response_class": Response, "responses": openapi.EXPORT}

    @api.get("/export", **described)
    def export(_by: Staff, lab: AnyLabName, format: str = "csv") -> Response:
        kind, pieces = exports.export(format, course.roster, course.submissions, lab=lab)
        return StreamingResponse(exports.chunks(pieces), media_type=kind)

    @api.get("/export/notes")
    def notes(_by: Staff, lab: AnyLabName) -> dict[str, Any]:
        book = exports.book_of(course.roster, course.submissions, lab)
        return {"problems": [], "not_final": exports.not_final(book)}

    @api.post("/export/notes", openapi_extra=openapi.CSV)
    def notes_on(
        _by: Staff, lab: AnyLabName, template: Body, format: str = "canvas"
    ) -> dict[str, Any]:
        book = exports.book_of(course.roster, course.submissions, lab)
        problems = platforms.filled(format, template, book).problems
        return {"problems": problems, "not_final": exports.not_final(book)}

    @api.post("/export", **described, openapi_extra=openapi.CSV)
    def fill(_by: Staff, lab: AnyLabName, template: Body, format: str = "canvas") -> Response:
        book = exports.book_of(course.roster, course.submissions, lab)
        pieces = platforms.filled(format, template, book).lines()
        return StreamingResponse(exports.chunks(pieces), media_type="text/csv")


async def take_in(request: Request, course: Course, person: Person) -> Receipt:
    """Return the receipt for the notebook that a request brings; it is on the disk then.

    A notebook of 16 MiB may need a hundred times as much while it is read: one at a time, and those
    that wait for it hold no thread that others' requests need.
    """
    course.rate.spend(person.id)
    key = _retry_key(request)
    async with course.turns[person.id]:
        lab, notebook = await _upload(request, course.settings.upload_bytes)
        full = course.catalog.resolve(lab)
        async with course.reading:
            await run_in_threadpool(_readable, notebook)
        add = partial(course.submissions.add, retry_key=key, most_bytes=course.settings.kept_bytes)
        receipt = await run_in_threadpool(add, person, full, notebook)
    course.queue.wake()
    return receipt


def _retry_key(request: Request) -> str | None:
    """Return the client's `Idempotency-Key`, or None.

    Raises:
        Refused: 422, it is too long or unreadable.
    """
    key = request.headers.get("idempotency-key")
    if key is None or (0 < len(key) <= _KEY_CHARS and key.isascii() and key.isprintable()):
        return key
    raise Refused(422, f"submit: Idempotency-Key: expected 1 to {_KEY_CHARS} printable characters.")


async def _upload(request: Request, limit_bytes: int) -> tuple[str, bytes]:
    """Return (lab, notebook) of a submission's form.

    Raises:
        Refused: 413, it is too large; 422, the form is not the one that is expected.
    """
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length) > limit_bytes:
        raise Refused(413, too_large(limit_bytes))
    await _whole(request)
    try:
        async with request.form(max_files=1, max_fields=4, max_part_size=limit_bytes) as form:
            fields = once(form.multi_items())
            return _lab_field(fields), await _notebook_field(fields)
    except HTTPException as error:
        raise Refused(422, f"submit: the form cannot be read: {error.detail}") from error


async def _whole(request: Request) -> None:
    """Read the body, and let it through only if it is a form that has its end.

    Raises:
        Refused: 422, it is something else, or was cut off.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind.lower() != b"multipart/form-data" or not boundary:
        got = request.headers.get("content-type", "")[:100]
        expected = "'multipart/form-data' with a boundary"
        raise Refused(422, f"submit: got content type {got!r}, expected {expected}.")
    body = await request.body()
    if not body.rstrip().endswith(b"--" + boundary + b"--"):
        raise Refused(422, "submit: the form ends before its last boundary. Send it again.")


def _lab_field(form: Fields) -> str:
    lab = form.get("lab")
    if not isinstance(lab, str) or not lab:
        raise Refused(422, "submit: the field `lab` is missing: expected the name of a lab.")
    return lab[:200]


async def _notebook_field(form: Fields) -> bytes:
    notebook = form.get("notebook")
    data = await notebook.read() if isinstance(notebook, UploadFile) else (notebook or "").encode()
    if not data:
        raise Refused(422, "submit: the field `notebook` is missing or empty: expected a file.")
    return data


def _readable(notebook: bytes) -> None:
    """Let a notebook through that can be read.

    Raises:
        Refused: 422, it is none and can never be graded.
    """
    try:
        read(notebook)
    except SubmissionError as error:
        raise Refused(422, f"submit: {error}") from error


def _told(entry: Entry, report: Report | None) -> str | None:
    """Return what a learner is told of why there is no grade, or not the one that they expect."""
    if entry.state == PARKED:
        return views.PARKED_MESSAGE
    return (report.error or None) if report else None
