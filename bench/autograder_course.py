"""A course of any size on PostgreSQL, written by statements over whole tables.

    python bench/autograder_course.py URL --learners 50000

fills the empty database at URL: 16 labs, each handed in two or three times by every learner and
graded each time (2,000,000 gradings of 50,000 learners), marks, a log, requests, batches of
re-gradings. What the server keeps up with each grading is counted by the server's own lines for the
first learners, whom the others repeat. Notebooks are small, for lists and pages never read them.
"""

import argparse
import hashlib
import io
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import sqlalchemy as sa

from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.database import schema
from autograder.service.records.marks import NOTHING, alike_digest, answer_digest
from autograder.service.records.standings.standings import restand
from autograder.service.records.store import Store

LABS, VARIANTS, MOST_TRIES, MARKED_LABS, TIMED_LABS = 16, 8, 3, 14, 2
OFFSET = 100  # of learners' ids: staff stand before them
PENALTY = 0.25  # of a late day: exact in binary, as all scores here are
POINTS = 1.5  # of a mark
DAY_S, WEEK_S = 86_400, 7 * 86_400
PERIOD = (
    200  # so many learners on, another one does the same: all that `p` is divided by divides it
)
COMMENTS = ("Good.", "Name the unit.", "Why?", "See the text.", "Yes.", "Half of it.", "", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="of an empty PostgreSQL database")
    parser.add_argument("--learners", type=int, default=50_000)
    asked = parser.parse_args()
    began = time.monotonic()
    fill(asked.url, asked.learners)
    share = (time.monotonic() - began) / 120
    print(f"{asked.learners} learners are filled in: {share:.2f} of the goal's two minutes")


def lab_name(number: int) -> str:
    return f"{number:02}_lab"


def login(learner: int) -> str:
    """Return the login of a learner, 1 to the course's size."""
    return f"learner{learner:06}"


def token(person: str) -> str:
    """Return the bearer token of a login in this course; its key is its own."""
    digest = hashlib.sha256(person.encode()).hexdigest()
    key = "00000001" if person == "instructor" else f"{int(person[-6:]) + 0x1000:08x}"
    return f"{key}.{digest[:48]}"


def report_of(variant: int) -> Report:
    """Return what the checks found of one of the kinds of notebooks."""
    results = []
    for number, question in enumerate(("scale", "sum", "gradient")):
        for check in range(2):
            right = (variant >> number) % 2 == 0 or check == 0
            said = "" if right else f"the {question} of variant {variant} has another shape"
            outcome = Outcome.CORRECT if right else Outcome.INCORRECT
            points = 2.0 if right else 0.0
            timed = 1.0 if number == check == 0 else None
            name = f"{question}_{check}"
            results.append(
                CheckResult(name, question, outcome, points, 2.0, said, title=name, ratio=timed)
            )
    text = f"Because the loss of variant {variant} is a sum over rows." if variant else ""
    manual = (ManualAnswer("why", 2.0, (), text),)
    return replace(Report("lab", tuple(results), title="The lab"), manual=manual).with_totals()


def fill(url: str, learners: int, now: float | None = None, labs: int = LABS) -> None:
    """Fill the empty database at `url`; the answers of the last two labs wait to be marked."""
    store = Store(url)
    now = time.time() if now is None else now
    _add_person(store, "instructor", "instructor")
    store.close()
    values = {"learners": learners, "offset": OFFSET, "now": now, "variants": VARIANTS, **_NUMBERS}
    values |= {"labs": labs, "marked": labs - (LABS - MARKED_LABS)}
    with _connected(url) as cursor:
        dropped, later = _drop_indexes(cursor.execute)
        _copy(cursor.execute, "variants", _variants())
        _copy(cursor.execute, "variant_outcomes", _outcomes())
        for statement in _PEOPLE:
            cursor.execute(statement.format(**values))
        _copy_tokens(cursor, learners, now)
    _side_by_side(url, [statement.format(**values) for statement in _STATEMENTS])
    _side_by_side(url, [*dropped, _NEXT_NUMBERS])
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        connection.execute("ANALYZE submissions, answers, outcomes, marks, made")
    store = Store(url)
    with store.database.write() as counting:
        first = range(OFFSET + 1, OFFSET + 1 + min(PERIOD, learners))
        for lab in map(lab_name, range(labs)):
            restand(counting, lab, *first)
    store.close()
    with _connected(url) as cursor:
        for statement in _COPIES:
            cursor.execute(statement.format(**values))
    _side_by_side(url, later)
    tables = sorted(schema.metadata.tables, key=lambda name: name != "reports")  # the largest first
    _side_by_side(url, [f"VACUUM ANALYZE {table}" for table in tables], autocommit=True)


def _side_by_side(url: str, statements: list[str], *, autocommit: bool = False) -> None:
    """Run statements that do not need each other, two at a time."""

    def run(statement: str) -> None:
        with _connected(url, autocommit=autocommit) as cursor:
            cursor.execute(statement)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, statements))


@contextmanager
def _connected(url: str, *, autocommit: bool = False) -> Iterator[Any]:
    """Give a cursor for one transaction that looks at no foreign keys: they are right."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=autocommit) as connection:
        cursor = connection.cursor()
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("SET synchronize_seqscans = off")
        cursor.execute("SET work_mem = '512MB'")
        cursor.execute("SET maintenance_work_mem = '512MB'")
        yield cursor


def _add_person(store: Store, name: str, role: str) -> None:
    person = store.roster.find(name) or store.roster.add(name, role)
    store.roster.give_token(person, "bearer", token=token(name))


def _drop_indexes(run: Any) -> tuple[list[str], list[str]]:
    """Drop the indexes that are no keys; return the statements that make them again.

    Those of what is copied when the rest is there come second.
    """
    query = "SELECT indexname, indexdef, tablename FROM pg_indexes WHERE schemaname = 'public'"
    keys = "AND indexname NOT LIKE '%_pkey' AND indexdef NOT LIKE '%UNIQUE%'"
    rows = run(f"{query} {keys}").fetchall()
    for name, *_ in rows:
        run(f"DROP INDEX {name}")
    copied = ("standings", "pile", "best_times")
    return (
        [definition for _, definition, table in rows if table not in copied],
        [definition for _, definition, table in rows if table in copied],
    )


def _copy(run: Any, table: str, rows: list[dict[str, Any]]) -> None:
    """Make a table of these rows, all of one kind."""
    kinds = {bool: "boolean", int: "int", float: "float", str: "text"}
    columns = ", ".join(f'"{name}" {kinds[type(value)]}' for name, value in rows[0].items())
    run(f"CREATE UNLOGGED TABLE {table} ({columns})")
    names = ", ".join(f'"{name}"' for name in rows[0])
    marks = ", ".join(["%s"] * len(rows[0]))
    for row in rows:
        run(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def _variants() -> list[dict[str, Any]]:
    rows = []
    for variant in range(VARIANTS):
        report = report_of(variant)
        answer = report.manual[0]
        checks = [result for result in report.results if result.question == "scale"]
        rows.append(
            {
                "v": variant,
                "report": json.dumps(report.to_dict()),
                "score": report.score,
                "most": report.max_score,
                "digest": answer_digest(answer),
                "alike": alike_digest(answer.answer),
                "answered": answer_digest(answer) != NOTHING,
                "timed": all(result.outcome is Outcome.CORRECT for result in checks),
            }
        )
    return rows


def _outcomes() -> list[dict[str, Any]]:
    """Return which questions pass in each kind of notebook."""
    rows = []
    for variant in range(VARIANTS):
        results = report_of(variant).results
        for question in sorted({result.question for result in results}):
            mine = [r.outcome for r in results if r.question == question]
            right = all(outcome is Outcome.CORRECT for outcome in mine)
            rows.append({"v": variant, "question": question, "passed": right})
    return rows


def _copy_tokens(cursor: Any, learners: int, now: float) -> None:
    lines = io.StringIO()
    for learner in range(1, learners + 1):
        secret = token(login(learner))
        digest = hashlib.sha256(secret.encode()).hexdigest()
        row = (secret[:8], OFFSET + learner, "bearer", digest, now + 90 * DAY_S, now, "")
        lines.write("\t".join(map(str, row)) + "\n")
    columns = "key, person_id, kind, digest, expires_at, created_at, agent"
    with cursor.copy(f"COPY tokens ({columns}) FROM STDIN") as copy:
        copy.write(lines.getvalue())


_NUMBERS = {
    "period": PERIOD,
    "tries": MOST_TRIES,
    "timed": TIMED_LABS,
    "points": POINTS,
    "counts": 1 - PENALTY,
    "penalty": PENALTY,
    "week": WEEK_S,
    "day": DAY_S,
    "comments": len(COMMENTS),
    "said": ", ".join(f"'{comment}'" for comment in COMMENTS),
}

# `made` is a row a submission, in the order in which they came in: a lab a week, the last today.
# The third try of labs with an odd number came a day late.
_PEOPLE = (
    """INSERT INTO people (id, login, login_key, name, role, created_at, email, section)
    SELECT {offset} + p, 'learner' || lpad(p::text, 6, '0'), 'learner' || lpad(p::text, 6, '0'),
        'Name ' || (p * 7919) % {learners}, 'learner', {now}, 'learner' || p || '@example.org',
        'Section ' || lpad((p % greatest(1, {learners} / 500))::text, 3, '0')
    FROM generate_series(1, {learners}) p""",
    "INSERT INTO lines (person_id, served_at) SELECT id, 0 FROM people WHERE id > {offset}",
    """INSERT INTO lab_rules (lab, due, penalty_per_day, grace_minutes, solutions, leaderboard,
        held, requests_until)
    SELECT lpad(l::text, 2, '0') || '_lab', to_char(to_timestamp(floor(
            {now} - ({labs} - 1 - l) * {week} - CASE WHEN l % 2 = 1 THEN 1001 ELSE 0 END))
            AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
        {penalty}, 0, FALSE, l < {timed}, FALSE, '2099-01-01T00:00:00Z'
    FROM generate_series(0, {labs} - 1) l""",
    """INSERT INTO extensions SELECT lab_rules.lab, people.id, '2099-01-01T00:00:00Z'
    FROM people, lab_rules WHERE people.id % 50 = 0 AND lab_rules.lab = '02_lab'""",
    "INSERT INTO accommodations SELECT id, 1.5 FROM people WHERE id > {offset} AND id % 100 = 0",
    """CREATE UNLOGGED TABLE made AS
    SELECT row_number() OVER (ORDER BY l, k, p)::int AS id, {offset} + p AS p, k, n, l,
        lpad(l::text, 2, '0') || '_lab' AS lab, (p * 7 + l * 3 + k * 5) % {variants} AS v,
        CASE WHEN k = 3 AND l % 2 = 1 THEN {counts} ELSE 1.0 END::float AS share,
        CASE WHEN k = n AND l < {marked} AND p % 10 > 0 THEN p % {comments} ELSE -1 END AS comment,
        {now} - ({labs} - 1 - l) * {week} + (k - 3) * {day} * 0.9 - (p % 1000)::float AS at
    FROM generate_series(0, {labs} - 1) l, generate_series(1, {tries}) k,
        generate_series(1, {learners}) p, LATERAL (SELECT 2 + (p + l) % 2 AS n) tries
    WHERE k <= n""",
    """INSERT INTO regrades
    SELECT l, lab, NULL, {now}, CASE WHEN l = 1 THEN {now} END, count(*) FROM made
    WHERE l IN (1, 2) GROUP BY l, lab""",
)

# What needs nothing of each other, the longest first; each goes through `made` in its order.
_STATEMENTS = (
    "INSERT INTO reports SELECT id, report FROM made JOIN variants USING (v)",
    """INSERT INTO submissions (id, person_id, lab, sha256, size_bytes, blank, submitted_at, state,
        waiting_since, tries, kills, finished_at, grading_id, score, max_score, pending)
    SELECT id, p, lab, lpad(to_hex(id), 64, '0'), 64, FALSE, at, 'graded', at, 0, 0, at + 5, id,
        score + CASE WHEN comment >= 0 THEN {points} ELSE 0 END, most,
        CASE WHEN answered AND comment < 0 THEN 1 ELSE 0 END
    FROM made JOIN variants USING (v)""",
    """INSERT INTO outcomes SELECT id, question, passed
    FROM made JOIN variant_outcomes USING (v)""",
    """INSERT INTO marks (id, submission_id, question, answer_sha256, points, items, comment,
        marked_by, marked_at)
    SELECT row_number() OVER (ORDER BY id), id, 'why', digest, {points}, '[]',
        (ARRAY[{said}])[comment + 1], 1, at + 100
    FROM made JOIN variants USING (v) WHERE comment >= 0 ORDER BY id;
    INSERT INTO audit_log (id, at, who, action, subject, before, after)
    SELECT id, marked_at, 'instructor', 'mark', 'submission ' || submission_id || ': why',
        '{{"points": null}}', '{{"points": {points}}}' FROM marks ORDER BY id""",
    """INSERT INTO notebooks SELECT id, convert_to(rpad(id::text, 64), 'UTF8') FROM made""",
    """INSERT INTO answers (grading_id, question, answer_sha256, alike)
    SELECT id, 'why', digest, alike FROM made JOIN variants USING (v)""",
    """INSERT INTO gradings SELECT id, id, at + 5, score, most - 2
    FROM made JOIN variants USING (v)""",
    """INSERT INTO timings SELECT id, 'scale', (50 + (p * k * 31) % {period}) / 100.0::float
    FROM made JOIN variants USING (v) WHERE l < {timed} AND variants.timed""",
    """INSERT INTO drafts
        (batch, submission_id, open, grading_id, before, score, max_score, pending)
    SELECT l, id, FALSE, id, score + (id % 20 = 0)::int, score, most, 0
    FROM made JOIN variants USING (v) WHERE l IN (1, 2)""",
    """INSERT INTO regrade_requests
    SELECT row_number() OVER (ORDER BY id), id, 'why', p, lab, at + 200, p % 10 = 0
    FROM made WHERE k = n AND p % 100 < 11 AND l = 3;
    INSERT INTO regrade_messages
    SELECT id, id, person_id, asked_at, 'My answer names the unit in its second sentence.'
    FROM regrade_requests""",
)

_NEXT_NUMBERS = """DO $$ DECLARE t text; BEGIN FOREACH t IN ARRAY ARRAY['people', 'submissions',
        'gradings', 'marks', 'audit_log', 'regrades', 'regrade_requests', 'regrade_messages'] LOOP
        EXECUTE format('SELECT setval(pg_get_serial_sequence(%L, ''id''), max(id)) FROM %I', t, t);
    END LOOP; END $$"""

# What the server keeps up is counted for the first learners, by the server's own lines; the others
# stand as the first one who did the same, with their own numbers and section.
_COPIES = (
    "CREATE INDEX made_by_person ON made (p, lab, k)",
    """CREATE UNLOGGED TABLE twins AS
    SELECT other.id AS p, other.section, first.id AS first, first.section AS first_section
    FROM people other JOIN people first
        ON first.id = {offset} + 1 + (other.id - {offset} - 1) % {period}
    WHERE other.id > {offset} + {period}""",
    """CREATE UNLOGGED TABLE stood AS
    SELECT standings.*, latest.k AS latest_k, best.k AS best_k FROM standings
    JOIN made latest ON latest.id = latest_id JOIN made best ON best.id = best_id""",
    "CREATE UNLOGGED TABLE piled AS SELECT * FROM pile",
    """INSERT INTO standings (person_id, lab, things, checks, grading_id, latest_id, best_id, score)
    SELECT twins.p, stood.lab,
        replace(things, '"' || first_section || '"', '"' || section || '"'), checks,
        best.id, latest.id, best.id, score
    FROM twins JOIN stood ON person_id = first
        JOIN made latest ON (latest.p, latest.lab, latest.k) = (twins.p, stood.lab, latest_k)
        JOIN made best ON (best.p, best.lab, best.k) = (twins.p, stood.lab, best_k)""",
    """INSERT INTO pile
        (submission_id, question, lab, written, waits, section, alike, marked_by)
    SELECT standings.latest_id, question, piled.lab, written, waits, twins.section, alike, marked_by
    FROM piled JOIN stood ON stood.latest_id = submission_id JOIN twins ON first = stood.person_id
        JOIN standings ON (standings.person_id, standings.lab) = (twins.p, stood.lab)""",
    """INSERT INTO best_times (lab, question, person_id, ratio)
    SELECT lab, question, p, ratio FROM best_times JOIN twins ON first = person_id""",
    "INSERT INTO sums (person_id, score) SELECT p, score FROM sums JOIN twins ON first = person_id",
    "DELETE FROM counts",
    """INSERT INTO counts (kind, lab, question, words, number)
    SELECT thing ->> 0, lab, thing ->> 1, thing ->> 2, sum(number)
    FROM (SELECT lab, things, count(*) AS number FROM standings GROUP BY lab, things) kinds,
        json_array_elements(things::json) thing
    GROUP BY 1, 2, 3, 4""",
    "DROP TABLE made, variants, variant_outcomes, twins, stood, piled",
)


def size_bytes(url: str) -> dict[str, int]:
    """Return what the tables take, their indexes included, by name."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        return {
            name: connection.scalar(sa.text(f"SELECT pg_total_relation_size('{name}')")) or 0
            for name in schema.metadata.tables
        }


if __name__ == "__main__":
    main()
