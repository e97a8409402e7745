"""From the layout of an older release to today's, one transaction a step.

The database says its layout in `facts`. A step is a function that changes the layout by one; what
a transaction of it did not reach has not happened, so a server that is killed in between starts
the step anew.
"""

import functools
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from autograder.records import Report
from autograder.service.database import schema
from autograder.service.database.database import Database
from autograder.service.errors import StartError
from autograder.service.records.grades import gradings
from autograder.service.records.marks import Mark
from autograder.service.records.people import LEARNER, login_key
from autograder.service.records.standings import standings, tries
from autograder.service.records.submissions.claims import line_up

# What a learner's token of a release that let them live for ever has left.
_BEARER_S = 180 * 86400.0

log = logging.getLogger(__name__)


def prepare(database: Database, now: float, *, allowed: bool = True) -> None:
    """Make the tables in an empty database; bring those of an older release to today's layout.

    Of two servers that start at once, one does the work and the other waits for it.

    Raises:
        StartError: the layout is unknown, or older and migrating is not `allowed`.
    """
    with database.read() as connection:
        version = _version(connection)
    while version != str(schema.VERSION):
        if version is not None and not allowed:
            older = f"got version {version}, expected {schema.VERSION}"
            raise StartError(
                f"the database is an older release's: {older}. Run: autograder migrate"
            )
        with database.write() as connection:
            _alone(connection)
            version = _step(connection, _version(connection), now)


def _alone(connection: sa.Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


_LOCK = 0x636F757273  # any number that nobody else locks in this database


def _step(connection: sa.Connection, layout: str | None, now: float) -> str:
    """Do what comes next, and return the layout that there is then.

    Raises:
        StartError: the layout is unknown.
    """
    if layout == str(schema.VERSION):
        return layout
    if layout is None:
        for statement in _layout_of_today(connection.dialect.name, connection.dialect.driver):
            connection.exec_driver_sql(statement)
        _write_fact(connection, schema.COOKIE_KEY, secrets.token_hex(32))
        version = schema.VERSION
    elif layout in map(str, _STEPS):
        version = int(layout) + 1
        log.warning("database: from layout %s to %d", layout, version)
        schema.metadata.create_all(connection)  # the tables that are missing, as they are today
        _STEPS[int(layout)](connection, now)
    else:
        raise StartError(
            f"serve: the database has another layout: got version {layout}, expected "
            f"{schema.VERSION}. Give another --data directory, or the release that wrote it."
        )
    _write_fact(connection, "schema", str(version))
    return str(version)


@functools.cache
def _layout_of_today(database: str, driver: str) -> tuple[str, ...]:
    """Return what makes the tables and their indexes; to write it takes longer than to run it."""
    dialect = sa.engine.make_url(f"{database}+{driver}://").get_dialect()()
    made: list[str] = []

    def note(ddl: Any, *_: Any) -> None:
        made.append(str(ddl.compile(dialect=dialect)))

    engine = sa.create_mock_engine(f"{database}+{driver}://", note)
    schema.metadata.create_all(engine, checkfirst=False)
    return tuple(made)


def _version(connection: sa.Connection) -> str | None:
    return fact(connection, "schema") if sa.inspect(connection).has_table("facts") else None


def fact(connection: sa.Connection, name: str) -> str | None:
    """Return what the database says of itself under a name, or None."""
    facts = schema.facts
    value: str | None = connection.scalar(sa.select(facts.c.value).where(facts.c.name == name))
    return value


def _write_fact(connection: sa.Connection, name: str, value: str) -> None:
    facts = schema.facts
    connection.execute(facts.delete().where(facts.c.name == name))
    connection.execute(facts.insert().values(name=name, value=value))


def _to_2(connection: sa.Connection, now: float) -> None:
    """Take notebooks, reports and marks out of the submissions; give people logins."""
    _people_to_2(connection, now)
    copy = "INSERT INTO notebooks (submission_id, notebook) SELECT id, notebook FROM submissions"
    _execute(connection, copy)
    _columns_to_2(connection)
    for row in _rows(connection):
        _gradings_to_2(connection, row)
    again = "UPDATE submissions SET state = 'stored', lease_owner = NULL, lease_until = NULL"
    _execute(
        connection,
        "UPDATE submissions SET state = 'parked' WHERE state = 'failed'",
        f"{again} WHERE state = 'grading'",
        "ALTER TABLE submissions DROP COLUMN notebook",  # the large ones first
        "ALTER TABLE submissions DROP COLUMN report",
        "ALTER TABLE submissions DROP COLUMN attempts",
    )
    for index in schema.submissions.indexes:
        if index.name != "submissions_by_person":  # which the last step makes: it has more columns
            index.create(connection)
    everybody = list(connection.scalars(sa.select(schema.people.c.id)))
    _execute(connection, "INSERT INTO lines (person_id, served_at) SELECT id, 0 FROM people")
    if everybody:
        line_up(connection, *everybody)


def _execute(connection: sa.Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(sa.text(statement))


def _people_to_2(connection: sa.Connection, now: float) -> None:
    _execute(
        connection,
        "ALTER TABLE people RENAME COLUMN name TO login",
        "ALTER TABLE people ADD COLUMN name VARCHAR(100) NOT NULL DEFAULT ''",
        "ALTER TABLE people ADD COLUMN login_key VARCHAR(400) NOT NULL DEFAULT ''",
        "ALTER TABLE people ADD COLUMN section VARCHAR(100) NOT NULL DEFAULT ''",
        "UPDATE people SET name = login",
    )
    people, taken = schema.people, set[str]()
    for number, login in list(
        connection.execute(sa.select(people.c.id, people.c.login).order_by(people.c.id))
    ):
        key = login_key(login)
        if key in taken:  # they have worked under it; no login can have this sign
            key = f"{key}#{number}"
        taken.add(key)
        connection.execute(people.update().where(people.c.id == number).values(login_key=key))
    for index in people.indexes:
        index.create(connection)
    learners = sa.select(people.c.id).where(people.c.role == LEARNER)
    eternal = (schema.tokens.c.kind == "bearer") & schema.tokens.c.expires_at.is_(None)
    old = schema.tokens.update().where(eternal, schema.tokens.c.person_id.in_(learners))
    connection.execute(old.values(expires_at=now + _BEARER_S))


def _columns_to_2(connection: sa.Connection) -> None:
    _execute(
        connection,
        "DROP INDEX submissions_by_person",
        "DROP INDEX submissions_by_state",
        "ALTER TABLE submissions RENAME COLUMN crashes TO tries",
        "ALTER TABLE submissions ADD COLUMN kills INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE submissions ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE submissions ADD COLUMN waiting_since FLOAT NOT NULL DEFAULT 0",
        "ALTER TABLE submissions ADD COLUMN grading_id INTEGER",
        "ALTER TABLE submissions ADD COLUMN pending INTEGER NOT NULL DEFAULT 0",
        "UPDATE submissions SET tries = 0, waiting_since = submitted_at, "
        "size_bytes = length(notebook)",
    )


def _rows(connection: sa.Connection) -> Iterator[Any]:
    """Yield the submissions that have a report, one at a time."""
    query = "SELECT id, report, score, finished_at, submitted_at FROM submissions"
    numbers = list(connection.scalars(sa.text("SELECT id FROM submissions ORDER BY id")))
    for number in numbers:
        row = connection.execute(sa.text(f"{query} WHERE id = :id"), {"id": number}).one()
        if row.report is not None:
            yield row


def _gradings_to_2(connection: sa.Connection, row: Any) -> None:
    """Publish the report of one submission, and take the marks out of it.

    A report that only says that grading failed does not count: it lacks the marks given before.
    """
    report = Report.from_dict(json.loads(row.report))
    finished_at = row.finished_at or row.submitted_at
    if not report.results and not report.manual and report.error:
        empty = {"score": None, "max_score": None}
        old = schema.submissions.update().where(schema.submissions.c.id == row.id)
        connection.execute(old.values(empty))
        return
    for answer in report.manual:
        if answer.score is not None or answer.comment:
            mark = Mark(answer.score, answer.comment)
            gradings.add_mark(connection, row.id, answer, mark, None, finished_at)
    gradings.publish(connection, row.id, report, finished_at)


def _to_3(connection: sa.Connection, _now: float) -> None:
    """Add emails and sections, roles, and several retry keys."""
    had = {c["name"] for c in sa.inspect(connection).get_columns("submissions")}
    if "retry_key" in had:  # not in a database that has just come from layout 1
        columns = "person_id, retry_key, submission_id"
        keys = "SELECT person_id, retry_key, id FROM submissions WHERE retry_key IS NOT NULL"
        _execute(
            connection,
            f"INSERT INTO retry_keys ({columns}) {keys}",
            "DROP INDEX submissions_by_retry_key",
            "ALTER TABLE submissions DROP COLUMN retry_key",
        )
    _add_column(connection, "people", "email", "VARCHAR(200) NOT NULL DEFAULT ''")
    _add_column(connection, "people", "section", "VARCHAR(100) NOT NULL DEFAULT ''")
    _add_column(connection, "tokens", "created_at", "FLOAT")
    _add_column(connection, "tokens", "agent", "VARCHAR(200) NOT NULL DEFAULT ''")
    _add_column(connection, "marks", "items", "TEXT NOT NULL DEFAULT '[]'")
    _execute(connection, "UPDATE people SET role = 'instructor' WHERE role = 'staff'")


def _to_4(connection: sa.Connection, _now: float) -> None:
    """Add the key of the cookies of a sign-in."""
    _write_fact(connection, schema.COOKIE_KEY, secrets.token_hex(32))


def _to_5(connection: sa.Connection, _now: float) -> None:
    """Write down which answers of each grading people mark."""
    reports = schema.reports.c
    noted = sa.select(schema.answers.c.grading_id)  # where it has just come from layout 1
    missing = sa.select(reports.grading_id).where(reports.grading_id.not_in(noted))
    for number in list(connection.scalars(missing)):
        gradings.note_answers(connection, number, _report(connection, number))


def _report(connection: sa.Connection, grading_id: int) -> Report:
    reports = schema.reports.c
    text = connection.scalar(sa.select(reports.report).where(reports.grading_id == grading_id))
    return Report.from_dict(json.loads(text or ""))


def _add_column(connection: sa.Connection, table: str, column: str, kind: str) -> None:
    """Add a column, unless an earlier step has made the table as it is today."""
    if column not in {c["name"] for c in sa.inspect(connection).get_columns(table)}:
        connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column} {kind}"))


def _to_9(connection: sa.Connection, _now: float) -> None:
    """Take blank answers off the piles; note which submissions are blank from now on."""
    _add_column(connection, "submissions", "blank", "BOOLEAN NOT NULL DEFAULT FALSE")
    waits = sa.select(schema.submissions.c.id).where(schema.submissions.c.pending > 0)
    for number in list(connection.scalars(waits)):
        gradings.write_totals(connection, number)


def _to_12(connection: sa.Connection, _now: float) -> None:
    """Find by index what came in today."""
    for index in schema.submissions.indexes:
        if index.name == "submissions_by_time":
            index.create(connection, checkfirst=True)


def _mark_in_groups(connection: sa.Connection) -> None:
    """Add what says which answers are alike, of which section, and marked by whom."""
    digest = "VARCHAR(64) NOT NULL DEFAULT ''"
    _add_column(connection, "answers", "alike", digest)
    _add_column(connection, "pile", "section", "VARCHAR(100) NOT NULL DEFAULT ''")
    _add_column(connection, "pile", "alike", digest)
    _add_column(connection, "pile", "marked_by", "INTEGER REFERENCES people (id)")
    for index in schema.pile.indexes:
        index.create(connection, checkfirst=True)


def _read_by_index(connection: sa.Connection) -> None:
    """Add what the gradebook and the lists of large courses are sorted and cut by."""
    dropped = ("submissions_to_mark", "submissions_by_person")
    _execute(connection, *(f"DROP INDEX IF EXISTS {name}" for name in dropped))
    _add_column(connection, "standings", "best_id", "INTEGER")
    _add_column(connection, "standings", "score", "FLOAT")
    tables = (schema.standings, schema.regradings, schema.submissions)
    for index in (index for table in tables for index in table.indexes):
        index.create(connection, checkfirst=True)
    by_name = "CREATE INDEX IF NOT EXISTS people_by_name ON people (lower(name), login)"
    _execute(connection, by_name)
    _add_column(connection, "regrades", "total", "INTEGER NOT NULL DEFAULT 0")
    mine = schema.regradings.c.batch == schema.regrades.c.id
    number = sa.select(sa.func.count()).select_from(schema.regradings).where(mine)
    connection.execute(schema.regrades.update().values(total=number.scalar_subquery()))


def _to_15(connection: sa.Connection, _now: float) -> None:
    """Note which answers are alike, who marked them, and which tries passed; count how labs stand.

    Counting reads tables as they are today, so it is the last step.
    """
    _mark_in_groups(connection)
    _read_by_index(connection)
    waits = sa.select(schema.submissions.c.grading_id).where(schema.submissions.c.pending > 0)
    for number in list(connection.scalars(waits)):
        gradings.note_alike(connection, number)
    noted = sa.select(schema.outcomes.c.grading_id)  # where it has just come from layout 1
    missing = sa.select(schema.reports.c.grading_id)
    for number in list(
        connection.scalars(missing.where(missing.selected_columns[0].not_in(noted)))
    ):
        tries.note(connection, number, _report(connection, number))
    standings.recount(connection)


_Step = Callable[[sa.Connection, float], None]


def _rule_of_labs(column: str, kind: str = "BOOLEAN NOT NULL DEFAULT FALSE") -> _Step:
    """Return the step that lets staff say one thing more of a lab."""
    return lambda connection, _now: _add_column(connection, "lab_rules", column, kind)


def _tables_alone(_connection: sa.Connection, _now: float) -> None:
    """Do nothing: what is new are tables, which `_step` has made."""


_STEPS: dict[int, _Step] = {
    1: _to_2,
    2: _to_3,
    3: _to_4,
    4: _to_5,
    5: _rule_of_labs("solutions"),
    6: _rule_of_labs("leaderboard"),
    7: _tables_alone,  # learners' drafts
    8: _to_9,
    9: _rule_of_labs("requests_until", "VARCHAR(40)"),
    10: _tables_alone,  # factors on time
    11: _to_12,
    12: _rule_of_labs("held"),
    13: _tables_alone,  # numbers that are kept up, which the last step fills
    14: _to_15,
    15: _tables_alone,  # course totals, which whoever wants the first one fills
}
