"""What happens to a notebook that is handed in, before its submission is there.

The same bytes are stored once while they wait; a key that the client chose makes a second try give
the first receipt again; dates, attempts and room can refuse.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.schema import (
    GRADING,
    HELD,
    STORED,
    lines,
    notebooks,
    retry_keys,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records import drafts, gradings, stale_totals, teams
from autograder.service.records.dates import calendar
from autograder.service.records.people import Person
from autograder.service.settings import MIB

_BLANK_BYTES = 1 << 16  # a notebook without cells is a few hundred
_RECEIPT = (submissions.c.id, submissions.c.lab, submissions.c.sha256, submissions.c.submitted_at)


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
    receipt = _known(connection, person, lab, digest, retry_key)
    if receipt is None:
        stored_bytes = _kept_bytes(connection, person, but=lab)
        if most_bytes is not None and stored_bytes + len(notebook) > most_bytes:
            raise _no_room(stored_bytes, most_bytes)
        used = _attempts(connection, person, lab)
        refusal = None if person.is_staff else rules.refusal(now, used)
        if refusal is not None:
            return refusal
        receipt = _insert(connection, now, person, lab, notebook, digest)
        drafts.drop(connection, person.id, lab)
    _remember(connection, person, retry_key, receipt["id"])
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
    number = gradings.inserted(connection, submissions, row)
    connection.execute(notebooks.insert().values(submission_id=number, notebook=notebook))
    others = teams.share(connection, number, row)
    theirs = lines.c.person_id == person.id
    first = sa.func.coalesce(lines.c.next_id, number)
    connection.execute(lines.update().where(theirs).values(next_id=first))
    stale_totals.name(connection, [person.id, *others])  # the lab is not missing any more
    return {"id": number, "lab": lab, "sha256": digest, "submitted_at": now, "is_new": True}


def _known(
    connection: sa.Connection, person: Person, lab: str, digest: str, retry_key: str | None
) -> dict[str, Any] | None:
    """Return the receipt of a submission that is there already, or None."""
    mine = sa.select(*_RECEIPT).where(submissions.c.person_id == person.id)
    if retry_key is not None:
        sent = mine.join(retry_keys, retry_keys.c.submission_id == submissions.c.id).where(
            retry_keys.c.person_id == person.id, retry_keys.c.retry_key == retry_key
        )
        row = connection.execute(sent).first()
        if row is not None and (row.lab, row.sha256) != (lab, digest):
            problem = "this Idempotency-Key was sent before with another lab or notebook"
            raise Refused(422, f"submit: {problem}. Send a new key.")
        if row is not None:
            return {**row._mapping, "is_new": False}
    waiting = submissions.c.state.in_((STORED, HELD, GRADING))
    same = mine.where(waiting, submissions.c.lab == lab, submissions.c.sha256 == digest)
    row = connection.execute(same).first()
    return None if row is None else {**row._mapping, "is_new": False}


def _remember(
    connection: sa.Connection, person: Person, retry_key: str | None, submission_id: int
) -> None:
    """Write down what the client calls a submission; it may call one by several keys."""
    if retry_key is None:
        return
    mine = (retry_keys.c.person_id == person.id) & (retry_keys.c.retry_key == retry_key)
    if connection.execute(sa.select(retry_keys.c.submission_id).where(mine)).first() is None:
        row = {"person_id": person.id, "retry_key": retry_key, "submission_id": submission_id}
        connection.execute(retry_keys.insert().values(row))


def _attempts(connection: sa.Connection, person: Person, lab: str) -> int:
    theirs = (submissions.c.person_id == person.id) & (submissions.c.lab == lab)
    count = sa.select(sa.func.count()).select_from(submissions)
    count = count.where(theirs, ~submissions.c.blank)
    return int(connection.scalar(count) or 0)


def _is_blank(notebook: bytes) -> bool:
    """Tell whether a notebook has no cell with anything in it; a large one has."""
    if len(notebook) > _BLANK_BYTES:
        return False
    try:
        cells = json.loads(notebook)["cells"]
        return not any("".join(cell["source"]).strip() for cell in cells)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False  # no notebook: grading says so, and it counts


def _kept_bytes(connection: sa.Connection, person: Person, *, but: str) -> int:
    """Return what a person's submissions and drafts take up; not the draft of the lab `but`."""
    size = sa.func.coalesce(sa.func.sum(submissions.c.size_bytes), 0)
    stored = connection.scalar(sa.select(size).where(submissions.c.person_id == person.id)) or 0
    return int(stored) + drafts.kept_bytes(connection, person.id, but=but)


def _no_room(kept_bytes: int, most_bytes: int) -> Refused:
    used = f"{kept_bytes / MIB:.1f} of {most_bytes / MIB:g} MiB"
    clear = "Clear the outputs (Kernel, Restart Kernel and Clear Outputs) and submit again"
    problem = f"submit: your submissions take up {used} here. {clear}"
    return Refused(413, f"{problem}, or ask your instructor for room.")
