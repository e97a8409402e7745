"""What learners sent and could not hand in for its date or attempts: one a learner and lab.

The newest alone is kept. `Submissions` keeps and drops drafts in the transactions in which it
refuses and takes notebooks in.
"""

import hashlib
from dataclasses import dataclass, fields

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import learner_drafts
from autograder.service.errors import Refused


@dataclass(frozen=True)
class Draft:
    """A draft without its notebook; `why` is why it was refused."""

    lab: str
    sha256: str
    saved_at: float
    why: str


def no_such_draft(lab: str) -> Refused:
    """Return the refusal for who asks for a draft that there is not."""
    return Refused(404, f"{lab}: you have no draft of it. What is handed in is a submission.")


_DRAFT = sa.select(*(learner_drafts.c[field.name] for field in fields(Draft)))


def of_person(database: Database, person_id: int) -> list[Draft]:
    """Return a person's drafts, in the order of their labs."""
    theirs = _DRAFT.where(learner_drafts.c.person_id == person_id)
    return [Draft(*row) for row in database.rows(theirs.order_by(learner_drafts.c.lab))]


def get(database: Database, person_id: int, lab: str) -> Draft:
    """Return a person's draft of a lab.

    Raises:
        Refused: 404, there is none.
    """
    row = database.first(_DRAFT.where(*_key(person_id, lab)))
    if row is None:
        raise no_such_draft(lab)
    return Draft(*row)


def notebook(connection: sa.Connection, person_id: int, lab: str) -> bytes:
    """Return what was sent, byte by byte.

    Raises:
        Refused: 404, there is no draft.
    """
    query = sa.select(learner_drafts.c.notebook).where(*_key(person_id, lab))
    content: bytes | None = connection.scalar(query)
    if content is None:
        raise no_such_draft(lab)
    return content


def keep(
    connection: sa.Connection, person_id: int, lab: str, notebook: bytes, now: float, why: str
) -> None:
    """Keep a notebook as the draft of a lab, in the place of the one before."""
    drop(connection, person_id, lab)
    row = {
        "person_id": person_id,
        "lab": lab,
        "sha256": hashlib.sha256(notebook).hexdigest(),
        "size_bytes": len(notebook),
        "saved_at": now,
        "why": why,
        "notebook": notebook,
    }
    connection.execute(learner_drafts.insert().values(row))


def drop(connection: sa.Connection, person_id: int, lab: str) -> bool:
    """Delete a person's draft of a lab; False if there was none."""
    deleted = connection.execute(learner_drafts.delete().where(*_key(person_id, lab)))
    return deleted.rowcount > 0


def _key(person_id: int, lab: str) -> tuple[sa.ColumnElement[bool], ...]:
    return learner_drafts.c.person_id == person_id, learner_drafts.c.lab == lab
