"""What a request says, as the types of a route's parameters; in a form or in JSON each key once.

A notebook is read whole as it arrives, and what cannot be graded is refused (`take_in`).

Of two that are the same, one would be dropped without a word, and a proxy in front may have read
the other.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from autograder.errors import SubmissionError
from autograder.grading.submission import read
from autograder.records import without_number
from autograder.service.errors import Refused
from autograder.service.records.csv_files import decoded
from autograder.service.records.marking import marking
from autograder.service.records.people import Person
from autograder.service.records.submissions.intake import Receipt
from autograder.service.reports import gradebook
from autograder.service.web.access import Here
from autograder.service.web.course import Course
from autograder.service.web.limits import too_large

T = TypeVar("T")

_MAX_FIELDS = 1_000  # four dates a lab; a group of answers, and what is said of them


def once(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return the pairs as a dict.

    Raises:
        Refused: 422, a key comes twice.
    """
    values: dict[str, T] = {}
    for key, value in pairs:
        if key in values:
            raise Refused(422, f"the key {key[:100]!r} was given twice: expected once.")
        values[key] = value
    return values


def read_json(text: str) -> Any:
    """Return what a text of JSON says.

    Raises:
        Refused: 422, a key comes twice.
        ValueError, RecursionError: it is no JSON, or has half of a surrogate pair, which no
            database takes.
    """
    value = json.loads(text, object_pairs_hook=once)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


async def json_object(request: Request) -> dict[str, Any]:
    """Return the JSON object that the body is.

    Raises:
        Refused: 422, it is something else, or says something twice.
    """
    try:
        body = read_json((await request.body()).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Refused(422, f"the body is not JSON: {error}.") from error
    if not isinstance(body, dict):
        raise Refused(422, f"the body is not a JSON object: got {type(body).__name__}.")
    return body


async def _fields(request: Request) -> dict[str, str]:
    async with request.form(max_files=0, max_fields=_MAX_FIELDS) as form:
        return once((key, str(value)) for key, value in form.multi_items())


async def text_of_file(request: Request, missing: str, limit_bytes: int) -> dict[str, str]:
    """Return the fields of a form; `text` is that of its file, or as it was shown and sent back.

    Raises:
        Refused: 422, there is none, as `missing` says, or it is not UTF-8.
    """
    how: dict[str, int] = {"max_files": 1, "max_fields": 8, "max_part_size": limit_bytes}
    async with request.form(**how) as form:
        fields = once(form.multi_items())
        file = fields.pop("file", None)
        texts = {name: text for name, text in fields.items() if isinstance(text, str)}
        if isinstance(file, UploadFile):
            try:
                texts["text"] = decoded(await file.read())
            except UnicodeDecodeError as error:
                raise Refused(422, f"{missing}: this one is no text in UTF-8: {error}.") from error
    if not texts.get("text", "").strip():
        raise Refused(422, f"{missing}.")
    return texts


async def _body(request: Request) -> bytes:
    return await request.body()


async def _json_if_any(request: Request) -> dict[str, Any]:
    return await json_object(request) if await request.body() else {}


async def _lab(lab: str, course: Here) -> str:
    return course.catalog.resolve(lab)


def _resolve_lab(lab: str, course: Here) -> str:
    try:
        return course.catalog.resolve(lab)
    except Refused:
        for full in course.store.submissions.labs():
            if lab in (full, without_number(full)):
                return full
        raise


def _any_lab(course: Here, lab: str = "") -> str:
    return _resolve_lab(lab, course) if lab else ""


def number(text: str, kind: type[int] | type[float] = float) -> float | str:
    """Return the number that a field holds; else its text, which is refused by name."""
    try:
        return kind(text)
    except ValueError:
        return text


Json = Annotated[dict[str, Any], Depends(json_object)]
JsonIfAny = Annotated[dict[str, Any], Depends(_json_if_any)]  # no body is an empty object
Fields = Annotated[dict[str, str], Depends(_fields)]  # of the form that a page sent
Body = Annotated[bytes, Depends(_body)]
Asked = Annotated[gradebook.Asked, Depends()]  # of the gradebook

# The full name of the lab that the address says, of one with records though its folder is gone, or
# of any such; empty where a query names none.
LabName = Annotated[str, Depends(_lab)]
RecordedLab = Annotated[str, Depends(_resolve_lab)]
AnyLabName = Annotated[str, Depends(_any_lab)]

NO_NUL = r"^[^\x00]*$"  # which no text of a database may have
QuestionName = Annotated[str, Path(max_length=200, pattern=NO_NUL)]


@dataclass(frozen=True)
class _Question:
    """A question of a lab, as an address names both."""

    lab: str
    question: str

    @property
    def path(self) -> str:
        """The address of its answers."""
        return f"/grading/{quote(self.lab)}/{quote(self.question, safe='')}"


def _question(course: Here, lab: RecordedLab, question: QuestionName) -> _Question:
    """Return a question that people mark, as far as the lab can be read, or have marked before."""
    rubrics = course.catalog.rubrics(lab)
    if rubrics and question not in rubrics:
        with course.store.database.read() as connection:
            piles = marking.shares(connection)
        if (lab, question) not in ((pile.lab, pile.question) for pile in piles):
            expected = f"expected one of: {', '.join(rubrics)[:200]}"
            raise Refused(404, f"{lab}: question for a person: got {question!r}, {expected}.")
    return _Question(lab, question)


OfQuestion = Annotated[_Question, Depends(_question)]
Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]
# Before or behind which number a list goes on; 0: from its beginning.
Start = Annotated[int, Query(ge=0, le=2**62)]

# A later page would be the offset of a row that no table has.
PageNumber = Annotated[int, Query(alias="page", ge=1, le=gradebook.MOST_PAGES)]


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
            fields = once(form.multi_items())
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
