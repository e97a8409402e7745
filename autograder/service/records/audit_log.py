"""Who changed which grade, date or role, and when. Lines are added by whoever makes the change,
in the same transaction, and never changed.
"""

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import audit_log
from autograder.service.times import iso


def write(
    connection: sa.Connection,
    now: float,
    who: str,
    action: str,
    subject: str,
    before: Any = None,
    after: Any = None,
) -> None:
    """Add a line; `who` is a login, `before` and `after` are plain data."""
    row = {"at": now, "who": who[:100], "action": action, "subject": subject[:300]}
    texts = {"before": _text(before), "after": _text(after)}
    connection.execute(audit_log.insert().values(**row, **texts))


def write_each(
    connection: sa.Connection, now: float, who: str, action: str, subjects: Iterable[str]
) -> None:
    """Add a line for each subject, in one statement."""
    row = {"at": now, "who": who[:100], "action": action}
    rows = [{**row, "subject": subject[:300]} for subject in subjects]
    if rows:
        connection.execute(audit_log.insert(), rows)


def read(database: Database, size: int, *, before: int = 0) -> list[dict[str, Any]]:
    """Return the newest lines as plain data, or those before the line of a number."""
    query = sa.select(audit_log).order_by(audit_log.c.id.desc()).limit(size)
    rows = database.rows(query.where(audit_log.c.id < before) if before else query)
    return [_line(row) for row in rows]


def _line(row: Any) -> dict[str, Any]:
    changed = {name: json.loads(getattr(row, name) or "null") for name in ("before", "after")}
    return {**row._mapping, "at": iso(row.at), **changed}


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
