"""The tables. Written for SQLite and PostgreSQL alike; times are UNIX seconds."""

from sqlalchemy import (
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

# Raised when a table changes shape; a database of another version is refused with a message.
VERSION = 1

metadata = MetaData()

facts = Table(
    "facts",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("value", String(200), nullable=False),
)

people = Table(
    "people",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("role", String(10), nullable=False),
    Column("created_at", Float, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("key", String(8), primary_key=True),
    Column("person_id", ForeignKey("people.id"), nullable=False, index=True),
    Column("kind", String(10), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("expires_at", Float),
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("person_id", ForeignKey("people.id"), nullable=False),
    Column("lab", String(100), nullable=False),
    Column("notebook", LargeBinary, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("submitted_at", Float, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", Text),
    # How often grading began, and how often the grader died of it while we were watching.
    Column("attempts", Integer, nullable=False, default=0),
    Column("crashes", Integer, nullable=False, default=0),
    Column("lease_owner", String(200)),
    Column("lease_until", Float),
    Column("finished_at", Float),
    Column("score", Float),
    Column("max_score", Float),
    Column("report", Text),
    Index("submissions_by_person", "person_id", "id"),
    Index("submissions_by_state", "state", "id"),
)
