"""A course of an older release is brought over whole: people, tokens, notebooks, grades, marks."""

import hashlib
import json
import re
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, ManualAnswer, Outcome, Report, RubricItem
from autograder.service.database import migrations, schema
from autograder.service.database.database import Database
from autograder.service.errors import Refused, StartError
from autograder.service.records.marking import marking
from autograder.service.records.marks import answer_digest
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store, existing, sqlite_url
from autograder.service.reports import gradebook
from autograder.service.tokens import digest, key_of, new_token

# As the releases made them.
LAYOUT_1, LAYOUT_2, LAYOUT_3 = (
    (Path(__file__).parent / f"layout_{number}.sql").read_text() for number in (1, 2, 3)
)

RESULT = CheckResult("twice", "scale", Outcome.CORRECT, 4.0, 4.0)
ANSWERS = (
    ManualAnswer("why", 2.0, "Gives a reason.", "Because.", 1.5, "Well said."),
    ManualAnswer("how", 1.0, "", "So."),
)
MARKED = Report("lab", (RESULT,), manual=ANSWERS, title="The lab", seed="42").with_totals()
FAILED = Report("lab", (), max_score=4.0, error="grading ended 2 times without a result.")
TOKEN, STAFF_TOKEN = new_token(), new_token()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the directory of a course of the first release."""
    connection = sqlite3.connect(tmp_path / "course.sqlite3")
    connection.executescript(LAYOUT_1)
    connection.execute("INSERT INTO facts VALUES ('schema', '1')")
    for number, (name, role) in enumerate(
        (("instructor", "staff"), ("Ada", "learner"), ("Zoë", "learner"), ("ada", "learner")), 1
    ):
        connection.execute("INSERT INTO people VALUES (?, ?, ?, 5.0)", (number, name, role))
    for person, token in ((1, STAFF_TOKEN), (2, TOKEN)):
        row = (key_of(token), person, "bearer", digest(token), None)
        connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?)", row)
    for number, (person, state, report) in enumerate(
        (
            (2, "graded", MARKED),
            (2, "failed", FAILED),
            (3, "stored", None),
            (3, "grading", MARKED),
            (4, "stored", FAILED),
        ),
        1,
    ):
        connection.execute(
            "INSERT INTO submissions VALUES (?, ?, 'lab', ?, ?, ?, ?, ?, 3, 1, ?, ?, ?, ?, ?, ?)",
            (
                *(number, person, book(number), hashlib.sha256(book(number)).hexdigest()),
                *(100.0 + number, state, "it died" if state == "failed" else None),
                *(("node/1", 900.0) if state == "grading" else (None, None)),
                200.0 + number if report else None,
                *((report.score, report.max_score) if report else (None, None)),
                json.dumps(report.to_dict()) if report else None,
            ),
        )
    connection.commit()
    connection.close()
    return tmp_path


def book(number: int) -> bytes:
    return f"notebook {number} ".encode() * 1000


@pytest.fixture
def store(data: Path) -> Any:
    opened = Store(sqlite_url(data), clock=lambda: 1000.0)
    yield opened
    opened.close()


def layout(path: Path) -> dict[str, Any]:
    """Return the tables with their columns and keys, and the indexes, in no order."""
    connection = sqlite3.connect(path / "course.sqlite3")
    tables = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    found: dict[str, Any] = {}
    for table in tables:
        columns = connection.execute(f"PRAGMA table_info({table})")
        # Name, type, whether it may be null, whether it is the key; not its place or default.
        found[table] = {(c[1], c[2], c[3], c[5]) for c in columns}
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type='index'")
    found["indexes"] = {(name, " ".join((sql or "").split())) for name, sql in indexes}
    return found


def test_the_layout_is_the_one_that_a_new_course_has(store: Store, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    Store(sqlite_url(tmp_path / "new")).close()
    assert layout(tmp_path) == layout(tmp_path / "new")


def test_notebooks_and_receipts_are_the_same_bytes(store: Store) -> None:
    assert [store.submissions.notebook(n) for n in range(1, 6)] == [book(n) for n in range(1, 6)]
    entry = store.submissions.get(1)
    assert entry and entry.sha256 == hashlib.sha256(book(1)).hexdigest()
    assert (entry.learner, entry.lab, entry.submitted_at) == ("Ada", "lab", 101.0)


def test_grades_marks_and_comments_come_over(store: Store) -> None:
    """Also of one that was being graded again when the old server stopped."""
    for number in (1, 4):
        entry, report = store.submissions.get(number), store.submissions.report(number)
        assert entry and report
        assert (entry.score, entry.max_score, entry.pending) == (5.5, 7.0, 1)
        assert report.manual == AS_ITEMS and report.results == (RESULT,)
        assert report.seed == "42"


def test_a_mark_that_came_over_survives_the_next_grading(store: Store) -> None:
    while claim := store.claims.claim("a", 10):
        fresh = Report("lab", (RESULT,), manual=tuple(ManualAnswer(*BARE[a]) for a in (0, 1)))
        store.claims.finish(claim.id, "a", fresh)
    entry = store.submissions.get(4)
    assert entry and (entry.state, entry.score) == ("graded", 5.5)


AS_ITEMS = tuple(
    replace(a, rubric=(RubricItem(a.points, a.rubric),) if a.rubric else ()) for a in ANSWERS
)
BARE = [(a.question, a.points, a.rubric, a.answer) for a in ANSWERS]


def test_what_waited_waits_and_what_had_failed_is_parked(store: Store) -> None:
    states = {entry.id: entry.state for entry in store.submissions.all()}
    assert states == {1: "graded", 2: "parked", 3: "stored", 4: "stored", 5: "stored"}
    failed = store.submissions.get(2)
    assert failed and (failed.score, failed.reason) == (None, "it died")
    assert store.submissions.report(5) is None
    order = []
    while claim := store.claims.claim("a", 10):
        order.append((claim.id, claim.tries))
        store.claims.park(claim.id, "a", "")
    assert sorted(order) == [(3, 0), (4, 0), (5, 0)]


def test_tokens_hold_and_those_of_learners_end(store: Store) -> None:
    ada, staff = store.roster.owner(TOKEN, "bearer"), store.roster.owner(STAFF_TOKEN, "bearer")
    assert ada and staff and (ada.login, ada.name, staff.role) == ("Ada", "Ada", "instructor")
    later = Store(str(store.database.engine.url), clock=lambda: 1000.0 + 365 * 86400)
    assert later.roster.owner(TOKEN, "bearer") is None
    assert later.roster.owner(STAFF_TOKEN, "bearer") is not None
    later.close()


def test_logins_that_differ_by_case_both_stay_and_find_their_own(store: Store) -> None:
    found = [store.roster.find(login) for login in ("Ada", "ada", "ZOË")]
    assert [person.id for person in found if person] == [2, 4, 3]


def test_a_step_that_is_cut_off_has_not_happened(data: Path) -> None:
    before = layout(data)
    connection = sqlite3.connect(data / "course.sqlite3")
    connection.execute("UPDATE submissions SET report = '{' WHERE id = 4")
    connection.commit()
    with pytest.raises(json.JSONDecodeError):
        Store(sqlite_url(data))
    assert layout(data) == before
    connection.execute("UPDATE submissions SET report = NULL WHERE id = 4")
    connection.commit()
    store = Store(sqlite_url(data))
    assert store.submissions.notebook(4) == book(4)
    store.close()


def test_reading_alone_changes_nothing_and_says_what_to_run(data: Path) -> None:
    before = layout(data)
    with pytest.raises(StartError, match="autograder migrate"), existing(data):
        pass
    assert layout(data) == before
    with existing(data, migrate=True), existing(data) as store:
        assert store.submissions.get(1)


def test_every_layout_up_to_todays_has_a_step() -> None:
    assert sorted(migrations._STEPS) == list(range(1, schema.VERSION))


def test_a_data_directory_may_have_any_name(tmp_path: Path) -> None:
    for name in ("a?b", "a%20b", "a#b"):
        data = tmp_path / name
        data.mkdir()
        Store(sqlite_url(data)).close()
        assert (data / "course.sqlite3").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"a?b", "a%20b", "a#b"}


@pytest.fixture
def of_layout_2(tmp_path: Path) -> Path:
    """Return the directory of a course of the second layout."""
    connection = sqlite3.connect(tmp_path / "course.sqlite3")
    connection.executescript(LAYOUT_2)
    answer = answer_digest(ANSWERS[0])
    connection.executescript(
        f"""INSERT INTO facts VALUES ('schema', '2');
        INSERT INTO people (id, login, login_key, name, role, created_at) VALUES
            (1, 'instructor', 'instructor', 'instructor', 'staff', 5),
            (2, 'Ada', 'ada', 'A', 'learner', 5);
        INSERT INTO tokens VALUES ('{key_of(TOKEN)}', 2, 'bearer', '{digest(TOKEN)}', NULL);
        INSERT INTO lines VALUES (2, 0, NULL);
        INSERT INTO submissions (id, person_id, lab, sha256, size_bytes, submitted_at, retry_key,
            state, waiting_since, tries, kills, grading_id, score, max_score, pending)
            VALUES (1, 2, 'lab', 'x', 9, 100, 'key', 'graded', 100, 0, 0, 1, 1.5, 3, 1);
        INSERT INTO notebooks VALUES (1, x'00');
        INSERT INTO gradings VALUES (1, 1, 200, 0, 0);
        INSERT INTO marks VALUES (1, 1, 'why', '{answer}', 1.5, 'Well.', 1, 300);"""
    )
    report = json.dumps(Report("lab", (), manual=ANSWERS).to_dict())
    connection.execute("INSERT INTO reports VALUES (1, ?)", (report,))
    connection.commit()
    connection.close()
    return tmp_path


def test_the_second_layout_comes_over_with_roles_marks_and_retry_keys(
    of_layout_2: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(sqlite_url(of_layout_2))
    ada = store.roster.owner(TOKEN, "bearer")
    staff = store.roster.find("instructor")
    assert ada and staff and (staff.role, ada.role) == ("instructor", "learner")
    report = store.submissions.report(1)
    assert report and report.manual[0].comment == "Well."
    store.submissions.mark(1, {"how": {"points": 1, "items": ["So."]}}, staff)
    entry = store.submissions.get(1)
    assert entry and (entry.score, entry.pending) == (2.5, 0)
    with pytest.raises(Refused, match="Idempotency-Key"):  # it is known
        store.submissions.add(ada, "lab", b"other", retry_key="key")
    store.close()
    new = tmp_path_factory.mktemp("new")
    Store(sqlite_url(new)).close()
    assert layout(of_layout_2) == layout(new)


@pytest.fixture
def of_layout_3(tmp_path: Path) -> Path:
    """Return the directory of a course of the third layout."""
    connection = sqlite3.connect(tmp_path / "course.sqlite3")
    connection.executescript(LAYOUT_3)
    connection.executescript(
        f"""INSERT INTO facts VALUES ('schema', '3');
        INSERT INTO people VALUES (1, 'instructor', 'instructor', 'I', 'instructor', 5, '', ''),
            (2, 'Ada', 'ada', 'A', 'learner', 5, 'ada@example.org', 'north');
        INSERT INTO tokens VALUES ('{key_of(TOKEN)}', 2, 'bearer', '{digest(TOKEN)}', NULL, 5, '');
        INSERT INTO lines VALUES (2, 0, NULL);
        INSERT INTO submissions (id, person_id, lab, sha256, size_bytes, submitted_at, state,
            waiting_since, tries, kills, grading_id, score, max_score, pending)
            VALUES (1, 2, 'lab', 'x', 9, 100, 'graded', 100, 0, 0, 1, 1.5, 3, 1);
        INSERT INTO retry_keys VALUES (2, 'key', 1);
        INSERT INTO notebooks VALUES (1, x'00');
        INSERT INTO gradings VALUES (1, 1, 200, 0, 0);
        INSERT INTO regrades VALUES (1, 'lab', NULL, 300, NULL);
        INSERT INTO drafts VALUES (1, 1, 1, NULL, 1.5, NULL, NULL, NULL);
        INSERT INTO lab_rules VALUES ('lab', NULL, NULL, NULL, 0.1, 3, 0);
        INSERT INTO audit_log VALUES (1, 5, 'instructor', 'role', 'Ada', NULL, '"learner"');"""
    )
    report = json.dumps(Report("lab", (), manual=ANSWERS[1:]).to_dict())
    connection.execute("INSERT INTO reports VALUES (1, ?)", (report,))
    connection.commit()
    connection.close()
    return tmp_path


def test_the_third_layout_comes_over(
    of_layout_3: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = Store(sqlite_url(of_layout_3))
    ada = store.roster.owner(TOKEN, "bearer")
    assert ada and (ada.name, ada.section) == ("A", "north")
    assert marking.list_piles(store.database) == [marking.Pile("lab", "how", 1, 1, 0)]
    rules = store.dates.calendar().rules["lab"]
    assert (rules.attempts, rules.leaderboard, rules.solutions) == (3, False, False)
    store.close()
    new = tmp_path_factory.mktemp("new")
    Store(sqlite_url(new)).close()
    assert layout(of_layout_3) == layout(new)


def test_the_key_of_a_course_is_its_own_and_stays(
    of_layout_3: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whether the course is new or was brought over."""
    keys, new = set(), sqlite_url(tmp_path_factory.mktemp("new"))
    for url in (sqlite_url(of_layout_3), sqlite_url(of_layout_3), new, new):
        store = Store(url)
        keys.add(store.cookie_key)
        store.close()
    assert len(keys) == 2 and all(len(key) == 64 for key in keys)


def moved(data: Path, script: str, url: str) -> None:
    """Put the course in `data` into an empty database of PostgreSQL, in its own layout."""
    for ours, theirs in (
        ("BLOB", "BYTEA"),
        ("    id INTEGER", "    id SERIAL"),
        (r"\bFLOAT", "FLOAT8"),
    ):
        script = re.sub(ours, theirs, script)
    here, there = Database(sqlite_url(data)), Database(url)
    with there.write() as connection:
        for statement in filter(str.strip, script.split(";")):
            connection.exec_driver_sql(statement)
        tables = sa.MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            rows = contents(here, table)
            if rows:
                connection.execute(table.insert(), rows)
            if "id" in table.c:
                last = sa.func.coalesce(sa.func.max(table.c.id), 0) + 1
                start = sa.func.setval(
                    f"{table.name}_id_seq", sa.select(last).scalar_subquery(), False
                )
                connection.execute(sa.select(start))
    here.close()
    there.close()


def contents(database: Database, table: sa.Table) -> list[dict[str, Any]]:
    with database.read() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_on_postgresql_a_course_comes_over_as_on_sqlite(
    number: int, request: pytest.FixtureRequest, make_postgres: Any
) -> None:
    """Every row of every table, in the layout of a new course; and what is added gets a new id."""
    data = request.getfixturevalue(("data", "of_layout_2", "of_layout_3")[number - 1])
    url, new = make_postgres(), make_postgres()
    moved(data, (LAYOUT_1, LAYOUT_2, LAYOUT_3)[number - 1], url)
    stores = [Store(x, clock=lambda: 1000.0) for x in (sqlite_url(data), url, new)]
    for table in schema.metadata.sorted_tables:
        rows = [contents(store.database, table) for store in stores[:2]]
        if table is schema.facts:
            rows = [[r for r in found if r["name"] != schema.COOKIE_KEY] for found in rows]
        assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1])), table.name
        shapes = [described(store, table.name) for store in stores[1:]]
        assert shapes[0] == shapes[1], table.name
    person = stores[1].roster.add("new", "learner")
    receipt = stores[1].submissions.add(person, "lab", b"{}")
    claim = stores[1].claims.claim("a", 10)
    while claim and claim.id != receipt.id:
        claim = stores[1].claims.claim("a", 10)
    assert claim and stores[1].claims.finish(claim.id, "a", MARKED)
    for store in stores:
        store.close()


def test_a_course_of_layout_7_gets_room_for_drafts(database_url: Any) -> None:
    store = Store(database_url)
    staff, ada = store.roster.add("grace", "instructor"), store.roster.add("ada", "learner")
    receipt = store.submissions.add(ada, "lab", book(1))
    facts, drafts = schema.facts, schema.learner_drafts
    with store.database.write() as connection:
        drafts.drop(connection)
        version = facts.update().where(facts.c.name == "schema")
        connection.execute(version.values(value="7"))
    store.close()
    with pytest.raises(StartError, match="got version 7"):
        Store(database_url, migrate=False)
    store = Store(database_url)
    assert store.submissions.notebook(receipt.id) == book(1)
    store.dates.set_rules("lab", Rules(attempts=1), staff)
    with pytest.raises(Refused, match="kept as your draft"):
        store.submissions.add(ada, "lab", book(2))
    assert [row["notebook"] for row in contents(store.database, drafts)] == [book(2)]
    store.close()


def test_a_course_of_layout_12_holds_no_grades_back(database_url: Any) -> None:
    store = Store(database_url)
    staff, rules = store.roster.add("grace", "instructor"), Rules(attempts=3, leaderboard=True)
    store.dates.set_rules("lab", rules, staff)
    facts = schema.facts
    with store.database.write() as connection:
        connection.execute(sa.text("ALTER TABLE lab_rules DROP COLUMN held"))
        version = facts.update().where(facts.c.name == "schema")
        connection.execute(version.values(value="12"))
    store.close()
    store = Store(database_url)
    assert store.dates.calendar().rules == {"lab": rules}
    store.close()


def test_a_course_of_layout_14_learns_which_answers_are_alike_and_who_marked(
    database_url: Any,
) -> None:
    store = Store(database_url)
    staff = store.roster.add("grace", "instructor")
    for n, text in enumerate(("Two.", "two", "Two")):
        store.submissions.add(store.roster.add(f"L{n}", "learner"), "lab", book(n))
        claim = store.claims.claim("a", 10)
        answer = ManualAnswer("why", 2.0, (), text)
        assert claim and store.claims.finish(claim.id, "a", Report("lab", (), manual=(answer,)))
    store.submissions.mark(3, {"why": {"points": 1}}, staff)
    before = [_sorted(store, table) for table in (schema.pile, schema.answers)]
    for rows in before:
        rows[2]["alike"] = ""  # nobody has to mark it
    with store.database.write() as connection:
        connection.execute(sa.text("DROP TABLE pile"))
        old = [c for c in schema.pile.c if c.name not in ("section", "alike", "marked_by")]
        copies = (sa.Column(c.name, c.type, primary_key=c.primary_key) for c in old)
        sa.Table("pile", sa.MetaData(), *copies).create(connection)
        connection.execute(sa.text("ALTER TABLE answers DROP COLUMN alike"))
        for table in (schema.assignments, schema.kept_comments, schema.second_marks):
            table.drop(connection)
        facts = schema.facts.update().where(schema.facts.c.name == "schema")
        connection.execute(facts.values(value="14"))
    store.close()
    store = Store(database_url)
    assert [_sorted(store, table) for table in (schema.pile, schema.answers)] == before
    assert [g.number for g in marking.groups(store.submissions, "lab", "why")] == [2]
    store.close()


def test_a_course_of_layout_15_works_out_everybodys_course_total(database_url: Any) -> None:
    store = Store(database_url)
    for login, points in (("ada", 1.0), ("bob", 0.0), ("eve", 2.0), ("zoe", None)):
        person = store.roster.add(login, "learner")
        if points is not None:
            store.submissions.add(person, "lab", login.encode())
            claim = store.claims.claim("a", 10)
            result = replace(RESULT, score=points)
            assert claim
            store.claims.finish(claim.id, "a", Report("lab", (result,)).with_totals())
    with store.database.write() as connection:
        for table in (schema.course_totals, schema.stale_totals, schema.totals_basis):
            table.drop(connection)
        facts = schema.facts.update().where(schema.facts.c.name == "schema")
        connection.execute(facts.values(value="15"))
    store.close()
    store = Store(database_url)
    page = gradebook.page(store.submissions, gradebook.Asked(sort="-course"))
    assert [row.person.login for row in page.rows] == ["eve", "ada", "bob", "zoe"]
    store.close()


def _sorted(store: Store, table: sa.Table) -> list[dict[str, Any]]:
    return sorted(contents(store.database, table), key=lambda row: next(iter(row.values())))


def described(store: Store, table: str) -> Any:
    """Return what PostgreSQL says of a table; not defaults, places, or names that it gave."""
    found = sa.inspect(store.database.engine)
    columns = {(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(table)}
    keys = {
        (tuple(k["constrained_columns"]), k["referred_table"])
        for k in found.get_foreign_keys(table)
    }
    indexes = {
        (not i["name"].endswith("_key") and i["name"], *i["column_names"], i["unique"])
        for i in found.get_indexes(table)
    }
    return columns, found.get_pk_constraint(table)["constrained_columns"], keys, indexes


def test_of_servers_that_start_at_once_one_makes_the_tables(database_url: Any) -> None:
    together, errors = threading.Barrier(4), []

    def start() -> None:
        together.wait()
        try:
            Store(database_url).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
