"""What columns hold: a name has the same kind in every table, which is said here once."""

from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

# By name what a column holds; a text is the column that it refers to.
KINDS: dict[str, Any] = {
    name: kind
    for kind, names in (
        (
            Float,
            "at asked_at created_at decided_at expires_at finished_at marked_at not_before"
            " published_at saved_at served_at started_at submitted_at waiting_since"
            " starts ends lease_until factor first_points grace_minutes max_score"
            " penalty_per_day points ratio score share weight",
        ),
        (Integer, "best_id id kills latest_id next_id number pending size_bytes total tries uses"),
        (Boolean, "blank decided held leaderboard open passed solutions waits written"),
        (
            Text,
            "after basis checks comment item items lineitem lineitems members problem reason"
            " report text things why",
        ),
        (LargeBinary, "notebook"),
        (String(8), "key"),
        (String(10), "kind role state"),
        (String(40), "action due late_until opens platform requests_until"),
        (String(64), "alike answer_sha256 digest nonce sha256"),
        (String(100), "lab name section team who"),
        (String(200), "agent email lease_owner question retry_key value words"),
        (String(255), "context"),
        (String(400), "login_key"),
        ("gradings.id", "grading_id"),
        ("people.id", "person_id first_by marked_by written_by"),
        ("submissions.id", "submission_id"),
    )
    for name in names.split()
}

# What is written where nothing is said.
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("agent", "alike", "comment", "email", "problem", "section"), ""),
    **dict.fromkeys(("kills", "pending", "total", "tries"), 0),
    **dict.fromkeys(("not_before", "served_at"), 0.0),
    **dict.fromkeys(("blank", "decided"), False),
    "items": "[]",
}


def _column(name: str, **how: Any) -> Column[Any]:
    kind = KINDS[name]
    return Column(name, ForeignKey(kind) if isinstance(kind, str) else kind, **how)


def keys(*names: str) -> list[Column[Any]]:
    """Return the columns that are the key of a table together."""
    return [_column(name, primary_key=True) for name in names]


def not_null(*names: str) -> list[Column[Any]]:
    """Return columns that hold something in every row."""
    return [_column(name, nullable=False, default=_DEFAULTS.get(name)) for name in names]


def optional(*names: str) -> list[Column[Any]]:
    """Return columns that may be NULL."""
    return [_column(name) for name in names]


def table(name: str, *parts: list[Column[Any]] | Column[Any] | Index) -> Table:
    """Return a table with these columns and indexes."""
    columns = [item for part in parts for item in (part if isinstance(part, list) else [part])]
    return Table(name, metadata, *columns)
