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


def read(database: Database, number: int, size: int) -> tuple[list[dict[str, Any]], int]:
    """Return a page of lines as plain data, the newest first, and how many lines there are."""
    columns = [column for column in audit_log.c if column.name != "id"]
    query = sa.select(*columns).order_by(audit_log.c.id.desc())
    rows = database.rows(query.limit(size).offset((number - 1) * size))
    total = database.scalar(sa.select(sa.func.count()).select_from(audit_log)) or 0
    return [_line(row) for row in rows], total


def _line(row: Any) -> dict[str, Any]:
    changed = {name: json.loads(getattr(row, name) or "null") for name in ("before", "after")}
    return {
        "at": iso(row.at),
        "who": row.who,
        "action": row.action,
        "subject": row.subject,
        **changed,
    }


def _text(value: Any) -> str | None:
    return None if value is None else json.dumps(value)
