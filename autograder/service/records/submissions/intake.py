"""What happens to a notebook that is handed in, before its submission is there.

The same bytes are stored once while they wait; a key that the client chose makes a second try give
the first receipt again; dates, attempts and room can refuse. What dates or attempts refuse is kept
as a draft, the newest alone of a learner and lab: `Submissions` keeps and drops drafts in the
transactions in which it refuses and takes notebooks in.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database, insert_row
from autograder.service.database.schema import (
    GRADING,
    HELD,
    STORED,
    learner_drafts,
    lines,
    notebooks,
    retry_keys,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records import stale_totals
from autograder.service.records.calendar import calendar
from autograder.service.records.people import Person
from autograder.service.records.roster import teams
from autograder.service.settings import MIB

_BLANK_BYTES = 1 << 16  # a notebook without cells is a few hundred
_RECEIPT = (submissions.c.id, submissions.c.lab, submissions.c.sha256, submissions.c.submitted_at)
_WAIT = (STORED, HELD, GRADING)


@dataclass(frozen=True)
class Receipt:
    """What the server answers for once it has stored a submission; `is_new` unless it had it."""

    id: int
    lab: str
    sha256: str
    submitted_at: float
    late_days: int
    is_new: bool


def wait_for_turn(connection: sa.Connection, person: Person) -> None:
    """Wait until nobody else hands in for this person."""
    line = sa.select(lines.c.next_id).where(lines.c.person_id == person.id)
    connection.execute(line.with_for_update())


def take_in(
    connection: sa.Connection,
    now: float,
    person: Person,
    lab: str,
    notebook: bytes,
    retry_key: str | None = None,
    most_bytes: int | None = None,
) -> Receipt | str:
    """Return the receipt of what is stored now or was before, or why dates refuse it.

    Raises:
        Refused: 422, the key was used for something else; 413, there is no room.
    """
    digest = hashlib.sha256(notebook).hexdigest()
    rules = calendar(connection, person.id).of(lab, person.id)
    receipt, key_known = _find_receipt(connection, person, lab, digest, retry_key)
    if receipt is None:
        kept_bytes, attempts = _measure_use(connection, person, lab)
        if most_bytes is not None and kept_bytes + len(notebook) > most_bytes:
            raise _no_room(kept_bytes, most_bytes)
        refusal = None if person.is_staff else rules.refusal(now, attempts)
        if refusal is not None:
            return refusal
        receipt = _insert(connection, now, person, lab, notebook, digest)
        drop_draft(connection, person.id, lab)
    if retry_key is not None and not key_known:
        row = {"person_id": person.id, "retry_key": retry_key, "submission_id": receipt["id"]}
        connection.execute(retry_keys.insert().values(row))
    return Receipt(late_days=rules.late_days(receipt["submitted_at"]), **receipt)


def _insert(
    connection: sa.Connection, now: float, person: Person, lab: str, notebook: bytes, digest: str
) -> dict[str, Any]:
    row = {
        "person_id": person.id,
        "lab": lab,
        "sha256": digest,
        "size_bytes": len(notebook),
        "blank": _is_blank(notebook),
        "submitted_at": now,
        "waiting_since": now,
        "state": STORED,
    }
    number = insert_row(connection, submissions, row)
    connection.execute(notebooks.insert().values(submission_id=number, notebook=notebook))
    others = teams.share(connection, number, row)
    theirs = lines.c.person_id == person.id
    first = sa.func.coalesce(lines.c.next_id, number)
    connection.execute(lines.update().where(theirs).values(next_id=first))
    stale_totals.name(connection, [person.id, *others])  # the lab is not missing any more
    return {"id": number, "lab": lab, "sha256": digest, "submitted_at": now, "is_new": True}


def _find_receipt(
    connection: sa.Connection, person: Person, lab: str, digest: str, retry_key: str | None
) -> tuple[dict[str, Any] | None, bool]:
    """Return the receipt of a submission that is there already, or None; and whether by its key.

    A client may call one submission by several keys.
    """
    mine = submissions.c.person_id == person.id
    same = (submissions.c.lab == lab) & (submissions.c.sha256 == digest)
    by_key = sa.literal(False).label("by_key")
    columns = (*_RECEIPT, submissions.c.state)
    query: Any = sa.select(*columns, by_key).where(mine, same)
    if retry_key is not None:
        sent = sa.select(*columns, sa.literal(True)).join(retry_keys).where(mine)
        theirs = retry_keys.c.person_id == person.id
        query = query.union_all(sent.where(theirs, retry_keys.c.retry_key == retry_key))
    # Not in the query: a database that thinks such states rare reads everything that waits.
    candidates = [row for row in connection.execute(query) if row.by_key or row.state in _WAIT]
    row = max(candidates, key=attrgetter("by_key"), default=None)
    if row is None:
        return None, False
    if (row.lab, row.sha256) != (lab, digest):
        problem = "this Idempotency-Key was sent before with another lab or notebook"
        raise Refused(422, f"submit: {problem}. Send a new key.")
    receipt = {column.name: getattr(row, column.name) for column in _RECEIPT}
    return {**receipt, "is_new": False}, bool(row.by_key)


def _measure_use(connection: sa.Connection, person: Person, lab: str) -> tuple[int, int]:
    """Return what a person's notebooks take up, and their attempts of a lab.

    The former are all submissions and drafts, but for the draft of this lab; blank notebooks are no
    attempts.
    """
    mine = submissions.c.person_id == person.id
    stored = sa.select(sa.func.coalesce(sa.func.sum(submissions.c.size_bytes), 0)).where(mine)
    attempts = sa.select(sa.func.count()).select_from(submissions)
    attempts = attempts.where(mine, submissions.c.lab == lab, ~submissions.c.blank)
    draft = learner_drafts.c
    sent = sa.select(sa.func.coalesce(sa.func.sum(draft.size_bytes), 0))
    parts = (stored, sent.where(draft.person_id == person.id, draft.lab != lab), attempts)
    row = connection.execute(sa.select(*(part.scalar_subquery() for part in parts))).one()
    return int(row[0]) + int(row[1]), int(row[2])


def _is_blank(notebook: bytes) -> bool:
    """Tell whether a notebook has no cell with anything in it; a large one has."""
    if len(notebook) > _BLANK_BYTES:
        return False
    try:
        cells = json.loads(notebook)["cells"]
        return not any("".join(cell["source"]).strip() for cell in cells)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False  # no notebook: grading says so, and it counts


def _no_room(kept_bytes: int, most_bytes: int) -> Refused:
    used = f"{kept_bytes / MIB:.1f} of {most_bytes / MIB:g} MiB"
    clear = "Clear the outputs (Kernel, Restart Kernel and Clear Outputs) and submit again"
    problem = f"submit: your submissions take up {used} here. {clear}"
    return Refused(413, f"{problem}, or ask your instructor for room.")


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


def list_drafts(database: Database, person_id: int) -> list[Draft]:
    """Return a person's drafts, in the order of their labs."""
    theirs = _DRAFT.where(learner_drafts.c.person_id == person_id)
    return [Draft(*row) for row in database.rows(theirs.order_by(learner_drafts.c.lab))]


def get_draft(database: Database, person_id: int, lab: str) -> Draft:
    """Return a person's draft of a lab.

    Raises:
        Refused: 404, there is none.
    """
    row = database.first(_DRAFT.where(*_key(person_id, lab)))
    if row is None:
        raise no_such_draft(lab)
    return Draft(*row)


def draft_notebook(connection: sa.Connection, person_id: int, lab: str) -> bytes:
    """Return what was sent, byte by byte.

    Raises:
        Refused: 404, there is no draft.
    """
    query = sa.select(learner_drafts.c.notebook).where(*_key(person_id, lab))
    content: bytes | None = connection.scalar(query)
    if content is None:
        raise no_such_draft(lab)
    return content


def keep_draft(
    connection: sa.Connection, person_id: int, lab: str, notebook: bytes, now: float, why: str
) -> None:
    """Keep a notebook as the draft of a lab, in the place of the one before."""
    drop_draft(connection, person_id, lab)
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


def drop_draft(connection: sa.Connection, person_id: int, lab: str) -> bool:
    """Delete a person's draft of a lab; False if there was none."""
    deleted = connection.execute(learner_drafts.delete().where(*_key(person_id, lab)))
    return deleted.rowcount > 0


def _key(person_id: int, lab: str) -> tuple[sa.ColumnElement[bool], ...]:
    return learner_drafts.c.person_id == person_id, learner_drafts.c.lab == lab
