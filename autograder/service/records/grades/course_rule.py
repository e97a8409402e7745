"""How labs make up the course total: by points or by weights, without the lowest few."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.schema import DROP_LOWEST, facts, weights
from autograder.service.errors import Refused
from autograder.service.records.people import Edit

_MOST_DROPPED, _MOST_WEIGHT = 100, 1e6
_MISSING = (
    "A lab that has closed and was not handed in counts 0; one that is excused, or not graded yet, "
    "does not count."
)


@dataclass(frozen=True)
class Total:
    """A share of what can be had, None where nothing counts yet; and the labs that are dropped."""

    share: float | None
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class CourseRule:
    """`weights` by lab, 1 for those that it does not name; where it is empty, points count."""

    drop_lowest: int
    weights: Mapping[str, float]

    def total(self, grades: Iterable[tuple[str, float, float]]) -> Total:
        """Return the total of (lab, score, full score); of the labs that count one always stays."""
        counted = []
        for lab, score, full in grades:
            weight = self.weights.get(lab, 1.0) if self.weights else full
            if weight > 0 and full > 0:
                counted.append((score / full, -weight, lab))
        counted.sort()  # of equals the one that counts most is dropped
        drop = min(self.drop_lowest, max(0, len(counted) - 1))
        weight = math.fsum(-negative for _, negative, _ in counted[drop:])
        earned = math.fsum(share * -negative for share, negative, _ in counted[drop:])
        return Total(earned / weight if weight else None, tuple(lab for *_, lab in counted[:drop]))

    def words(self, titles: Mapping[str, str]) -> str:
        """Return the rule as people read it."""
        how = "The points of all labs are added."
        if self.weights:
            named = [f"{titles.get(lab, lab)} {w:g}" for lab, w in sorted(self.weights.items())]
            how = f"Labs count by their weights: {', '.join(named)}, every other 1."
        if self.drop_lowest:
            lowest = f"{self.drop_lowest} lowest labs are" if self.drop_lowest > 1 else "lowest is"
            how += f" The {lowest} dropped."
        return f"{how} {_MISSING}"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as plain data; `put` takes it."""
        return {"drop_lowest": self.drop_lowest, "weights": dict(sorted(self.weights.items()))}


def course_rule(connection: sa.Connection) -> CourseRule:
    """Return the rule that holds."""
    drop = connection.scalar(sa.select(facts.c.value).where(facts.c.name == DROP_LOWEST))
    rows = connection.execute(sa.select(weights.c.lab, weights.c.weight))
    return CourseRule(int(drop or 0), {row.lab: row.weight for row in rows})


def put(edit: Edit, body: Mapping[str, Any], labs: Collection[str]) -> CourseRule:
    """Replace the course rule; what `body` leaves out stays.

    Raises:
        Refused: 422, something is malformed, or names no lab.
    """
    with edit.database.write() as connection:
        _wait_for_turn(connection)
        before = course_rule(connection)
        rule = read_rule({**before.to_dict(), **body}, labs)
        put_rule(connection, edit, before, rule)
    return rule


def put_rule(connection: sa.Connection, edit: Edit, before: CourseRule, rule: CourseRule) -> None:
    """Write down a rule instead of the one that held, and who says so."""
    _wait_for_turn(connection)
    connection.execute(facts.delete().where(facts.c.name == DROP_LOWEST))
    connection.execute(facts.insert().values(name=DROP_LOWEST, value=str(rule.drop_lowest)))
    connection.execute(weights.delete())
    if rule.weights:
        rows = [{"lab": lab, "weight": weight} for lab, weight in rule.weights.items()]
        connection.execute(weights.insert(), rows)
    edit.log(connection, "course rule", "course total", before.to_dict(), rule.to_dict())


def _wait_for_turn(connection: sa.Connection) -> None:
    """Wait until nobody else writes a rule: on PostgreSQL by a row that is always there."""
    connection.execute(sa.select(facts.c.name).where(facts.c.name == "schema").with_for_update())


def read_rule(body: Mapping[str, Any], labs: Collection[str]) -> CourseRule:
    """Return the rule that plain data says, for these labs.

    Raises:
        Refused: 422, something is malformed, or names no lab.
    """
    drop, weights = body.get("drop_lowest"), body.get("weights")
    if set(body) != {"drop_lowest", "weights"} or not isinstance(weights, Mapping):
        raise Refused(422, 'rule: expected {"drop_lowest": 1, "weights": {LAB: 2.0}}.')
    if isinstance(drop, bool) or not isinstance(drop, int) or not 0 <= drop <= _MOST_DROPPED:
        expected = f"expected 0 to {_MOST_DROPPED}"
        raise Refused(422, f"rule: drop_lowest: got {str(drop)[:40]!r}, {expected}.")
    for lab, weight in weights.items():
        if lab not in labs:
            raise Refused(422, f"rule: weights: there is no lab called {str(lab)[:100]!r}.")
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= _MOST_WEIGHT:
            expected = f"expected 0 to {_MOST_WEIGHT:g}"
            raise Refused(422, f"rule: weights: {lab}: got {str(weight)[:40]!r}, {expected}.")
    return CourseRule(drop, {lab: float(weight) for lab, weight in weights.items()})
