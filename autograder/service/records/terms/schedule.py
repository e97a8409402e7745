"""The dates of labs as staff set them: of one lab, for one learner, or all of them in a CSV.

A file is taken whole or not at all. A column that it has not stays as it is; an empty cell takes
the date or the limit away.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records
from autograder.service.database.schema import (
    accommodations,
    decisions,
    extensions,
    lab_rules,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.calendar import Calendar, calendar
from autograder.service.records.csv_files import table
from autograder.service.records.outbox import touch, touch_people
from autograder.service.records.people import Edit, Person
from autograder.service.records.rules import DATES, Rules
from autograder.service.records.standings.standings import restand, restand_lab, restand_people
from autograder.service.times import format_local, later, moment


def put_rules(connection: sa.Connection, edit: Edit, lab: str, before: Rules, rules: Rules) -> None:
    """Write down what holds for a lab instead of what did, who says so, and whom it concerns."""
    connection.execute(lab_rules.delete().where(lab_rules.c.lab == lab))
    connection.execute(lab_rules.insert().values(lab=lab, **rules.to_dict()))
    edit.log(connection, "dates", lab, before.to_dict(), rules.to_dict())
    if before.held != rules.held:
        edit.log(connection, "grades held back" if rules.held else "grades released", lab)
    touch(connection, submissions.c.lab == lab)
    decided = sa.select(decisions.c.person_id).where(decisions.c.lab == lab)
    touch_people(connection, lab, decided)
    restand_lab(connection, lab)


@dataclass(frozen=True)
class Dates(Records):
    """What staff set, with a line in the audit log for each change."""

    def calendar(self, *person_ids: int) -> Calendar:
        """Return what holds now, for everybody or for these people."""
        with self.database.read() as connection:
            return calendar(connection, *person_ids)

    def set_rules(self, lab: str, rules: Rules, by: Person) -> None:
        """Set the rules of a lab."""
        with self.database.write() as connection:
            before = calendar(connection).rules.get(lab, Rules())
            put_rules(connection, Edit(self.database, self.clock, by), lab, before, rules)

    def extend(self, lab: str, learner: Person, due: str | None, by: Person) -> Rules:
        """Give a learner until `due`, or take that back; return what holds for them now.

        Raises:
            Refused: 422, the lab has no due date, or `due` is not after it.
        """
        key = (extensions.c.lab == lab) & (extensions.c.person_id == learner.id)
        with self.database.write() as connection:
            rules = calendar(connection).rules.get(lab, Rules())
            if due is not None and (rules.due is None or moment(due) <= moment(rules.due)):
                refusal = "the lab has no due date that could be extended"
                if rules.due is not None:
                    held = f"the lab is due on {format_local(rules.due)} for everybody"
                    refusal = f"{held}: expected a later time"
                raise Refused(422, f"extension: due: got {due}: {refusal}.")
            before = connection.scalar(sa.select(extensions.c.due).where(key))
            connection.execute(extensions.delete().where(key))
            if due is not None:
                row = {"lab": lab, "person_id": learner.id, "due": due}
                connection.execute(extensions.insert().values(row))
            subject = f"{lab}: {learner.login}"
            audit_log.write(connection, self.clock(), by.login, "extension", subject, before, due)
            theirs = submissions.c.person_id == learner.id
            touch(connection, theirs, submissions.c.lab == lab)
            restand(connection, lab, learner.id)
            return calendar(connection, learner.id).of(lab, learner.id)

    def stretch(self, learner: Person, factor: object, by: Person) -> None:
        """Give a learner so many times the time of every lab that has an opening and a due date.

        Raises:
            Refused: 422, the factor is not between 1 (as everybody) and 10.
        """
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 10:
            raise Refused(422, f"time: factor: got {str(factor)[:40]!r}, expected 1 to 10.")
        mine = accommodations.c.person_id == learner.id
        with self.database.write() as connection:
            before = connection.scalar(sa.select(accommodations.c.factor).where(mine))
            connection.execute(accommodations.delete().where(mine))
            if factor > 1:
                row = {"person_id": learner.id, "factor": float(factor)}
                connection.execute(accommodations.insert().values(row))
            held = (before or 1, factor)
            audit_log.write(connection, self.clock(), by.login, "time", learner.login, *held)
            touch(connection, submissions.c.person_id == learner.id)
            restand_people(connection, learner.id)


_WEEK_S = 7 * 86_400
_MOST_WEEKS = 104
_MOST_LABS = 1_000
FIELDS = tuple(field.name for field in fields(Rules))


@dataclass(frozen=True)
class Change:
    """What changes of a lab: the rules that differ, before and after."""

    lab: str
    before: dict[str, Any]
    after: dict[str, Any]


def rows(labs: list[str], rules: Mapping[str, Rules]) -> list[list[str]]:
    """Return the schedule as cells, a head and a row a lab; `read` takes them as CSV."""
    cells = [["lab", *FIELDS]]
    for lab in labs:
        held = rules.get(lab, Rules()).to_dict()
        cells.append([lab, *(_cell(held[name]) for name in FIELDS)])
    return cells


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def read(data: bytes, resolve: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    """Return what a schedule says of each lab, by the full names that `resolve` gives.

    Raises:
        Refused: 422, it is no CSV with a column `lab`, or a line of it cannot be taken.
    """
    names, lines = table(data, "schedule")
    if "lab" not in names or not set(names) <= {"lab", *FIELDS} or len(set(names)) < len(names):
        expected = f"lab, and each once of {', '.join(FIELDS)}"
        raise Refused(422, f"schedule: got {', '.join(names)[:200]!r}, expected {expected}.")
    if len(lines) > _MOST_LABS:
        raise Refused(422, f"schedule: it has more than {_MOST_LABS} lines.")
    by_lab: dict[str, dict[str, Any]] = {}
    for number, cells in lines:
        try:
            lab, says = _line(cells, names, resolve)
            if lab in by_lab:
                raise Refused(422, f"{lab} comes twice")
        except Refused as error:
            raise Refused(422, f"schedule: line {number}: {error}") from error
        by_lab[lab] = says
    return by_lab


def _line(
    cells: list[str], names: list[str], resolve: Callable[[str], str]
) -> tuple[str, dict[str, Any]]:
    if len(cells) != len(names):
        raise Refused(422, f"expected {len(names)} columns")
    says = dict(zip(names, (text.strip() for text in cells), strict=True))
    return resolve(says.pop("lab")), {name: _value(name, text) for name, text in says.items()}


def _value(name: str, text: str) -> Any:
    """Return a cell as JSON would have it; what is malformed stays a text, which is refused."""
    if isinstance(getattr(Rules, name), bool):
        return {"": False, "no": False, "yes": True}.get(text.lower(), text)
    if text == "":
        return None
    if name in DATES:
        return text
    try:
        return int(text) if name == "attempts" else float(text)
    except ValueError:
        return text


def digest(rules: Mapping[str, Rules]) -> str:
    """Return what a form that shows these rules sends back, so that a stale one is noticed."""
    return hashlib.sha256(repr(rows(sorted(rules), rules)).encode()).hexdigest()[:16]


def _require_seen(seen: str | None, held: Mapping[str, Rules], labs: Iterable[str]) -> None:
    some = {lab: held.get(lab, Rules()) for lab in labs}
    if seen is not None and seen not in (digest(held), digest(some)):
        problem = "somebody changed these dates after the page was loaded"
        raise Refused(409, f"schedule: {problem}. Load it again, and change what is there now.")


def take(
    edit: Edit, says: Mapping[str, dict[str, Any]], *, dry_run: bool, seen: str | None = None
) -> list[Change]:
    """Apply a schedule in one transaction; a dry run only says what it would change.

    Args:
        says: the rules of each lab that are to change.
        seen: the `digest` of the rules that whoever changes them saw: of these labs, or of all.

    Raises:
        Refused: 409, others hold by now than were seen; 422, the rules of a lab are malformed.
    """
    changes = []
    with edit.database.read() if dry_run else edit.database.write() as connection:
        held = calendar(connection).rules
        for lab, values in says.items():
            before = held.get(lab, Rules())
            after = _read(lab, {**before.to_dict(), **values})
            changes += _put(connection, edit, lab, before, after, dry_run=dry_run)
        if changes:  # a form that is sent twice changes nothing the second time
            _require_seen(seen, held, says)
    return changes


def _read(lab: str, values: dict[str, Any]) -> Rules:
    try:
        return Rules.read(values)
    except Refused as error:
        raise Refused(422, f"schedule: {lab}: {error}") from error


def shift(edit: Edit, weeks: object, *, dry_run: bool, seen: str | None = None) -> list[Change]:
    """Move every date of every lab, and every extension, by so many weeks, back by a negative one.

    Raises:
        Refused: 409, other rules hold by now than were `seen`; 422, it is no whole number of weeks
            within two years.
    """
    if isinstance(weeks, bool) or not isinstance(weeks, int) or not 0 < abs(weeks) <= _MOST_WEEKS:
        expected = f"-{_MOST_WEEKS} to {_MOST_WEEKS}, and not 0"
        raise Refused(422, f"schedule: weeks: got {str(weeks)[:40]!r}, expected {expected}.")
    changes = []
    with edit.database.read() if dry_run else edit.database.write() as connection:
        held = calendar(connection).rules
        _require_seen(seen, held, held)
        rules = sorted(held.items())
        if not dry_run:  # before what counts of a score is made anew
            _shift_extensions(connection, weeks)
        for lab, before in rules:
            moved: dict[str, Any] = {
                name: later(text, weeks * _WEEK_S, text)
                for name in DATES
                if (text := getattr(before, name)) is not None
            }
            after = replace(before, **moved)
            changes += _put(connection, edit, lab, before, after, dry_run=dry_run)
            if before == after and not dry_run:
                restand_lab(connection, lab)
    return changes


def _shift_extensions(connection: sa.Connection, weeks: int) -> None:
    for row in list(connection.execute(sa.select(extensions))):
        key = (extensions.c.lab == row.lab) & (extensions.c.person_id == row.person_id)
        due = later(row.due, weeks * _WEEK_S, row.due)
        connection.execute(extensions.update().where(key).values(due=due))


def _put(
    connection: sa.Connection, edit: Edit, lab: str, before: Rules, after: Rules, *, dry_run: bool
) -> list[Change]:
    """Set the rules of a lab, unless it is a dry run; return what that changes, if anything."""
    if before == after:
        return []
    if not dry_run:
        put_rules(connection, edit, lab, before, after)
    return [difference(lab, before, after)]


def difference(lab: str, before: Rules, after: Rules) -> Change:
    """Return what differs between the rules of a lab."""
    old, new = before.to_dict(), after.to_dict()
    differs = [name for name in FIELDS if old[name] != new[name]]
    return Change(lab, {n: old[n] for n in differs}, {n: new[n] for n in differs})
