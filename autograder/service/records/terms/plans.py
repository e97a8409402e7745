"""A term's plan: dates and rules of labs, the course rule and shared comments, never a person.

It is plain data, read off a course, a file or a backup.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from autograder.service.database import archives, schema
from autograder.service.database.archives import Rows
from autograder.service.database.database import Database
from autograder.service.errors import Refused, StartError
from autograder.service.records.grades import kept_comments
from autograder.service.records.grades.course_rule import CourseRule, read_rule
from autograder.service.records.rules import Rules
from autograder.service.records.terms.schedule import FIELDS

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
        """Return the plan that plain data is.

        Raises:
            Refused: 422, it is none.
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
        "labs": {row["lab"]: {n: row[n] for n in _PLANNED if n in row} for row in labs},
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
                return plan(archives.read(archive, TABLES, course))
        return json.loads(archive.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StartError(f"term: {archive} is damaged, or no plan: {error}.") from error
    except OSError as error:
        raise StartError(f"term: {archive}: {error.strerror}.") from error


def current_plan(database: Database) -> dict[str, Any]:
    """Return the plan of this course."""
    rows: Rows = {}
    with database.read() as connection:
        for name in TABLES:
            table_rows = connection.execute(sa.select(schema.metadata.tables[name])).mappings()
            rows[name] = [dict(row) for row in table_rows]
    return plan(rows)


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
