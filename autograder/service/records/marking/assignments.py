"""Who marks what: assistants by lab, question and section, and how far each of them is.

An assignment says where somebody begins, and forbids nobody else to mark there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import assignments, counts, people
from autograder.service.errors import Refused
from autograder.service.records.marking.marking import Pile, add_shares, shares
from autograder.service.records.people import STAFF, Edit, Person
from autograder.service.records.standings.standings import MARKED


@dataclass(frozen=True)
class Assignment:
    """What somebody marks; an empty text stands for every lab, question or section."""

    lab: str
    question: str
    section: str

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "Assignment":
        """Return the assignment that a form or JSON says, of which it may leave parts out.

        Raises:
            Refused: 422, it names nothing, or something is no text.
        """
        parts = [body.get(name, "") for name in ("lab", "question", "section")]
        if not any(parts) or not all(isinstance(part, str) and len(part) <= 100 for part in parts):
            expected = '{"login": "...", "lab": "...", "question": "...", "section": "..."}'
            raise Refused(422, f"assign: expected {expected}, one of the last three at least.")
        return cls(*parts)

    def holds(self, share: Pile) -> bool:
        """Whether the answers of a share are to be marked under this."""
        mine = ((self.lab, share.lab), (self.question, share.question))
        return all(not own or own == its for own, its in (*mine, (self.section, share.section)))


@dataclass(frozen=True)
class Marker:
    """Somebody of the staff: what they mark, how much of it waits, how many marks count of them."""

    id: int
    login: str
    name: str
    assigned: list[Assignment]
    shares: list[Pile]
    marked: int

    @property
    def piles(self) -> list[Pile]:
        """Where to begin: of a question that is all theirs one share, without a section."""
        begun: list[Pile] = []
        for _, group in groupby(self.shares, key=lambda share: (share.lab, share.question)):
            some = list(group)
            whole = any(not a.section and a.holds(some[0]) for a in self.assigned)
            begun += [add_shares(some)] if whole else some
        return begun

    @property
    def waiting(self) -> int:
        """How many of the answers assigned to them wait."""
        return sum(share.waiting for share in self.shares)

    @property
    def written(self) -> int:
        """How many answers are assigned to them."""
        return sum(share.written for share in self.shares)


def markers(database: Database) -> list[Marker]:
    """Return the staff in the order of their logins, each with how far they are."""
    column = assignments.c
    with database.read() as connection:
        staff = sa.select(people.c.id, people.c.login, people.c.name)
        staff = staff.where(people.c.role.in_(STAFF)).order_by(people.c.login)
        rows = connection.execute(staff).all()
        theirs = sa.select(column.person_id, column.lab, column.question, column.section)
        ordered = theirs.order_by(column.lab, column.question, column.section)
        assigned = connection.execute(ordered).all()
        done = sa.select(counts.c.words, sa.func.sum(counts.c.number)).group_by(counts.c.words)
        sums = connection.execute(done.where(counts.c.kind == MARKED))
        marked = {row[0]: row[1] for row in sums}
        all_shares = shares(connection)
    members = []
    for row in rows:
        mine = [Assignment(*rest) for person, *rest in assigned if person == row.id]
        some = [share for share in all_shares if any(a.holds(share) for a in mine)]
        members.append(Marker(*row, mine, some, marked.get(str(row.id), 0)))
    return members


def find_marker(database: Database, person: Person) -> Marker | None:
    """Return what a person marks, or None where nothing is assigned to them."""
    return next((m for m in markers(database) if m.id == person.id and m.assigned), None)


def assign(edit: Edit, person: Person, what: Assignment, *, remove: bool) -> None:
    """Assign something to somebody of the staff to mark; `remove` ends that.

    Raises:
        Refused: 422, they are not on the staff; 404, what is to go is not there.
    """
    if not person.is_staff and not remove:
        raise Refused(422, f"assign: {person.login} is {person.role} here: expected staff.")
    row = {"person_id": person.id, **asdict(what)}
    is_row = sa.and_(*(assignments.c[name] == value for name, value in row.items()))
    with edit.database.write() as connection:
        there = connection.execute(sa.select(assignments).where(is_row)).first()
        if remove and there is None:
            raise Refused(404, f"assign: {person.login} has no such assignment.")
        if remove == (there is not None):
            change = (
                assignments.delete().where(is_row) if remove else assignments.insert().values(row)
            )
            connection.execute(change)
            action = "take assignment back" if remove else "assign"
            edit.log(connection, action, person.login, None, asdict(what))
