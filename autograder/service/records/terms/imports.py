"""What taking a term's plan over changes here, and the change itself, in one transaction.

Its dates are moved by days of the local clock: what was due at noon is due at noon, also where
summer time has begun in between.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.calendar import calendar
from autograder.service.records.grades import kept_comments
from autograder.service.records.grades.course_rule import CourseRule, course_rule, put_rule
from autograder.service.records.people import Person
from autograder.service.records.rules import DATES, Rules
from autograder.service.records.terms.dates import put_rules
from autograder.service.records.terms.plans import Plan, wrong
from autograder.service.records.terms.schedule import difference

_MOST_WEEKS = 520

Rubrics = Callable[[], Mapping[str, tuple[str, ...]]]  # of a lab: a question's items


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


@dataclass(frozen=True)
class Import:
    """What taking a plan over changes: rules by lab and the course rule, before and after."""

    rules: dict[str, tuple[Rules | None, Rules]]
    unchanged: int
    rule: tuple[CourseRule, CourseRule]
    comments: list[dict[str, str]]
    problems: list[dict[str, str]]  # lab, reason

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, only what differs of each lab."""
        changes = [
            asdict(difference(lab, before or Rules(), after))
            for lab, (before, after) in self.rules.items()
        ]
        added = sum(before is None for before, _ in self.rules.values())
        counts = {"added": added, "changed": len(changes) - added, "unchanged": self.unchanged}
        both = [rule.to_dict() for rule in self.rule]
        rule = None if both[0] == both[1] else {"before": both[0], "after": both[1]}
        more = {"changes": changes, "rule": rule, "comments": len(self.comments)}
        return {**counts, **more, "problems": self.problems}


def take(
    database: Database,
    now: float,
    body: Mapping[str, Any],
    rubrics: Mapping[str, Rubrics],
    by: Person,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    """Let the plan `body["term"]` hold, moved as `Move.read` says; return what that changes.

    `rubrics` are those of the labs that are here. A dry run only says what would change.

    Raises:
        Refused: 422, something is malformed; nothing has changed.
    """
    term = Plan.read(body.get("term"))
    move = Move.read(body, term.labs.values())
    with database.read() if dry_run else database.write() as connection:
        changes = _import(connection, term, move, rubrics)
        if not dry_run:
            _put(connection, now, changes, by)
    return changes.to_dict()


def _import(
    connection: sa.Connection, term: Plan, move: Move, rubrics: Mapping[str, Rubrics]
) -> Import:
    named = {*term.labs, *term.rule.weights, *(comment["lab"] for comment in term.comments)}
    missing = named - set(rubrics)
    reason = "this server has no such lab: what the term says of it is left out"
    problems = [{"lab": lab, "reason": reason} for lab in sorted(missing)]
    there, rules = calendar(connection).rules, dict[str, tuple[Rules | None, Rules]]()
    for lab in sorted(set(term.labs) - missing):
        before = there.get(lab)
        moved = _moved(lab, term.labs[lab], move)
        rules[lab] = before, replace(moved, held=before is not None and before.held)
    differs = {lab: both for lab, both in rules.items() if both[0] != both[1]}
    weights = {lab: weight for lab, weight in term.rule.weights.items() if lab in rubrics}
    rule = (course_rule(connection), replace(term.rule, weights=weights))
    here = [comment for comment in term.comments if comment["lab"] not in missing]
    fresh = _fresh(connection, here, rubrics, problems)
    return Import(differs, len(rules) - len(differs), rule, fresh, problems)


def _moved(lab: str, rules: Rules, move: Move) -> Rules:
    try:
        return move.moved(rules)
    except Refused as error:
        raise Refused(422, f"term: {lab}: {error}") from error


def _fresh(
    connection: sa.Connection,
    comments: list[dict[str, str]],
    rubrics: Mapping[str, Rubrics],
    problems: list[dict[str, str]],
) -> list[dict[str, str]]:
    """Return the comments that are not here yet; those that have no place become problems."""
    items = {lab: rubrics[lab]() for lab in {comment["lab"] for comment in comments}}
    left_out, welcome = Counter[tuple[str, str]](), list[dict[str, str]]()
    for comment in comments:
        lab, question, item = (comment[name] for name in ("lab", "question", "item"))
        rubric = items[lab].get(question)
        if rubric is None:
            left_out[lab, f"{question[:100]}: the lab asks people no such question"] += 1
        elif item and item not in rubric:
            left_out[lab, f"{question}: its rubric has no item {item[:60]!r}"] += 1
        else:
            welcome.append(comment)
    fresh, full = kept_comments.missing(connection, welcome)
    left_out.update((c["lab"], f"{c['question']}: its list of comments is full") for c in full)
    for (lab, reason), count in sorted(left_out.items()):
        left = f"{count} comment{'s are' if count > 1 else ' is'} left out"
        problems.append({"lab": lab, "reason": f"{reason}: {left}"})
    return fresh


def _put(connection: sa.Connection, now: float, made: Import, by: Person) -> None:
    """Write down what an import changes, with a line of its own if it is anything."""
    for lab, (before, after) in made.rules.items():
        put_rules(connection, now, lab, before or Rules(), after, by)
    if made.rule[0] != made.rule[1]:
        put_rule(connection, now, *made.rule, by)
    for comment in made.comments:
        kept_comments.add(connection, now, by, comment)
    if made.rules or made.comments or made.rule[0] != made.rule[1]:
        counts = {n: v for n, v in made.to_dict().items() if isinstance(v, int)}
        audit_log.write(connection, now, by.login, "import term", "course", after=counts)
