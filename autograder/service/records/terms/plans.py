"""A term's plan: dates and rules of labs, the course rule and shared comments, never a person.

It is plain data, read off a course, a file or a backup, and taken over here in one transaction.
Its dates are moved by days of the local clock: what was due at noon is due at noon, also where
summer time has begun in between.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from autograder.service.database import backups, schema
from autograder.service.database.backups import Rows
from autograder.service.database.database import Database
from autograder.service.errors import Refused, StartError
from autograder.service.records.calendar import calendar
from autograder.service.records.grades import kept_comments
from autograder.service.records.grades.course_rule import (
    CourseRule,
    course_rule,
    put_rule,
    read_rule,
)
from autograder.service.records.people import Edit
from autograder.service.records.rules import DATES, Rules
from autograder.service.records.terms.schedule import FIELDS, difference, put_rules

TABLES = ("lab_rules", "weights", "facts", "kept_comments")
_PARTS = ("labs", "rule", "comments")
_COMMENT = ("lab", "question", "item", "text")
_PLANNED = [name for name in FIELDS if name != "held"]  # which says how the term went on


@dataclass(frozen=True)
class Plan:
    """A plan that has been read: rules by lab, the course rule, comments as they are kept."""

    labs: dict[str, Rules]
    rule: CourseRule
    comments: list[dict[str, str]]

    @classmethod
    def read(cls, term: object) -> "Plan":
        """Return the plan that plain data describes.

        Raises:
            Refused: 422, it is not a plan.
        """
        parts: dict[str, Any] = term if isinstance(term, dict) else {}
        labs: Any = parts.get("labs")
        rule: Any = parts.get("rule")
        comments: Any = parts.get("comments")
        kinds = isinstance(labs, dict) and isinstance(rule, dict) and isinstance(comments, list)
        if set(parts) != {*_PARTS} or not kinds:
            expected = "expected what `autograder term show` prints"
            raise Refused(422, f"term: this is no plan: {expected}.")
        weights = rule.get("weights")
        rule_labs = weights if isinstance(weights, dict) else {}
        rules = {lab: _rules(lab, says) for lab, says in labs.items()}
        return cls(rules, read_rule(rule, rule_labs), [_comment(each) for each in comments])


def plan(rows: Rows) -> dict[str, Any]:
    """Return the plan that rows of TABLES hold, the comments used most often first."""
    facts = {row["name"]: row["value"] for row in rows.get("facts", [])}
    weights = {row["lab"]: row["weight"] for row in rows.get("weights", [])}
    rule = CourseRule(int(facts.get(schema.DROP_LOWEST, 0)), weights)
    labs = sorted(rows.get("lab_rules", []), key=lambda row: row["lab"])
    comments = sorted(rows.get("kept_comments", []), key=lambda row: (-row["uses"], row["id"]))
    return {
        "labs": {row["lab"]: {n: row[n] for n in _PLANNED} for row in labs},
        "rule": rule.to_dict(),
        "comments": [{name: row[name] for name in _COMMENT} for row in comments],
    }


def plan_of(archive: Path, course: str = "") -> Any:
    """Return the plan that a file is, or that of a backup's `course`; "" is the one at `/`.

    Raises:
        StartError: it is neither, or damaged, or a newer release's.
    """
    try:
        with archive.open("rb") as file:
            if file.read(1) != b"{":
                return plan(backups.read_rows(archive, TABLES, course))
        return json.loads(archive.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StartError(f"term: {archive} is damaged, or no plan: {error}.") from error
    except OSError as error:
        raise StartError(f"term: {archive}: {error.strerror}.") from error


def current_plan(database: Database) -> dict[str, Any]:
    """Return the plan of this course."""
    return plan(backups.read_tables(database, TABLES))


def _comment(parts: Any) -> dict[str, str]:
    named = isinstance(parts, dict) and set(parts) == {*_COMMENT}
    if not named or not all(isinstance(text, str) for text in parts.values()):
        raise wrong("comments", parts, f"texts called {', '.join(_COMMENT)}")
    return kept_comments.read(**parts)


def _rules(lab: str, says: Any) -> Rules:
    if not isinstance(says, dict):
        raise wrong(lab[:100], says, "the rules of a lab")
    try:
        return Rules.read(says)
    except Refused as error:
        raise Refused(422, f"term: {lab[:100]}: {error}") from error


def wrong(name: str, got: object, expected: str) -> Refused:
    """Return what says that something of a term is malformed."""
    return Refused(422, f"term: {name}: got {str(got)[:60]!r}, expected {expected}.")


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
        opens = [rules.opens for rules in all_rules if rules.opens is not None]
        if not opens:
            problem = "no lab of it opens at a date" if all_rules else "there is no lab in the plan"
            raise Refused(422, f"term: {problem}: give weeks, not a start.")
        try:
            first = min(_local(text, zone) for text in opens).date()
            return cls((date.fromisoformat(start) - first).days, zone)
        except OverflowError as error:
            raise Refused(422, f"term: {zone} has no such date as {min(opens)}.") from error
        except (TypeError, ValueError) as error:
            raise wrong("start", start, "a day, such as 2031-02-28") from error

    def move_dates(self, rules: Rules) -> Rules:
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
    edit: Edit, body: Mapping[str, Any], rubrics: Mapping[str, Rubrics], *, dry_run: bool
) -> dict[str, Any]:
    """Apply the plan `body["term"]`, moved as `Move.read` says; return what that changes.

    `rubrics` are those of the labs that are here. A dry run only says what would change.

    Raises:
        Refused: 422, something is malformed; nothing has changed.
    """
    term = Plan.read(body.get("term"))
    move = Move.read(body, term.labs.values())
    with edit.database.read() if dry_run else edit.database.write() as connection:
        changes = _import(connection, term, move, rubrics)
        if not dry_run:
            _put(connection, edit, changes)
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
        try:
            moved = move.move_dates(term.labs[lab])
        except Refused as error:
            raise Refused(422, f"term: {lab}: {error}") from error
        rules[lab] = before, replace(moved, held=before is not None and before.held)
    differs = {lab: both for lab, both in rules.items() if both[0] != both[1]}
    weights = {lab: weight for lab, weight in term.rule.weights.items() if lab in rubrics}
    rule = (course_rule(connection), replace(term.rule, weights=weights))
    here = [comment for comment in term.comments if comment["lab"] not in missing]
    fresh = _fresh(connection, here, rubrics, problems)
    return Import(differs, len(rules) - len(differs), rule, fresh, problems)


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
    fresh, full = kept_comments.find_unkept(connection, welcome)
    left_out.update((c["lab"], f"{c['question']}: its list of comments is full") for c in full)
    for (lab, reason), count in sorted(left_out.items()):
        left = f"{count} comment{'s are' if count > 1 else ' is'} left out"
        problems.append({"lab": lab, "reason": f"{reason}: {left}"})
    return fresh


def _put(connection: sa.Connection, edit: Edit, plan: Import) -> None:
    """Write down what an import changes, with a line of its own if it is anything."""
    for lab, (before, after) in plan.rules.items():
        put_rules(connection, edit, lab, before or Rules(), after)
    if plan.rule[0] != plan.rule[1]:
        put_rule(connection, edit, *plan.rule)
    for comment in plan.comments:
        kept_comments.add(connection, edit, comment)
    if plan.rules or plan.comments or plan.rule[0] != plan.rule[1]:
        counts = {n: v for n, v in plan.to_dict().items() if isinstance(v, int)}
        edit.log(connection, "import term", "course", None, counts)
