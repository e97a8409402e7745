"""What a request says, as the types of a route's parameters; in a form or in JSON each key once.

Of two that are the same, one would be dropped without a word, and a proxy in front may have read
the other.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request
from starlette.datastructures import UploadFile

from autograder.records import without_number
from autograder.service.errors import Refused
from autograder.service.records.csv_files import decoded
from autograder.service.records.marking import marking
from autograder.service.reports import gradebook
from autograder.service.web.access import Here

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
