"""The HTTP interface for programs: JSON in and out, `Authorization: Bearer`."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from autograder.errors import SubmissionError
from autograder.report import to_gradescope
from autograder.service import auth, exports, views
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.limits import Turns, too_large
from autograder.service.roster import Person
from autograder.service.settings import MIB
from autograder.submission import read


def router(course: Course) -> APIRouter:
    """Return the routes under `/api`."""
    api = APIRouter(prefix="/api")
    # A notebook of 16 MiB may need a hundred times as much while it is read: one at a time, and
    # those that wait for it hold no thread that others' requests need.
    turns, reading = Turns(), asyncio.Lock()

    @api.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "labs": course.shelf.names}

    @api.post("/submissions", status_code=201)
    async def submit(request: Request) -> dict[str, Any]:
        person = await run_in_threadpool(auth.bearer, request, course.roster)
        course.rate.spend(person.id)
        async with turns.of(person.id):
            lab, notebook = await _upload(request, course.settings.upload_bytes)
            full = course.shelf.resolve(lab)
            async with reading:
                await run_in_threadpool(_readable, notebook)
            return await run_in_threadpool(_store, course, request, person, full, notebook)

    @api.get("/submissions")
    def submissions(request: Request) -> list[dict[str, Any]]:
        auth.staff_bearer(request, course.roster)
        return [views.summary(entry) for entry in course.ledger.all()]

    @api.get("/submissions/{number}")
    def submission(request: Request, number: int) -> dict[str, Any]:
        person = auth.bearer(request, course.roster)
        return _submission(course, person, number)

    @api.get("/submissions/{number}/notebook")
    def notebook(request: Request, number: int) -> Response:
        person = auth.bearer(request, course.roster)
        entry = views.entry_for(person, course.ledger, number)
        return Response(course.ledger.notebook(entry.id), media_type="application/x-ipynb+json")

    @api.post("/submissions/{number}/regrade", status_code=202)
    def regrade(request: Request, number: int) -> dict[str, Any]:
        auth.staff_bearer(request, course.roster)
        return {"id": number, "state": _regrade(course, number)}

    _people_routes(api, course)
    return api


def _people_routes(api: APIRouter, course: Course) -> None:
    @api.post("/learners", status_code=201)
    async def enroll(request: Request) -> dict[str, str]:
        await run_in_threadpool(auth.staff_bearer, request, course.roster)
        body = await _json(request)
        name, renew = body.get("name"), body.get("renew", False)
        if not isinstance(name, str) or not isinstance(renew, bool):
            raise Refused(422, 'enroll: expected {"name": "...", "renew": false}.')
        person, token = await run_in_threadpool(auth.enroll, course.roster, name, renew=renew)
        return {"name": person.name, "token": token}

    @api.post("/login-codes", status_code=201)
    def login_code(request: Request) -> dict[str, str]:
        person = auth.bearer(request, course.roster)
        lives_s = course.settings.code_s
        return {"code": course.roster.give_token(person, "code", lives_s=lives_s)}

    @api.get("/export")
    def export(request: Request, format: str = "csv") -> PlainTextResponse:
        auth.staff_bearer(request, course.roster)
        return PlainTextResponse(
            exports.export(format, course.roster, course.ledger),
            media_type=exports.media_type(format),
        )


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
            return _lab_field(form), await _notebook_field(form)
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


def _lab_field(form: FormData) -> str:
    lab = form.get("lab")
    if not isinstance(lab, str) or not lab:
        raise Refused(422, "submit: the field `lab` is missing: expected the name of a lab.")
    return lab[:200]


async def _notebook_field(form: FormData) -> bytes:
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


def _store(
    course: Course, request: Request, person: Person, full: str, notebook: bytes
) -> dict[str, Any]:
    """Write a submission down; when this returns, it will be graded whatever happens.

    Raises:
        Refused: 413, this person's notebooks take up what they may.
    """
    kept, most = course.ledger.kept_bytes(person), course.settings.kept_bytes
    if kept + len(notebook) > most:
        problem = f"your submissions take up {kept / MIB:.1f} of {most / MIB:g} MiB here"
        clear = "Clear the outputs (Kernel, Restart Kernel and Clear Outputs) and submit again"
        raise Refused(413, f"submit: {problem}. {clear}, or ask your instructor for room.")
    number = course.ledger.add(person, full, notebook)
    course.wake()
    url = f"{request.base_url}submissions/{number}"
    return {"id": number, "lab": full, "state": "stored", "url": url}


def _submission(course: Course, person: Person, number: int) -> dict[str, Any]:
    entry = views.entry_for(person, course.ledger, number)
    report = views.report_for(person, course.ledger, entry)
    found = views.summary(entry)
    found["report"] = report and to_gradescope(report, staff=person.is_staff)
    found["reason"] = (
        entry.reason if person.is_staff else (report.error or None if report else None)
    )
    return found


def _regrade(course: Course, number: int) -> str:
    if not course.ledger.regrade(number):
        raise Refused(409, f"regrade: submission {number} is not there, or not finished yet.")
    course.wake()
    return "stored"


async def _json(request: Request) -> dict[str, Any]:
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"the body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise Refused(422, f"the body is not a JSON object: got {type(body).__name__}.")
    return body
