"""Teams: what one member hands in counts for all who are in the team at that moment.

Each of the others gets a submission too, which is a copy: it is never graded or marked by itself,
but shows the grading and the marks of its origin, and counts by its owner's dates. So whatever
becomes of the team later, everybody keeps what they have handed in.

The teams of a lab are also a file: CSV with `team` and `login`, taken whole or not at all. Whoever
is not in it stays where they are; an empty team lets a person leave theirs.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database, insert_row
from autograder.service.database.schema import (
    GRADED,
    SHARED,
    notebooks,
    people,
    pile,
    regrade_messages,
    regrade_requests,
    submissions,
    team_copies,
    team_members,
)
from autograder.service.errors import Refused
from autograder.service.records.csv_files import table
from autograder.service.records.outbox import touch
from autograder.service.records.people import LEARNER, Edit, Person, require_printable

_COLUMNS = {"team", "login"}
_MOST_LINES = 60_000
_TEAM_CHARS = 100
NO_COPY = ~sa.exists().where(team_copies.c.submission_id == submissions.c.id)


@dataclass(frozen=True)
class Team:
    """A team of a lab, and its members' logins and names in the order of their logins."""

    lab: str
    name: str
    logins: tuple[str, ...]
    names: tuple[str, ...]


def teams(database: Database, *, lab: str = "", person_id: int | None = None) -> list[Team]:
    """Return the teams of a lab, or those that a person is in, in order."""
    column = team_members.c
    query = sa.select(column.lab, column.team, people.c.login, people.c.name)
    query = query.join_from(team_members, people)
    if lab:
        query = query.where(column.lab == lab)
    if person_id is not None:
        mine = team_members.alias()
        same = (mine.c.lab == column.lab) & (mine.c.team == column.team)
        query = query.join(mine, same).where(mine.c.person_id == person_id)
    members: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for row in database.rows(query.order_by(column.lab, column.team, people.c.login)):
        members.setdefault((row[0], row[1]), []).append((row[2], row[3]))
    return [
        Team(*key, tuple(login for login, _ in who), tuple(name for _, name in who))
        for key, who in members.items()
    ]


@dataclass(frozen=True)
class Change:
    """Somebody whose team changes; None is no team."""

    login: str
    before: str | None
    after: str | None


def rows(listed: list[Team]) -> list[list[str]]:
    """Return teams as cells, a head and a row a member; `take` takes them as CSV."""
    members = [[team.name, login] for team in listed for login in team.logins]
    return [["team", "login"], *members]


def take(
    edit: Edit, lab: str, data: bytes, *, find: Callable[[str], Person | None], dry_run: bool
) -> list[Change]:
    """Put people into the teams of a CSV; a dry run only says what it would change.

    Args:
        find: returns the person of a login.

    Raises:
        Refused: 422, it is no such CSV, or a line of it cannot be taken.
    """
    says = _read(data, find)
    changes = []
    with edit.database.read() if dry_run else edit.database.write() as connection:
        here = team_members.c.lab == lab
        query = sa.select(team_members.c.person_id, team_members.c.team).where(here)
        held = {row[0]: row[1] for row in connection.execute(query)}
        for person, team in says:
            before = held.get(person.id)
            if before == team:
                continue
            changes.append(Change(person.login, before, team))
            if dry_run:
                continue
            theirs = here & (team_members.c.person_id == person.id)
            connection.execute(team_members.delete().where(theirs))
            if team is not None:
                row = {"lab": lab, "person_id": person.id, "team": team}
                connection.execute(team_members.insert().values(row))
            edit.log(connection, "team", f"{lab}: {person.login}", before, team)
    return changes


def _read(data: bytes, find: Callable[[str], Person | None]) -> list[tuple[Person, str | None]]:
    names, lines = table(data, "teams")
    if set(names) != _COLUMNS or len(names) != len(_COLUMNS):
        raise Refused(422, f"teams: got {', '.join(names)[:200]!r}, expected team and login.")
    if len(lines) > _MOST_LINES:
        raise Refused(422, f"teams: it has more than {_MOST_LINES} lines.")
    says: dict[int, tuple[Person, str | None]] = {}
    for number, cells in lines:
        try:
            if len(cells) != len(names):
                raise Refused(422, "expected 2 columns")
            line = dict(zip(names, (text.strip() for text in cells), strict=True))
            person = find(line["login"])
            if person is None or person.role != LEARNER:
                raise Refused(422, f"no learner is called {line['login'][:60]!r}")
            if person.id in says:
                raise Refused(422, f"{person.login} comes twice")
            team = require_printable(line["team"], "team", _TEAM_CHARS) if line["team"] else None
        except Refused as error:
            raise Refused(422, f"teams: line {number}: {error}") from error
        says[person.id] = (person, team)
    return list(says.values())


def share(connection: sa.Connection, number: int, row: dict[str, Any]) -> list[int]:
    """Give the other members of a team a copy of a submission that is newly written; return them.

    Args:
        row: of `submissions`, as it was written.
    """
    mine, other = team_members.alias(), team_members.alias()
    same = (mine.c.lab == other.c.lab) & (mine.c.team == other.c.team)
    query = sa.select(other.c.person_id, other.c.team).join_from(mine, other, same)
    query = query.where(mine.c.person_id == row["person_id"], mine.c.lab == row["lab"])
    query = query.where(other.c.person_id != row["person_id"]).order_by(other.c.person_id)
    others = connection.execute(query).all()
    for person_id, team in others:
        values = {**row, "person_id": person_id, "size_bytes": 0, "state": SHARED}
        copy = insert_row(connection, submissions, values)
        link = {"submission_id": copy, "origin_id": number, "team": team}
        connection.execute(team_copies.insert().values(link))
    return [person_id for person_id, _ in others]


def origin_of(connection: sa.Connection, submission_id: int) -> int:
    """Return the submission that this one is a copy of, or itself where it is not a copy."""
    origin = sa.select(team_copies.c.origin_id).where(team_copies.c.submission_id == submission_id)
    number: int = connection.scalar(origin) or submission_id
    return number


def notebook(database: Database, submission_id: int) -> bytes | None:
    """Return what was handed in, byte by byte."""
    with database.read() as connection:
        number = origin_of(connection, submission_id)
        query = sa.select(notebooks.c.notebook).where(notebooks.c.submission_id == number)
        content: bytes | None = connection.scalar(query)
    return content


def find_senders(database: Database, submission_ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """Return, of those submissions that are a team's, the team and the name of who handed it in."""
    copy = team_copies.c
    ours = copy.submission_id.in_(submission_ids) | copy.origin_id.in_(submission_ids)
    query = sa.select(copy.submission_id, copy.origin_id, copy.team, people.c.name)
    query = query.join_from(team_copies, submissions, submissions.c.id == copy.origin_id)
    rows = database.rows(query.join(people).where(ours))
    return {number: (row.team, row.name) for row in rows for number in row[:2]}


def follow(connection: sa.Connection, origin_id: int) -> list[int]:
    """Bring copies up to date with what is published of their origin; return whose they are."""
    copies = sa.select(team_copies.c.submission_id).where(team_copies.c.origin_id == origin_id)
    numbers = list(connection.scalars(copies))
    if not numbers:
        return []
    names = ("grading_id", "score", "max_score", "pending", "finished_at")
    query = sa.select(*(submissions.c[name] for name in names))
    now = connection.execute(query.where(submissions.c.id == origin_id)).mappings().one()
    state = SHARED if now["grading_id"] is None else GRADED
    which = submissions.c.id.in_(numbers)
    update = submissions.update().where(which).values(**now, state=state)
    owners = list(connection.scalars(update.returning(submissions.c.person_id)))
    touch(connection, which)
    return owners


def hand_over(connection: sa.Connection, person_id: int) -> list[tuple[str, int]]:
    """Pass what a person handed in for teams on to another member; return the labs and heirs.

    Their copy gives way to the original, with what they have asked about it.
    """
    mine = submissions.alias()
    query = sa.select(team_copies.c.origin_id, sa.func.min(team_copies.c.submission_id))
    query = query.join(mine, mine.c.id == team_copies.c.origin_id)
    query = query.where(mine.c.person_id == person_id).group_by(team_copies.c.origin_id)
    heirs = []
    for origin_id, copy_id in connection.execute(query).all():
        threads = sa.select(regrade_requests.c.id).where(
            regrade_requests.c.submission_id == origin_id
        )
        messages = regrade_messages.delete().where(regrade_messages.c.request_id.in_(threads))
        connection.execute(messages)
        submission = regrade_requests.c.submission_id
        connection.execute(regrade_requests.delete().where(submission == origin_id))
        connection.execute(
            regrade_requests.update().where(submission == copy_id).values(submission_id=origin_id)
        )
        connection.execute(team_copies.delete().where(team_copies.c.submission_id == copy_id))
        connection.execute(pile.delete().where(pile.c.submission_id == origin_id))
        deletion = submissions.delete().where(submissions.c.id == copy_id)
        heir, lab = connection.execute(
            deletion.returning(submissions.c.person_id, submissions.c.lab)
        ).one()
        original = submissions.update().where(submissions.c.id == origin_id)
        connection.execute(original.values(person_id=heir))
        heirs.append((lab, heir))
    return heirs
