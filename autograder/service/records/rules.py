"""The rules of a lab: until when it may be handed in, how often, and what lateness costs. Pure.

Dates are instants, whatever zone they were written in; a day of lateness has 24 hours, also where
a clock was changed meanwhile. Times are compared at whole seconds, as receipts show them.
"""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

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

from autograder.service.errors import Refused
from autograder.service.times import date, format_local, later, moment

_DAY_S = 86_400


def _check_date(value: object, info: ValidationInfo) -> str | None:
    return date(value, f"lab: {info.field_name}")


_TIME = {"type": ["string", "null"], "format": "date-time"}
Date = Annotated[str | None, BeforeValidator(_check_date), WithJsonSchema(_TIME)]
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

    def extend_to(self, due: str | None) -> "Rules":
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

    def late_days(self, submitted_at: float) -> int:
        """Return the days begun after the due date and its grace; 0 is in time."""
        if self.due is None:
            return 0
        late_s = math.floor(submitted_at) - moment(self.due) - 60 * self.grace_minutes
        return max(0, math.ceil(late_s / _DAY_S))

    def apply_lateness(self, score: float | None, late_days: int) -> float | None:
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
            return f"the lab opens on {format_local(self.opens)}"
        if self.late_until is not None and self.is_over(now):
            return f"the lab closed on {format_local(self.late_until)}"
        if self.attempts is not None and used >= self.attempts:
            return f"all attempts are used: {self.attempts}"
        return None

    def requests_refusal(self, now: float) -> str | None:
        """Return why a learner cannot ask about a grade at `now`, or None."""
        if self.held:
            return "grades are held back"
        if self.requests_until is None:
            return "re-grade requests are not taken"
        if math.floor(now) > moment(self.requests_until):
            return f"re-grade requests were taken until {format_local(self.requests_until)}"
        return None

    def solutions_refusal(self, now: float) -> str | None:
        """Return why a learner cannot have the solutions at `now`, or None."""
        if not self.solutions or self.late_until is None:
            return "its solutions are not given out"
        if not self.is_over(now):
            last = format_local(self.late_until)
            return f"solutions are given out when nothing can be handed in: after {last}"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the rules as plain data; `read` is the inverse."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


RULES = TypeAdapter(Rules)
_IN_ORDER = ("opens", "due", "late_until")
DATES = (*_IN_ORDER, "requests_until")


def _wrong(got: object, name: str, problem: str) -> Refused:
    return Refused(422, f"lab: {name}: got {str(got)[:60]!r}: {problem}.")
