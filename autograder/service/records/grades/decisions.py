"""What staff decide about a learner's whole lab: excused, or so many points, whatever comes in.

A decision holds until it is taken back, also for what is handed in later; nothing that was graded
is changed by it.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import decisions, people
from autograder.service.errors import Refused
from autograder.service.records.calendar import HELD_LABS
from autograder.service.records.marks import comment_of
from autograder.service.records.outbox import touch_people
from autograder.service.records.people import LEARNER, Edit, Person
from autograder.service.records.standings.standings import lab_points, restand

_COMMENT_CHARS = 2_000
_MOST_POINTS = 1e6
_KEYS = {"excused", "points", "max_score", "comment"}


@dataclass(frozen=True)
class Decision:
    """What counts of a lab for one person: `points` of `max_score`, or nothing (excused)."""

    person_id: int
    lab: str
    points: float | None
    max_score: float | None
    comment: str
    decided_at: float


_COLUMNS = [decisions.c[field.name] for field in fields(Decision)]


def read_decisions(
    database: Database, person_ids: Collection[int] | None, lab: str = "", *, veiled: bool
) -> list[Decision]:
    """Return the decisions about these people, or about all, in every lab or one.

    `veiled` is for learners' eyes: without the points of labs whose grades are held back.
    """
    query = sa.select(*_COLUMNS).order_by(decisions.c.lab, decisions.c.person_id)
    if person_ids is not None:
        query = query.where(decisions.c.person_id.in_(person_ids))
    if lab:
        query = query.where(decisions.c.lab == lab)
    if veiled:
        query = query.where(decisions.c.points.is_(None) | decisions.c.lab.not_in(HELD_LABS))
    return [Decision(*row) for row in database.rows(query)]


def decide(edit: Edit, lab: str, learner: Person, body: Mapping[str, Any]) -> None:
    """Set a decision: `excused`, or `points` (of `max_score`, if given); neither takes it back.

    Raises:
        Refused: 409, they are no learner; 422, the body is malformed, or nobody knows the lab's
            points.
    """
    if learner.role != LEARNER:
        raise Refused(409, f"grade: {learner.login} is {learner.role}: only learners have one.")
    key = (decisions.c.person_id == learner.id) & (decisions.c.lab == lab)
    theirs = sa.select(people.c.id).where(people.c.id == learner.id)
    with edit.database.write() as connection:
        connection.execute(theirs.with_for_update(key_share=True))  # of two, one decides at a time
        before = connection.execute(sa.select(*_COLUMNS).where(key)).first()
        decision = _read(body, learner.id, lab, edit.now, lab_points(connection).get(lab))
        connection.execute(decisions.delete().where(key))
        if decision is not None:
            connection.execute(decisions.insert().values(asdict(decision)))
        states = [_plain(d) for d in (Decision(*before) if before else None, decision)]
        edit.log(connection, "lab grade", f"{lab}: {learner.login}", *states)
        touch_people(connection, lab, [learner.id])
        restand(connection, lab, learner.id)


def _plain(decision: Decision | None) -> Any:
    if decision is None:
        return None
    if decision.points is None:
        return {"excused": True, "comment": decision.comment}
    names = ("points", "max_score", "comment")
    return {name: getattr(decision, name) for name in names}


def _read(
    body: Mapping[str, Any], person_id: int, lab: str, now: float, most: float | None
) -> Decision | None:
    excused, points = body.get("excused", False), body.get("points")
    comment, full = body.get("comment", ""), body.get("max_score")
    if not set(body) <= _KEYS or not isinstance(excused, bool) or not isinstance(comment, str):
        expected = '{"excused": true} or {"points": 7, "max_score": 10, "comment": "..."}'
        raise Refused(422, f"grade: expected {expected}.")
    comment = comment_of(comment, _COMMENT_CHARS)
    if excused and points is not None:
        raise Refused(422, "grade: excused: expected no points too.")
    if excused:
        return Decision(person_id, lab, None, None, comment, now)
    if points is None:
        return None
    full = most if full is None else full
    if full is None:
        raise Refused(422, f"grade: {lab}: nobody has a grade yet: say max_score too.")
    full = _number(full, "max_score", _MOST_POINTS)
    if full == 0:
        raise Refused(422, "grade: max_score: got 0, expected more.")
    return Decision(person_id, lab, _number(points, "points", full), full, comment, now)


def _number(value: object, name: str, most: float) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= float(value) <= most:  # type: ignore[arg-type]
        raise Refused(422, f"grade: {name}: got {str(value)[:40]!r}, expected 0 to {most:g}.")
    return float(value)  # type: ignore[arg-type]
