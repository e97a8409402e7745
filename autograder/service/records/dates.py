"""The dates of a lab: until when it may be handed in, how often, and what lateness costs.

Dates are instants, whatever zone they were written in; a day of lateness has 24 hours, also where
a clock was changed meanwhile. Times are compared at whole seconds, as receipts show them. `Rules`
is pure; a `Calendar` says what holds for whom, as the database keeps it.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import sqlalchemy as sa
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from autograder.service.database.database import Database
from autograder.service.database.schema import (
    accommodations,
    decisions,
    extensions,
    lab_rules,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.outbox import touch, touch_people
from autograder.service.records.people import Person
from autograder.service.records.standings import restand, restand_lab, restand_people
from autograder.service.times import date, later, moment

_DAY_S = 86_400


def _given(value: object, info: ValidationInfo) -> str | None:
    return date(value, f"lab: {info.field_name}")


_TIME = {"type": ["string", "null"], "format": "date-time"}
Date = Annotated[str | None, BeforeValidator(_given), WithJsonSchema(_TIME)]
OrNone = BeforeValidator(lambda value: 0.0 if value is None else value)


@dataclass(frozen=True)
class Rules:
    """What holds for a lab, or for one learner of it; None: no such date, or no limit."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    opens: Date = None
    due: Date = None
    late_until: Date = None
    # A share of the score.
    penalty_per_day: Annotated[float, Field(ge=0, le=1, strict=True), OrNone] = 0.0
    attempts: Annotated[int, Field(ge=1, le=10_000, strict=True)] | None = None
    grace_minutes: Annotated[float, Field(ge=0, le=7 * 24 * 60, strict=True), OrNone] = 0.0
    # Whether learners have them once nothing can be handed in any more.
    solutions: Annotated[bool, Strict()] = False
    # Whether learners see who answers its timed questions fastest.
    leaderboard: Annotated[bool, Strict()] = False
    # Until when learners may ask about their grades; None: they may not.
    requests_until: Date = None
    # Whether learners see that their work is graded and nothing of the grade.
    held: Annotated[bool, Strict()] = False

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "Rules":
        """Return the rules that a request's JSON says; what it leaves out does not hold.

        Raises:
            Refused: 422, something of it is malformed.
        """
        try:
            rules = RULES.validate_python(dict(body))
        except ValidationError as error:
            wrong = error.errors()[0]
            name = str(wrong["loc"][0])[:100]
            raise _wrong(wrong["input"], name, wrong["msg"]) from error
        in_order = [(moment(text), name) for name in _IN_ORDER if (text := getattr(rules, name))]
        for (before, first), (after, second) in itertools.pairwise(in_order):
            if after < before:
                raise _wrong(getattr(rules, second), second, f"expected no time before {first}")
        if rules.solutions and rules.late_until is None:
            expected = "expected late_until too: work that is late is taken for ever"
            raise _wrong(True, "solutions", expected)
        return rules

    def extended(self, due: str | None) -> "Rules":
        """Return the rules of a learner who may hand in until `due`; it shortens nothing."""
        if due is None or self.due is None or moment(due) <= moment(self.due):
            return self
        more_s = moment(due) - moment(self.due)
        moved: dict[str, Any] = {
            name: later(text, more_s, due)
            for name in ("late_until", "requests_until")
            if (text := getattr(self, name)) is not None
        }
        return replace(self, due=due, **moved)

    def stretched_due(self, factor: float) -> str | None:
        """Return when the lab is due with so many times its time; None where it has no length."""
        if self.opens is None or self.due is None:
            return None
        return later(self.opens, factor * (moment(self.due) - moment(self.opens)), self.due)

    def extension_refusal(self, due: str) -> str | None:
        """Return why extending to `due` would change nothing, or None."""
        if self.due is None:
            return "the lab has no due date that could be extended"
        if moment(due) <= moment(self.due):
            return f"the lab is due at {self.due} for everybody: expected a later time"
        return None

    def late_days(self, submitted_at: float) -> int:
        """Return the days begun after the due date and its grace; 0 is in time."""
        if self.due is None:
            return 0
        late_s = math.floor(submitted_at) - moment(self.due) - 60 * self.grace_minutes
        return max(0, math.ceil(late_s / _DAY_S))

    def counted(self, score: float | None, late_days: int) -> float | None:
        """Return what counts of a score after so many days; None stays None."""
        if score is None:
            return None
        return round(score * max(0.0, 1 - self.penalty_per_day * late_days), 6)

    def is_over(self, now: float) -> bool:
        """Return whether nothing can be handed in at `now` any more."""
        if self.late_until is None:
            return False
        return math.floor(now) > moment(self.late_until) + 60 * self.grace_minutes

    def refusal(self, now: float, used: int) -> str | None:
        """Return why nothing can be handed in at `now` after `used` attempts, or None."""
        now = math.floor(now)
        if self.opens is not None and now < moment(self.opens):
            return f"the lab opens at {self.opens}"
        if self.is_over(now):
            return f"the lab closed at {self.late_until}"
        if self.attempts is not None and used >= self.attempts:
            return f"all {self.attempts} attempts are used"
        return None

    def requests_refusal(self, now: float) -> str | None:
        """Return why a learner cannot ask about a grade at `now`, or None."""
        if self.held:
            return "grades are held back"
        if self.requests_until is None:
            return "re-grade requests are not taken"
        if math.floor(now) > moment(self.requests_until):
            return f"re-grade requests were taken until {self.requests_until}"
        return None

    def solutions_refusal(self, now: float) -> str | None:
        """Return why a learner cannot have the solutions at `now`, or None."""
        if not self.solutions or self.late_until is None:
            return "its solutions are not given out"
        if not self.is_over(now):
            return f"solutions are given out when nothing can be handed in: after {self.late_until}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as plain data; `read` is the inverse."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


RULES = TypeAdapter(Rules)
_IN_ORDER = ("opens", "due", "late_until")
DATES = (*_IN_ORDER, "requests_until")


def _wrong(got: object, name: str, problem: str) -> Refused:
    return Refused(422, f"lab: {name}: got {str(got)[:60]!r}: {problem}.")


_COLUMNS = [lab_rules.c[field.name] for field in fields(Rules)]


@dataclass(frozen=True)
class Calendar:
    """What holds for whom: the rules by lab, later due dates by (lab, person), factors on time."""

    rules: Mapping[str, Rules]
    later: Mapping[tuple[str, int], str]
    factors: Mapping[int, float]

    def of(self, lab: str, person_id: int) -> Rules:
        """Return the rules that hold for one learner."""
        rules, due = self.rules.get(lab, Rules()), self.later.get((lab, person_id))
        factor = self.factors.get(person_id)
        return rules.extended(due if factor is None else _later(due, rules.stretched_due(factor)))

    def still_open(self, lab: str, now: float) -> list[int]:
        """Return for whom a lab that is over at `now` is not: they have more time."""
        alike = defaultdict[tuple[str | None, float | None], list[int]](list)
        for person in {person for _, person in self.later} | set(self.factors):
            alike[self.later.get((lab, person)), self.factors.get(person)].append(person)
        groups = (group for group in alike.values() if not self.of(lab, group[0]).is_over(now))
        return sorted(person for group in groups for person in group)

    def counted(self, lab: str, person_id: int, score: float, submitted_at: float) -> float:
        """Return what counts of a score."""
        rules = self.of(lab, person_id)
        return rules.counted(score, rules.late_days(submitted_at)) or 0.0


def calendar(connection: sa.Connection, *person_ids: int) -> Calendar:
    """Return the rules and the extensions of everybody, or of these people."""
    rules = {row[0]: Rules(*row[1:]) for row in connection.execute(_RULES)}
    chosen = sa.select(extensions.c.lab, extensions.c.person_id, extensions.c.due)
    factors = sa.select(accommodations.c.person_id, accommodations.c.factor)
    if person_ids:
        chosen = chosen.where(extensions.c.person_id.in_(person_ids))
        factors = factors.where(accommodations.c.person_id.in_(person_ids))
    dues = {(row[0], row[1]): row[2] for row in connection.execute(chosen)}
    return Calendar(rules, dues, {row[0]: row[1] for row in connection.execute(factors)})


def _later(*dues: str | None) -> str | None:
    """Return the latest of some dates, or None where there is none."""
    return max((due for due in dues if due is not None), key=moment, default=None)


_RULES = sa.select(lab_rules.c.lab, *_COLUMNS)
HELD_LABS = sa.select(lab_rules.c.lab).where(lab_rules.c.held)


def put_rules(
    connection: sa.Connection, now: float, lab: str, before: Rules, rules: Rules, by: Person
) -> None:
    """Write down what holds for a lab instead of what did, who says so, and whom it concerns."""
    connection.execute(lab_rules.delete().where(lab_rules.c.lab == lab))
    connection.execute(lab_rules.insert().values(lab=lab, **rules.to_dict()))
    held = (before.to_dict(), rules.to_dict())
    audit_log.write(connection, now, by.login, "dates", lab, *held)
    if before.held != rules.held:
        action = "grades held back" if rules.held else "grades released"
        audit_log.write(connection, now, by.login, action, lab)
    touch(connection, submissions.c.lab == lab)
    decided = sa.select(decisions.c.person_id).where(decisions.c.lab == lab)
    touch_people(connection, lab, decided)
    restand_lab(connection, lambda: calendar(connection).counted, lab)


@dataclass(frozen=True)
class Dates:
    """What staff set, with a line in the audit log for each change."""

    database: Database
    clock: Callable[[], float]

    def calendar(self, *person_ids: int) -> Calendar:
        """Return what holds now, for everybody or for these people."""
        with self.database.read() as connection:
            return calendar(connection, *person_ids)

    def solutions_refusal(self, lab: str, person_id: int) -> str | None:
        """Return why this learner cannot have the solutions of a lab now, or None."""
        return self.calendar(person_id).of(lab, person_id).solutions_refusal(self.clock())

    def set_rules(self, lab: str, rules: Rules, by: Person) -> None:
        """Let these rules hold for a lab, instead of those that held."""
        with self.database.write() as connection:
            before = calendar(connection).rules.get(lab, Rules())
            put_rules(connection, self.clock(), lab, before, rules, by)

    def extend(self, lab: str, learner: Person, due: str | None, by: Person) -> Rules:
        """Give a learner until `due`, or take that back; return what holds for them now.

        Raises:
            Refused: 422, the lab has no due date, or `due` is not after it.
        """
        key = (extensions.c.lab == lab) & (extensions.c.person_id == learner.id)
        with self.database.write() as connection:
            rules = calendar(connection).rules.get(lab, Rules())
            if due is not None and (refusal := rules.extension_refusal(due)):
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
            restand(connection, lambda: calendar(connection, learner.id).counted, lab, learner.id)
            return calendar(connection, learner.id).of(lab, learner.id)

    def stretch(self, learner: Person, factor: object, by: Person) -> None:
        """Give a learner so many times the time of every lab that has an opening and a due date.

        Raises:
            Refused: 422, the factor is none from 1 (as everybody) to 10.
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
            restand_people(connection, lambda: calendar(connection, learner.id).counted, learner.id)
