"""The dates of a lab: until when it may be handed in, how often, and what lateness costs. Pure.

Dates are instants, whatever zone they were written in; a day of lateness has 24 hours, also where
a clock was changed meanwhile. Times are compared at whole seconds, as receipts show them.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from autograder.service.errors import Refused
from autograder.service.times import date, later, moment

_DAY_S = 86_400

MOST_ATTEMPTS = 10_000
MOST_GRACE_MINUTES = 7 * 24 * 60.0


@dataclass(frozen=True)
class Rules:
    """What holds for a lab, or for one learner of it; None: no such date, or no limit."""

    opens: str | None = None
    due: str | None = None
    late_until: str | None = None
    penalty_per_day: float = 0.0  # a share of the score
    attempts: int | None = None
    grace_minutes: float = 0.0
    solutions: bool = False  # whether learners have them once nothing can be handed in any more
    leaderboard: bool = False  # whether learners see who answers its timed questions fastest

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "Rules":
        """Return the rules that a request's JSON says; what it leaves out does not hold.

        Raises:
            Refused: 422, something of it is malformed.
        """
        known = [field.name for field in fields(cls)]
        if unknown := sorted(set(body) - set(known)):
            raise _wrong(unknown[0][:100], "a key", f"one of {', '.join(known)}")
        dates = {name: date(body.get(name), name) for name in ("opens", "due", "late_until")}
        given = [(moment(text), name) for name, text in dates.items() if text is not None]
        for (before, first), (after, second) in itertools.pairwise(given):
            if after < before:
                raise _wrong(dates[second], second, f"no time before {first}")
        attempts = body.get("attempts")
        if attempts is not None and not _whole(attempts, 1, MOST_ATTEMPTS):
            raise _wrong(attempts, "attempts", f"a whole number from 1 to {MOST_ATTEMPTS}")
        solutions = _switch(body, "solutions")
        if solutions and dates["late_until"] is None:
            raise _wrong(True, "solutions", "late_until too: work that is late is taken for ever")
        return cls(
            **dates,
            solutions=solutions,
            leaderboard=_switch(body, "leaderboard"),
            penalty_per_day=_number(body, "penalty_per_day", 1.0),
            attempts=attempts,
            grace_minutes=_number(body, "grace_minutes", MOST_GRACE_MINUTES),
        )

    def extended(self, due: str | None) -> "Rules":
        """Return the rules of a learner who may hand in until `due`; it shortens nothing."""
        if due is None or self.due is None or moment(due) <= moment(self.due):
            return self
        if self.late_until is None:
            return replace(self, due=due)
        until = later(self.late_until, moment(due) - moment(self.due), due)
        return replace(self, due=due, late_until=until)

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

    def refusal(self, now: float, used: int) -> str | None:
        """Return why nothing can be handed in at `now` after `used` attempts, or None."""
        now = math.floor(now)
        if self.opens is not None and now < moment(self.opens):
            return f"the lab opens at {self.opens}"
        if self.late_until is not None and now > moment(self.late_until) + 60 * self.grace_minutes:
            return f"the lab closed at {self.late_until}"
        if self.attempts is not None and used >= self.attempts:
            return f"all {self.attempts} attempts are used"
        return None

    def solutions_refusal(self, now: float) -> str | None:
        """Return why a learner cannot have the solutions at `now`, or None."""
        if not self.solutions or self.late_until is None:
            return "its solutions are not given out"
        if math.floor(now) <= moment(self.late_until) + 60 * self.grace_minutes:
            return f"solutions are given out when nothing can be handed in: after {self.late_until}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as plain data; `read` is the inverse."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _number(body: Mapping[str, Any], name: str, most: float) -> float:
    value = body.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise _wrong(value, name, f"a number from 0 to {most:g}")
    return float(value)


def _switch(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise _wrong(value, name, "true or false")
    return value


def _whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _wrong(got: object, name: str, expected: str) -> Refused:
    return Refused(422, f"lab: {name}: got {str(got)[:60]!r}, expected {expected}.")
