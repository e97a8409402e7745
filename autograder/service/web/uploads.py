"""A notebook as it arrives: the form is read whole, and what cannot be graded is refused."""

from functools import partial

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from autograder.errors import SubmissionError
from autograder.grading.submission import read
from autograder.service.errors import Refused
from autograder.service.records.people import Person
from autograder.service.records.submissions.intake import Receipt
from autograder.service.web.course import Course
from autograder.service.web.forms import once
from autograder.service.web.limits import too_large

Fields = dict[str, UploadFile | str]

_KEY_CHARS = 200


async def take_in(request: Request, course: Course, person: Person) -> Receipt:
    """Return the receipt for the notebook that a request brings; it is on the disk then.

    A notebook of 16 MiB may need a hundred times as much while it is read: one at a time, and those
    that wait for it hold no thread that others' requests need.
    """
    course.limits.submissions.spend(person.id)
    key = _retry_key(request)
    async with course.limits.turns[person.id]:
        lab, notebook = await _upload(request, course.settings.upload_bytes)
        full = course.catalog.resolve(lab)
        async with course.limits.reading:
            await run_in_threadpool(_require_readable, notebook, full, course)
        add = partial(
            course.store.submissions.add, retry_key=key, most_bytes=course.settings.kept_bytes
        )
        receipt = await run_in_threadpool(add, person, full, notebook)
    course.queue.wake()
    return receipt


def _retry_key(request: Request) -> str | None:
    """Return the client's `Idempotency-Key`, or None."""
    key = request.headers.get("idempotency-key")
    if key is None or (0 < len(key) <= _KEY_CHARS and key.isascii() and key.isprintable()):
        return key
    raise Refused(422, f"submit: Idempotency-Key: expected 1 to {_KEY_CHARS} printable characters.")


async def _upload(request: Request, limit_bytes: int) -> tuple[str, bytes]:
    """Return (lab, notebook) of a submission's form."""
    length = request.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length) > limit_bytes:
        raise Refused(413, too_large(limit_bytes))
    await _require_whole(request)
    try:
        async with request.form(max_files=1, max_fields=4, max_part_size=limit_bytes) as form:
            fields: Fields = once(form.multi_items())
            lab, notebook = fields.get("lab"), fields.get("notebook")
            if not isinstance(lab, str) or not lab:
                expected = "expected the name of a lab"
                raise Refused(422, f"submit: the field `lab` is missing: {expected}.")
            part = notebook or ""
            data = part.encode() if isinstance(part, str) else await part.read()
            if not data:
                problem = "the field `notebook` is missing or empty"
                raise Refused(422, f"submit: {problem}: expected a file.")
            return lab[:200], data
    except HTTPException as error:
        raise Refused(422, f"submit: the form cannot be read: {error.detail}") from error


async def _require_whole(request: Request) -> None:
    """Read the body, and let it through only if it is a form that has its end."""
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary", b"")
    if kind.lower() != b"multipart/form-data" or not boundary:
        content_type = request.headers.get("content-type", "")[:100]
        expected = "'multipart/form-data' with a boundary"
        raise Refused(422, f"submit: got content type {content_type!r}, expected {expected}.")
    body = await request.body()
    if not body.rstrip().endswith(b"--" + boundary + b"--"):
        raise Refused(422, "submit: the form ends before its last boundary. Send it again.")


def _require_readable(notebook: bytes, lab: str, course: Course) -> None:
    """Raise unless the bytes are a notebook, and may be of this lab."""
    try:
        arrived = read(notebook)
    except SubmissionError as error:
        raise Refused(422, f"submit: {error}") from error
    course.catalog.require_of(lab, arrived)
