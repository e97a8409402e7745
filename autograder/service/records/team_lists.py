"""The teams of a lab as a file: CSV with `team` and `login`, taken whole or not at all.

Whoever is not in it stays where they are; an empty team lets a person leave theirs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import team_members
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.people import LEARNER, Person, as_given
from autograder.service.records.teams import Team
from autograder.service.records.terms.schedule import table

_COLUMNS = {"team", "login"}
_MOST_LINES = 60_000
_TEAM_CHARS = 100


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
    database: Database,
    now: float,
    lab: str,
    data: bytes,
    by: Person,
    *,
    find: Callable[[str], Person | None],
    dry_run: bool,
) -> list[Change]:
    """Let people be in the teams that a CSV says; a dry run only says what it would change.

    Args:
        find: returns the person of a login.

    Raises:
        Refused: 422, it is no such CSV, or a line of it cannot be taken.
    """
    says = _read(data, find)
    changes = []
    with database.read() if dry_run else database.write() as connection:
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
            subject = f"{lab}: {person.login}"
            audit_log.write(connection, now, by.login, "team", subject, before, team)
    return changes


def _read(data: bytes, find: Callable[[str], Person | None]) -> list[tuple[Person, str | None]]:
    names, lines = table(data, "teams")
    if set(names) != _COLUMNS or len(names) != len(_COLUMNS):
        raise Refused(422, f"teams: got {', '.join(names)[:200]!r}, expected team and login.")
    if len(lines) > _MOST_LINES:
        raise Refused(422, f"teams: it has more than {_MOST_LINES} lines.")
    says: dict[int, tuple[Person, str | None]] = {}
    for number, cells in lines:
        texts = [text.strip() for _, text in cells if isinstance(text, str)]
        try:
            if len(texts) != len(names) or len(cells) != len(names):
                raise Refused(422, "expected 2 columns")
            line = dict(zip(names, texts, strict=True))
            person = find(line["login"])
            if person is None or person.role != LEARNER:
                raise Refused(422, f"no learner is called {line['login'][:60]!r}")
            if person.id in says:
                raise Refused(422, f"{person.login} comes twice")
            team = as_given(line["team"], "team", _TEAM_CHARS) if line["team"] else None
        except Refused as error:
            raise Refused(422, f"teams: line {number}: {error}") from error
        says[person.id] = (person, team)
    return list(says.values())
