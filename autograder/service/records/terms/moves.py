"""Dates moved by days of the local clock.

What was due at noon is due at noon, also where summer time has begun in between.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from autograder.service.errors import Refused
from autograder.service.records.rules import DATES, Rules

_MOST_WEEKS = 520


@dataclass(frozen=True)
class Move:
    """So many days of the clock of a zone."""

    days: int
    zone: ZoneInfo

    @classmethod
    def read(cls, body: Mapping[str, Any], labs: Iterable[Rules]) -> "Move":
        """Return the move by `weeks`, or so that the first of these labs opens on the day `start`.

        Raises:
            Refused: 422, something is malformed, or no lab opens.
        """
        start: Any = body.get("start")
        weeks: Any = body.get("weeks")
        try:
            zone = ZoneInfo(str(body.get("zone") or ""))
        except (ValueError, OSError, LookupError) as error:
            expected = "the name of a zone, such as Europe/Zurich or UTC"
            raise wrong("zone", body.get("zone"), expected) from error
        if (start is None) == (weeks is None):
            raise Refused(422, "term: expected either the day of its start or a number of weeks.")
        if start is None:
            no_number = isinstance(weeks, bool) or not isinstance(weeks, int)
            if no_number or abs(weeks) > _MOST_WEEKS:
                raise wrong("weeks", weeks, f"-{_MOST_WEEKS} to {_MOST_WEEKS}")
            return cls(7 * weeks, zone)
        all_rules = list(labs)
        opens = [_local(rules.opens, zone) for rules in all_rules if rules.opens is not None]
        if not opens:
            problem = "no lab of it opens at a date" if all_rules else "there is no lab in the plan"
            raise Refused(422, f"term: {problem}: give weeks, not a start.")
        try:
            return cls((date.fromisoformat(start) - min(opens).date()).days, zone)
        except (TypeError, ValueError) as error:
            raise wrong("start", start, "a day, such as 2031-02-28") from error

    def moved(self, rules: Rules) -> Rules:
        """Return the rules with all their dates moved.

        Raises:
            Refused: 422, no calendar has such a date.
        """
        dates = {name: text for name in DATES if (text := getattr(rules, name)) is not None}
        try:
            return Rules.read({**rules.to_dict(), **{n: self._date(t) for n, t in dates.items()}})
        except OverflowError as error:
            raise Refused(422, "its dates are moved out of the calendar") from error

    def _date(self, text: str) -> str:
        there = _local(text, self.zone).replace(tzinfo=None) + timedelta(days=self.days)
        instant = there.replace(tzinfo=self.zone).astimezone(UTC)  # a skipped hour is the next
        return instant.astimezone(self.zone).isoformat()


def _local(text: str, zone: ZoneInfo) -> datetime:
    return datetime.fromisoformat(text).astimezone(zone)


def wrong(name: str, got: object, expected: str) -> Refused:
    """Return what says that something of a term is malformed."""
    return Refused(422, f"term: {name}: got {str(got)[:60]!r}, expected {expected}.")
