"""Comments that the markers of a question share, by item of its rubric: a list that grows.

One is kept when somebody writes it for an item, and ordered by how often marks have used it: a
line of a mark's comment that is a kept comment is a use of it.
"""

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import kept_comments
from autograder.service.errors import Refused
from autograder.service.records.people import Edit

_CHARS = 500
_MOST = 200  # of a question; nobody reads more


@dataclass(frozen=True)
class KeptComment:
    """A comment; an empty `item` means the answer as a whole."""

    id: int
    item: str
    text: str
    uses: int


def of_question(database: Database, lab: str, question: str) -> list[KeptComment]:
    """Return the comments of a question, those used most often first."""
    column = kept_comments.c
    query = sa.select(column.id, column["item"], column.text, column.uses).where(
        column.lab == lab, column.question == question
    )
    query = query.order_by(column.uses.desc(), column.id).limit(_MOST)
    return [KeptComment(*row) for row in database.rows(query)]


def keep(edit: Edit, lab: str, question: str, item: object, text: object) -> str:
    """Keep a comment, unless it is there; return it as it is kept, on one line.

    Raises:
        Refused: 422, it is no text, or too long; 409, the list is full.
    """
    comment = read(lab, question, item, text)
    column = kept_comments.c
    count = sa.select(sa.func.count()).select_from(kept_comments)
    with edit.database.write() as connection:
        here = count.where(column.lab == lab, column.question == question)
        if (connection.scalar(here) or 0) >= _MOST:
            raise Refused(409, f"comment: {question} has {_MOST} comments: remove some.")
        add(connection, edit, comment)
    return comment["text"]


def read(lab: str, question: str, item: object, text: object) -> dict[str, str]:
    """Return a comment as it is kept, its text on one line.

    Raises:
        Refused: 422, it is no text, or too long.
    """
    if not isinstance(text, str) or not isinstance(item, str):
        raise Refused(422, 'comment: expected {"item": "...", "text": "..."}.')
    text, item = " ".join(text.replace("\0", "").split()), item.replace("\0", "")
    if not 0 < len(text) <= _CHARS or len(item) > 8 * _CHARS:
        expected = f"1 to {_CHARS} characters"
        raise Refused(422, f"comment: got {len(text)} characters, expected {expected}.")
    return {"lab": lab, "question": question, "item": item, "text": text}


def add(connection: sa.Connection, edit: Edit, comment: dict[str, str]) -> None:
    """Keep a comment that `read` has let through, unless it is there."""
    if connection.execute(_ADD, {**comment, "digest": _digest(comment)}).rowcount:
        where = f"{comment['lab']}: {comment['question']}"
        edit.log(connection, "keep comment", where, None, comment)


def find_unkept(
    connection: sa.Connection, comments: list[dict[str, str]]
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return those comments that are not kept yet, and those of them for which there is no room."""
    columns = (kept_comments.c.digest, kept_comments.c.lab, kept_comments.c.question)
    rows = connection.execute(sa.select(*columns)).all()
    digests, counts = {row.digest for row in rows}, Counter((row.lab, row.question) for row in rows)
    fresh, left_out = list[dict[str, str]](), list[dict[str, str]]()
    for comment in comments:
        if (digest := _digest(comment)) not in digests:
            digests.add(digest)
            counts[comment["lab"], comment["question"]] += 1
            full = counts[comment["lab"], comment["question"]] > _MOST
            (left_out if full else fresh).append(comment)
    return fresh, left_out


def _digest(comment: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(comment).encode()).hexdigest()


_ADD = sa.text(
    "INSERT INTO kept_comments (digest, lab, question, item, text, uses) "
    "VALUES (:digest, :lab, :question, :item, :text, 0) ON CONFLICT (digest) DO NOTHING"
)


def count_uses(connection: sa.Connection, lab: str, uses: Counter[tuple[str, str]]) -> None:
    """Count what marks have used: how often by (question, line); last in a transaction."""
    column = kept_comments.c
    for (question, text), number in sorted(uses.items()):  # so that two wait in no circle
        is_comment = (column.lab == lab) & (column.question == question) & (column.text == text)
        change = kept_comments.update().where(is_comment)
        connection.execute(change.values(uses=column.uses + number))


def remove(edit: Edit, number: int, lab: str, question: str) -> None:
    """Take a comment off the list; marks that say it stay.

    Raises:
        Refused: 404, there is none.
    """
    comment = next((c for c in of_question(edit.database, lab, question) if c.id == number), None)
    with edit.database.write() as connection:
        is_comment = kept_comments.c.id == number
        deleted = comment and connection.execute(kept_comments.delete().where(is_comment)).rowcount
        if comment is None or not deleted:
            raise Refused(404, f"comment {number}: {question[:100]}: there is none.")
        edit.log(connection, "remove comment", f"{lab}: {question}", asdict(comment))
