"""What staff say to learners: to all or a section, from a time on or until one, in Markdown."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database, insert_row
from autograder.service.database.schema import announcement_reads, announcements, people
from autograder.service.errors import Refused
from autograder.service.records.people import Edit, Person
from autograder.service.records.submissions.submissions import is_id
from autograder.service.times import date, moment

_TEXT_CHARS = 10_000
_MOST = 200  # of a page


@dataclass(frozen=True)
class Announcement:
    """An announcement, shown in `starts` <= now < `ends`; an empty `section` means everybody."""

    id: int
    text: str
    section: str
    starts: float
    ends: float | None
    by: str
    unread: bool


def list_announcements(
    database: Database, now: float, person: Person, *, unread: bool = False
) -> list[Announcement]:
    """Return what is shown to a person now, the newest first; staff see all that there is.

    `unread`: only what they have not marked as read.
    """
    a, reads = announcements.c, announcement_reads.c
    mine = (reads.announcement_id == a.id) & (reads.person_id == person.id)
    writer, is_unread = sa.func.coalesce(people.c.name, "staff"), reads.person_id.is_(None)
    query = sa.select(a.id, a.text, a.section, a.starts, a.ends, writer, is_unread)
    query = query.select_from(announcements).join(people, people.c.id == a.written_by, isouter=True)
    query = query.join(announcement_reads, mine, isouter=True)
    if not person.is_staff:
        query = query.where(a.starts <= now, a.ends.is_(None) | (a.ends > now))
        query = query.where(a.section.in_(("", person.section)))
    if unread:
        query = query.where(is_unread)
    rows = database.rows(query.order_by(a.starts.desc(), a.id.desc()).limit(_MOST))
    return [Announcement(*row) for row in rows]


def announce(edit: Edit, body: Mapping[str, Any]) -> int:
    """Write an announcement down and return its number.

    Args:
        body: `text`; and, if they hold, `section`, `starts` (else now) and `ends`.

    Raises:
        Refused: 422, something is malformed, or nobody is in the section.
    """
    if not set(body) <= {"text", "section", "starts", "ends"}:
        expected = '{"text": "...", "section": "", "starts": null, "ends": null}'
        raise Refused(422, f"announcement: expected {expected}.")
    text, section = body.get("text"), body.get("section") or ""
    if not isinstance(text, str) or not 0 < len(text.replace("\0", "").strip()) <= _TEXT_CHARS:
        raise Refused(422, f"announcement: text: expected 1 to {_TEXT_CHARS} characters.")
    if not isinstance(section, str):
        raise Refused(422, f"announcement: section: got {str(section)[:60]!r}, expected a name.")
    starts, ends = (date(body.get(x) or None, f"announcement: {x}") for x in ("starts", "ends"))
    begins = edit.now if starts is None else moment(starts)
    if ends is not None and moment(ends) <= max(begins, edit.now):
        raise Refused(422, f"announcement: ends: got {ends}, expected a time that is to come.")
    row = {"text": text.replace("\0", "").strip(), "section": section, "starts": begins}
    row |= {"ends": None if ends is None else moment(ends), "written_by": edit.by.id}
    with edit.database.write() as connection:
        there = sa.select(people.c.id).where(people.c.section == section).limit(1)
        if section and connection.scalar(there) is None:
            problem = f"got {section[:60]!r}, and nobody is in it"
            raise Refused(422, f"announcement: section: {problem}.")
        number = insert_row(connection, announcements, row)
        after = {"text": row["text"], "section": section, "starts": starts, "ends": ends}
        edit.log(connection, "announcement", f"announcement {number}", None, after)
    return number


def withdraw(edit: Edit, number: int) -> None:
    """Remove an announcement.

    Raises:
        Refused: 404, there is none of that number.
    """
    reads, number_column = announcement_reads.c.announcement_id, announcements.c.id
    with edit.database.write() as connection:
        text = sa.select(announcements.c.text).where(number_column == number)
        before = connection.scalar(text) if is_id(number) else None
        if before is None:
            raise _no_such_announcement(number)
        connection.execute(announcement_reads.delete().where(reads == number))
        connection.execute(announcements.delete().where(number_column == number))
        edit.log(connection, "announcement withdrawn", f"announcement {number}", before)


def mark_read(database: Database, now: float, number: int, person: Person) -> None:
    """Write down that a person has read an announcement; of one that is read, nothing changes.

    Raises:
        Refused: 404, they see none of that number.
    """
    if all(number != shown.id for shown in list_announcements(database, now, person)):
        raise _no_such_announcement(number)
    add = (
        "INSERT INTO announcement_reads (person_id, announcement_id) VALUES (:person, :number) "
        "ON CONFLICT DO NOTHING"
    )
    with database.write() as connection:
        connection.execute(sa.text(add), {"person": person.id, "number": number})


def _no_such_announcement(number: int) -> Refused:
    return Refused(404, f"announcement {number}: there is none of that number for you.")
