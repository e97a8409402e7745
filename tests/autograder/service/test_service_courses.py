"""Several courses on one server: apart in everything but the machine, and right below a path."""

import json
import re
import shutil
import threading
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.database.backups import backup
from autograder.service.errors import ServerError, StartError
from autograder.service.grading.queue import Queue
from autograder.service.records.store import Store, sqlite_url
from autograder.service.records.terms.plans import plan_of
from autograder.service.running import courses
from tests.browser.test_browser_server import FIRST, LAB, PLATFORM, SECOND, fill

CELL = b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}'
ML = "/courses/ml"


def add(data: Path, name: str, *more: str) -> None:
    assert main(["courses", "add", name, "--data", str(data), *more]) == 0


def staff_of(running: Any, name: str) -> Connection:
    token = courses.folder(running.server.course.settings.data, name) / "instructor.token"
    return Connection(f"{running.staff.server}/courses/{name}", token.read_text().strip())


def enrolled(staff: Connection, name: str) -> Connection:
    return Connection(staff.server, staff.enroll(name)["token"])


def graded(learner: Connection, number: int) -> dict[str, Any]:
    """Return a submission once it is graded."""
    waiting = threading.Event()
    while (found := learner.submission(str(number)))["state"] != "graded":
        waiting.wait(0.01)
    return found


def leaving(text: str, root: str) -> list[str]:
    """Return the addresses of a page on this server that are outside of `root`."""
    return [link for link in links(text) if not link.startswith((f"{root}/", "#", "?"))]


def links(text: str) -> list[str]:
    named = r"""\b(?:href|src|action|data-live)\s*=\s*["']([^"']*)"""
    quoted = re.findall(rf"""{named}|; url=([^"']*)""", text)
    return [(one or other).replace("&amp;", "&") for one, other in quoted]


@pytest.fixture(params=["sqlite", "postgresql"])
def several(request: pytest.FixtureRequest, settings: Any, start: Any) -> Any:
    """Return a server of the courses "art" and "ml", and the one at `/`."""
    postgres = request.param == "postgresql"
    url = request.getfixturevalue("make_postgres")() if postgres else ""
    with of_courses(settings, start, url) as running:
        yield running


@pytest.fixture
def in_files(settings: Any, start: Any) -> Any:
    """Return the same for what asks no database of its own."""
    with of_courses(settings, start, "") as running:
        yield running


def of_courses(settings: Any, start: Any, url: str) -> Any:
    for name in ("art", "ml"):
        add(settings.data, name, "--title", name.title(), "--database", url)
    return start(database_url=url)


def test_courses_know_nothing_of_each_other(several: Any, browse: Any) -> None:
    art, ml, first = staff_of(several, "art"), staff_of(several, "ml"), several.staff
    learners = {name: enrolled(staff, "Ada") for name, staff in (("ml", ml), ("art", art))}
    receipt = learners["ml"].submit("first", CELL)
    assert receipt["url"] == f"{ml.server}/submissions/1"
    assert graded(learners["ml"], 1)["lab"] == "01_first"
    for learner in (learners["art"], enrolled(first, "Ada")):
        with pytest.raises(ServerError, match="none of that number"):
            learner.submission("1")
    for server in (art.server, first.server):
        for stranger in (ml, learners["ml"]):
            with pytest.raises(ServerError, match="not known here") as refused:
                Connection(server, stranger.token).labs()
            assert refused.value.status == 401
    for path in ("/login", f"{ML}/login"):
        page = browse(first.server).ask("POST", path, {"token": learners["art"].token})
        assert "Each course of this server knows its own people alone." in page.text
    assert [len(staff.text("export", format="csv").splitlines()) for staff in (ml, art, first)] == [
        2,
        1,
        1,
    ]
    ml.send("PUT", "labs", "first", "held", body={"held": True})
    store = several.server.course.others["art"].store
    with store.database.read() as connection:
        log = connection.exec_driver_sql("SELECT action FROM audit_log").scalars().all()
    assert not any("held" in action or "date" in action for action in log)


def test_addresses_that_leave_the_server_lead_back_to_the_course(
    in_files: Any, tmp_path: Path, capsys: Any
) -> None:
    ml = staff_of(in_files, "ml")
    ada = enrolled(ml, "ada")
    (tmp_path / "lab.ipynb").write_bytes(CELL)
    where = ["--server", f"{ml.server}/", "--token", ada.token]
    assert main(["submit", "first", str(tmp_path / "lab.ipynb"), *where]) == 0
    assert f"{ml.server}/submissions/1\n" in capsys.readouterr().out
    assert ada.page("/labs").startswith(f"{ml.server}/enter?code=")
    dates = b"lab,due\n01_first,2031-02-28T23:59:00+01:00\n"
    ml.send("PUT", "schedule", body=dates, dry_run=False)["changes"]
    assert re.search(r"UID:01_first-\w+@ml\.", ada.text("calendar"))
    (link,) = ml.send("POST", "tokens", body={"kind": "link"})["people"]
    assert link["link"].startswith(f"{ml.server}/enter?code=")
    request = urllib.request.Request(f"{ml.server}/openapi.json")
    request.add_header("Authorization", f"Bearer {ml.token}")
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["servers"] == [{"url": ML}]


def test_a_term_is_taken_from_one_course_of_a_backup(several: Any, tmp_path: Path) -> None:
    for name, due in (("art", "2031-02-28"), ("ml", "2031-03-31")):
        dates = f"lab,due\n01_first,{due}T12:00:00+02:00\n"
        staff_of(several, name).send("PUT", "schedule", body=dates.encode(), dry_run=False)[
            "changes"
        ]
    settings = several.server.course.settings
    backup(settings.data, tmp_path / "all", settings.database_url)
    labs = [plan_of(tmp_path / "all", name)["labs"] for name in ("art", "ml", "")]
    assert [lab["due"][:10] for lab in (labs[0]["01_first"], labs[1]["01_first"])] == [
        "2031-02-28", "2031-03-31",
    ]  # fmt: skip
    assert labs[2] == {}
    with pytest.raises(StartError, match=r"has no course 'none'\. Check --of"):
        plan_of(tmp_path / "all", "none")


def test_one_browser_is_logged_in_to_several_courses(in_files: Any, browse: Any) -> None:
    browser, cookies = browse(in_files.staff.server), []
    for name in ("ml", "art"):
        token = staff_of(in_files, name).token
        form = {"token": token, "next": "/labs?x=1"}
        answer = browser.ask("POST", f"/courses/{name}/login", form)
        assert answer.status == 303
        assert answer.getheader("Location") == f"/courses/{name}/labs?x=1"
        assert f"Path=/courses/{name}/;" in answer.getheader("Set-Cookie")
        cookies.append(browser.cookie)
    browser.cookie = "; ".join([*cookies, "course_session=of the first"])
    for name in ("ml", "art"):
        assert browser.get(f"/courses/{name}/gradebook").status == 200
    assert browser.get("/gradebook").getheader("Location") == "/login?next=/gradebook"
    out = browser.ask("POST", f"{ML}/logout", {})
    assert out.getheader("Location") == f"{ML}/login"
    browser.cookie = "; ".join(cookies)
    assert browser.get(f"{ML}/labs").getheader("Location") == f"{ML}/login?next=/labs"
    assert browser.get("/courses/art/labs").status == 200


def test_the_root_lists_courses_and_an_unknown_one_is_404(in_files: Any, browse: Any) -> None:
    browser = browse(in_files.staff.server)
    assert re.findall(r'card"><a href="([^"]*)">(\w+)', browser.get("/").text) == [
        ("/courses/art/", "Art"),
        ("/courses/ml/", "Ml"),
    ]
    in_files.enroll("ada")
    assert 'href="/submissions">Course</a>' in browser.get("/").text
    assert browser.get("/courses").getheader("Location") == "/"
    assert browser.get(ML).getheader("Location") == f"{ML}/"
    for path in ("/courses/none", "/courses/none/labs", "/courses/ML/"):
        answer = browser.get(path)
        assert answer.status == 404 and "there is no course" in answer.text
    unknown = Connection(f"{in_files.staff.server}/courses/none", in_files.staff.token)
    with pytest.raises(ServerError, match=r"^submit: there is no course 'none' on this server\.$"):
        unknown.submit("first", CELL)
    assert "Not Found" in browser.get(f"{ML}/nowhere").text


def test_health_and_metrics_tell_courses_apart(in_files: Any) -> None:
    def get(path: str) -> str:
        with urllib.request.urlopen(in_files.staff.server + path) as answer:
            return str(answer.read().decode())

    ada = enrolled(staff_of(in_files, "ml"), "ada")
    in_files.grader.out_of_order = "no memory"
    ada.submit("first", CELL)
    waiting = threading.Event()
    while json.loads(get("/healthz"))["status"] != "paused":
        waiting.wait(0.01)
    assert json.loads(get("/healthz"))["reason"].startswith("ml: 01_first: ")
    assert json.loads(get("/courses/art/healthz"))["status"] == "ok"
    told = get("/metrics")
    assert "course_queue_paused 0.0\n" in told
    assert 'course_queue_paused{course="ml"} 1.0\n' in told
    assert told.count("# TYPE course_queue_paused") == 1
    assert re.search(r'course_requests_total\{course="ml",.*route="/api/submissions".*\} 1.0', told)
    assert 'course="' not in get(f"{ML}/metrics")
    in_files.grader.out_of_order = ""


def test_a_rush_in_one_course_does_not_hold_up_another(tmp_path: Path, grader: Any) -> None:
    queues = []
    for name, count in (("rush", 6), ("calm", 2)):
        store = Store(f"sqlite:///{tmp_path / name}")
        for n in range(count):
            store.submissions.add(store.roster.add(f"l{n}", "learner"), "lab", name.encode())
        how: dict[str, Any] = {"owner": "node/1", "solution": lambda _: b"x = 1"}
        queues.append((store, Queue(store.claims, lambda: grader, workers=len(queues) < 1, **how)))
    (rush_store, rush), (calm_store, calm) = queues
    rush.start([calm])
    waiting = threading.Event()
    while len(grader.graded) < 8:
        waiting.wait(0.01)
    rush.stop()
    assert grader.graded[:4].count("calm") == 2
    for store in (rush_store, calm_store):
        assert store.claims.waiting().waiting == 0
        store.close()


@pytest.fixture
def filled(settings: Any, start: Any, tmp_path: Path) -> Any:
    """Return a server whose course "ml" has one of everything that a page can show."""
    labs = tmp_path / "of_ml"
    for name in (FIRST, SECOND):
        (labs / name).mkdir(parents=True)
        (labs / name / "lab.py").write_text(LAB)
        (labs / name / "checks.py").write_text("")
    (tmp_path / "lti.toml").write_text(PLATFORM)
    lti = str(tmp_path / "lti.toml")
    add(settings.data, "ml", "--title", "ML <systems>", "--labs", str(labs), "--lti", lti)
    with start(workers=1) as running:
        busy = enrolled(running.staff, "zoe").submit("first", CELL.replace(b"x = 1", b"wait"))
        assert busy and running.grader.entered.wait(30)  # so it takes nothing that is filled in
        course = running.server.course.others["ml"]
        fill(course)
        running.grader.out_of_order = "nobody grades"
        running.grader.gate.set()
        text = "[Dates](/labs) [away](https://example.org/)"
        staff_of(running, "ml").send("POST", "announcements", body={"text": text})["id"]
        yield running


@pytest.mark.parametrize("login", ["instructor", "learner00", "learner23"])
def test_no_link_of_a_course_leaves_it(filled: Any, browse: Any, login: str) -> None:
    roster = filled.server.course.others["ml"].store.roster
    browser = browse(filled.staff.server)
    token = roster.give_token(roster.find(login), "bearer", lives_s=600)
    assert browser.ask("POST", f"{ML}/login", {"token": token}).status == 303
    todo, seen, problems = [f"{ML}/"], set(), []
    while todo:
        path = todo.pop()
        answer = browser.get(path)
        if answer.status == 303:
            todo.append(answer.getheader("Location"))
        elif answer.status != 200:
            problems.append(f"{path}: {answer.status}")
        elif "html" in answer.getheader("Content-Type"):
            found = links(answer.text)
            forms = set(re.findall(r'method="post" action="([^"]*)"', answer.text))
            outside = [link for link in leaving(answer.text, ML) if link != "https://example.org/"]
            problems += [f"{path}: {link}" for link in outside]
            inside = [link.partition("#")[0] for link in found if link not in forms]
            for link in inside:
                kind = re.sub(r"\d+", "N", link)  # one learner's page is as another's
                if link.startswith(f"{ML}/") and kind not in seen:
                    seen.add(kind)
                    todo.append(link)
    assert problems == []
    news = f'<a href="{ML}/labs" rel="noopener noreferrer">Dates</a>'
    assert news in browser.get(f"{ML}/announcements").text
    assert len(seen) > (30 if login == "instructor" else 8)


def test_a_platform_launches_a_course_below_its_path(filled: Any, browse: Any) -> None:
    hint = "iss=https://canvas.example&login_hint=1"
    away = browse(filled.staff.server).get(f"{ML}/lti/login?{hint}")
    target = urlsplit(away.getheader("Location"))
    assert target.path == "/authorize"
    returns = parse_qs(target.query)["redirect_uri"]
    assert returns == [f"{filled.staff.server}{ML}/lti/launch"]
    assert f"Path={ML}/lti;" in away.getheader("Set-Cookie")
    assert browse(filled.staff.server).get(f"/lti/login?{hint}").status == 404


@pytest.mark.parametrize("specimen", ["/labs", "/courses/mlx/labs", "https://elsewhere/", ""])
def test_a_link_that_leaves_the_course_is_found(specimen: str) -> None:
    for place in (
        f'<a href="{specimen}">',
        f"<a href='{specimen}'>",
        f'<meta content="0; url={specimen}">',
    ):
        assert leaving(place, ML) == [specimen]
    assert leaving(f'<form action="{ML}/labs"><a href="#x">', ML) == []


def test_names_that_are_none_are_refused(tmp_path: Path, capsys: Any) -> None:
    data = tmp_path / "data"
    add(data, "ml")
    asked: tuple[tuple[tuple[str, ...], str], ...] = (
        (("ml",), "already"),
        (("ML",), "got 'ML', expected a small letter"),
        (("../x",), "expected a small letter"),
        (("a" * 25,), "expected a small letter"),
        (("x", "--title", "a\nb"), "expected one line"),
        (("x", "--title", "a" * 201), "at most 200"),
        (("x", "--labs", str(tmp_path / "none")), "no labs directory"),
        (("x", "--lti", str(tmp_path / "none")), "lti: no file"),
    )
    capsys.readouterr()
    for arguments, problem in asked:
        assert main(["courses", "add", *arguments, "--data", str(data)]) == 2
        said = capsys.readouterr().err
        assert problem in said and said.count("\n") == 1
    for command in (["courses", "remove", "x"], ["export", "--course", "x"]):
        assert main([*command, "--data", str(data)]) == 2
        assert "got 'x': expected one of ml." in capsys.readouterr().err
    assert main(["courses", "list", "--data", str(data)]) == 0
    assert capsys.readouterr().out == "/courses/ml: ml. labs as at /\n"
    assert main(["courses", "list", "--data", str(tmp_path)]) == 2
    assert sorted(path.name for path in (data / "courses").iterdir()) == ["ml"]


def test_a_course_without_its_labs_says_which(settings: Any, start: Any, tmp_path: Path) -> None:
    (tmp_path / "gone" / "01_x").mkdir(parents=True)
    for name in ("lab.py", "checks.py"):
        (tmp_path / "gone" / "01_x" / name).write_text("")
    add(settings.data, "ml", "--labs", str(tmp_path / "gone"))
    (tmp_path / "gone").rename(tmp_path / "moved")
    with pytest.raises(StartError, match=r"^course ml: serve: no labs directory"), start():
        pass


def test_commands_work_on_one_course_of_several(several: Any, capsys: Any) -> None:
    settings = several.server.course.settings
    where = ["--data", str(settings.data), "--course", "ml"]
    database = ["--database", settings.database_url]
    enrolled(staff_of(several, "ml"), "ada")
    assert main(["migrate", "--data", str(settings.data), *database]) == 2  # it is served
    assert main(["person", "ada", "--remove", *where[:2], *database]) == 2
    assert "nobody is called 'ada'" in capsys.readouterr().err
    assert main(["person", "ada", "--remove", *where, *database]) == 0
    assert "ada is removed" in capsys.readouterr().out
    if not settings.database_url:
        assert main(["staff", "add", "grace", "--role", "assistant", *where]) == 0
        token = capsys.readouterr().out.split()[-1]
        assert Connection(staff_of(several, "ml").server, token).labs()
        assert main(["export", *where]) == 0


def test_backups_hold_all_courses(
    several: Any, tmp_path: Path, start: Any, make: Callable[[], str], capsys: Any
) -> None:
    settings = several.server.course.settings
    database = ["--database", settings.database_url] if settings.database_url else []
    ada = enrolled(staff_of(several, "ml"), "ada")
    ada.submit("first", CELL)
    several.enroll("bob").submit("first", CELL.replace(b"1", b"12"))
    copy = str(tmp_path / "copy")
    assert main(["backup", copy, "--data", str(settings.data), *database]) == 0
    other = tmp_path / "other"
    url = make() if database else ""
    more = ["--database", url] if url else []
    assert main(["restore", copy, "--data", str(other), *more]) == 0
    assert main(["migrate", "--data", str(other), *more]) == 0
    with start(data=other, database_url=url) as again:
        assert sorted(again.server.course.others) == ["art", "ml"]
        there = Connection(f"{again.staff.server}{ML}", ada.token)
        assert there.submission("1")["lab"] == "01_first"
        assert staff_of(again, "ml").labs()
    assert main(["restore", copy, "--data", str(other), *more]) == 2


@pytest.fixture
def make(request: pytest.FixtureRequest) -> Callable[[], str]:
    return lambda: request.getfixturevalue("make_postgres")()


def test_a_course_that_is_removed_is_kept(settings: Any, start: Any, capsys: Any) -> None:
    add(settings.data, "ml")
    with start() as running:
        ada = enrolled(staff_of(running, "ml"), "ada")
    assert main(["courses", "remove", "ml", "--data", str(settings.data)]) == 0
    with start() as running:
        assert running.server.course.others == {}
        gone = Connection(f"{running.staff.server}{ML}", ada.token)
        with pytest.raises(ServerError) as refused:
            gone.labs()
        assert refused.value.status == 404
    add(settings.data, "ml")
    with start() as running:
        assert Connection(f"{running.staff.server}{ML}", ada.token).labs()


def test_two_servers_serve_a_course_of_one_database(
    settings: Any, start: Any, make_postgres: Callable[[], str], tmp_path: Path
) -> None:
    url = make_postgres()
    add(settings.data, "ml", "--database", url)
    shutil.copytree(settings.data, tmp_path / "two")  # the tokens
    with start(database_url=url) as one, start(database_url=url, data=tmp_path / "two") as two:
        ada = enrolled(staff_of(one, "ml"), "ada")
        number = ada.submit("first", CELL)["id"]
        there = Connection(f"{two.staff.server}{ML}", ada.token)
        assert graded(there, number)["score"] == 4.0
        assert sum(len(each.grader.graded) for each in (one, two)) == 1
        assert staff_of(two, "ml").labs() == staff_of(one, "ml").labs()
        with pytest.raises(ServerError, match="not known here"):
            Connection(two.staff.server, ada.token).labs()


def test_a_course_at_the_root_is_as_it_was(running: Any, browse: Any) -> None:
    browser = browse(running.staff.server)
    assert browser.get("/").getheader("Location") == "/login?next=/"
    assert "Path=/;" in browser.log_in(running.staff.token).getheader("Set-Cookie")
    assert browser.get("/").getheader("Location") == "/today"
    with closing(Store(sqlite_url(running.server.course.settings.data))) as store:
        assert courses.entries(store.database) == []
