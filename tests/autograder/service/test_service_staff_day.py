"""What staff run into in a day: each of these was once taken, dropped or shown without a word."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.web.page import render_markdown
from tests.autograder.service.asking import ask

DUE = "2031-03-01T12:00:00+01:00"


def notebook(*sources: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": s} for s in sources]}).encode()


def graded(running: Any, who: Connection, source: str, lab: str = "first") -> int:
    number = int(who.submit(lab, notebook(source))["id"])
    assert running.wait(number) == "graded"
    return number


# ---- answers that people mark


def test_nobody_has_to_mark_what_nobody_wrote_and_somebody_may(running: Any, browser: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    blank, full = graded(running, ada, "manual unwritten"), graded(running, bob, "manual")
    entries = [running.staff.submission(str(number)) for number in (blank, full)]
    assert [entry["pending"] for entry in entries] == [0, 1]
    assert [entry["max_score"] for entry in entries] == [6.0, 6.0]
    browser.log_in(running.staff.token)
    page = browser.get("/grading").text
    assert "1 of 1 answers wait" in page and "1 without an answer" in page
    assert "answer 1 of 1" in browser.get("/grading/01_first/why?blank=1").text.lower()
    path = f"/api/submissions/{blank}/marks"
    assert ask(running.staff, "PUT", path, {"why": {"points": 0.5}})[1]["score"] == 0.5
    assert "without an answer" not in browser.get("/grading").text


def test_a_rubrics_items_are_a_list_with_points(running: Any, browser: Any) -> None:
    number = graded(running, running.enroll("Ada"), "manual")
    browser.log_in(running.staff.token)
    page = browser.get("/grading/01_first/why").text
    assert page.count("data-points=") == 2 and 'data-points="1.5"' in page
    form = {"item1": "Says why", "points": "0.5", "comment": ""}
    assert browser.ask("POST", f"/grading/01_first/why?at={number}", form).status == 303
    (marked,) = running.server.course.store.submissions.report(number).manual
    assert (marked.score, marked.items) == (0.5, ("Says why",))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold** and `x < 1`", "<p><strong>bold</strong> and <code>x &lt; 1</code></p>"),
        ("- one\n- two", "<ul>\n<li>one</li>\n<li>two</li>\n</ul>"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("![x](https://spy.example/p.png)", "<p></p>"),
        ("[here](javascript:alert(1))", "here"),
        ("> - a\n> > b\n" * 1_000, "&gt; - a\n"),  # a level of the parser each
    ],
)
def test_an_answer_is_shown_as_it_was_written_and_nothing_of_it_runs(text: str, shown: str) -> None:
    html = str(render_markdown(text))
    assert shown in html
    assert not any(sign in html for sign in ("<script", "<img", "javascript:", "onerror="))


def test_a_notebook_with_nothing_in_it_costs_no_attempt(running: Any) -> None:
    ada = running.enroll("Ada")
    assert ask(running.staff, "PUT", "/api/labs/first", {"attempts": 1})[0] == 200
    for nothing in (b'{"cells": []}', notebook("", "  \n")):
        assert running.wait(int(ada.submit("first", nothing)["id"])) == "graded"
    (lab,) = [lab for lab in ada.labs() if lab["name"] == "01_first"]
    assert lab["attempts_left"] == 1
    graded(running, ada, "x = 1")
    with pytest.raises(ServerError, match="attempts are used"):
        ada.submit("first", notebook("x = 2"))


# ---- the roster


def test_a_roster_line_names_all_that_is_wrong_with_it(running: Any) -> None:
    found = running.staff.roster(b"login,email,role\nbad login!,nowhere,king\n", dry_run=True)
    (problem,) = found["problems"]
    for part in ("bad login!", "nowhere", "king"):
        assert part in problem["reason"]


def test_an_email_belongs_to_one_person(running: Any) -> None:
    roster = b"login,email\nada,a@b.example\nbob,A@b.example\ncy,c@b.example\n"
    found = running.staff.roster(roster, dry_run=False)
    assert found["added"] == 2
    assert [(p["line"], "'ada'" in p["reason"]) for p in found["problems"]] == [(3, True)]
    swapped = b"login,email\nada,c@b.example\ncy,a@b.example\n"
    assert running.staff.roster(swapped, dry_run=False)["problems"] == []
    late = running.staff.roster(b"login,email\ndi,c@b.example\n", dry_run=False)
    assert len(late["problems"]) == 1


# ---- exports


CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,first (7)
    Points Possible,,,,,
Ada,1,,ada,A,3
Stranger,2,,who,A,2
"""


def export(running: Any, capsys: Any, *options: str) -> tuple[int, str, str]:
    asked = ["export", "--server", running.staff.server, "--token", running.staff.token]
    status = main([*asked, *options])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_a_template_names_whom_it_could_not_fill_in(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ada, bob = running.enroll("ada"), running.enroll("bob")
    for learner in (ada, bob):
        graded(running, learner, "x = 1")
    (tmp_path / "canvas.csv").write_text(CANVAS)
    template = ("--format", "canvas", "--template", str(tmp_path / "canvas.csv"))
    status, out, said = export(running, capsys, *template)
    assert status == 1
    assert "Ada,1,,ada,A,4" in out and "Stranger,2,,who,A,2" in out
    assert "line 4: nobody here is 'who'" in said and "bob: has a score" in said
    (tmp_path / "canvas.csv").write_text(CANVAS.replace("Stranger,2,,who", "Bob,2,,bob"))
    assert export(running, capsys, *template)[::2] == (0, "")


def test_an_email_that_two_people_have_fills_in_nobody(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A database from before may have such a pair."""
    ada = running.enroll("ada")
    running.enroll("bob")
    graded(running, ada, "x = 1")
    with running.server.course.store.database.write() as connection:
        connection.exec_driver_sql("UPDATE people SET email = 'a@b.example'")
    (tmp_path / "moodle.csv").write_text("Email address,01_first\na@b.example,2\n")
    template = ("--format", "moodle", "--template", str(tmp_path / "moodle.csv"))
    status, out, said = export(running, capsys, *template)
    assert (status, out.splitlines()[1]) == (1, "a@b.example,2")
    assert "line 2: 'a@b.example' is that of ada and bob" in said


def test_a_score_that_is_not_final_does_not_go_out_as_if_it_were(
    running: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    number = graded(running, running.enroll("ada"), "manual x = 1")
    for format in ("canvas", "moodle"):
        status, out, said = export(running, capsys, "--format", format)
        assert status == 0 and out.splitlines()[-1].endswith(",")
        assert said == "export: ada: 01_first: not final, left out: 1 to be marked\n"
    status, out, said = export(running, capsys, "--format", "csv")
    assert (status, said) == (0, "") and ",4,6,graded," in out
    (entry,) = json.loads(export(running, capsys, "--format", "gradescope")[1])
    assert (entry["results"]["score"], entry["results"]["pending"]) == (4.0, 1)
    ask(running.staff, "PUT", f"/api/submissions/{number}/marks", {"why": {"points": 2}})
    _, out, said = export(running, capsys, "--format", "canvas")
    assert out.splitlines()[-1].endswith(",6") and said == ""


# ---- dates and batches


@pytest.mark.parametrize(
    ("rules", "due", "said"),
    [
        ({}, DUE, "no due date"),
        ({"due": DUE}, "2031-02-01T12:00:00+01:00", "expected a later time"),
        ({"due": DUE}, DUE, "expected a later time"),
    ],
)
def test_an_extension_that_extends_nothing_is_refused(
    running: Any, rules: dict[str, str], due: str, said: str
) -> None:
    running.enroll("ada")
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
    status, body = ask(running.staff, "PUT", "/api/labs/first/extensions/ada", {"due": due})
    assert status == 422 and said in body["detail"]
    assert ask(running.staff, "PUT", "/api/labs/first/extensions/ada", {"due": None})[0] == 200


def test_a_date_that_is_none_is_named_with_an_example(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    page = browser.ask("POST", "/labs/first/dates", {"due": "next week"})
    assert page.status == 422 and "This could not be read" in page.text
    for part in ("due", "next week", "2031-02-28T12:00:00+01:00"):
        assert part in page.text


def test_grading_again_while_a_batch_runs_joins_it(running: Any) -> None:
    graded(running, running.enroll("ada"), "x = 1")
    running.grader.out_of_order = "graders are away"
    path = "/api/labs/first/regrade"
    first = ask(running.staff, "POST", path)[1]["batch"]
    assert ask(running.staff, "POST", path) == (202, {"batch": first})
    status, body = ask(running.staff, "POST", f"{path}?question=scale")
    assert status == 409 and f"batch {first}" in body["detail"]


def test_the_body_of_a_regrade_is_read(running: Any) -> None:
    graded(running, running.enroll("ada"), "x = 1")
    path = "/api/labs/first/regrade"
    status, body = ask(running.staff, "POST", path, {"question": "nope"})
    assert status == 404 and "'nope'" in body["detail"]
    assert ask(running.staff, "POST", path, {"questions": ["scale"]})[0] == 422
    batch = ask(running.staff, "POST", path, {"question": "scale"})[1]["batch"]
    assert ask(running.staff, "GET", f"/api/regrades/{batch}")[1]["question"] == "scale"


def test_a_restore_that_is_refused_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "no-backup").write_bytes(b"nothing of the kind")
    data = tmp_path / "data"
    assert main(["restore", str(tmp_path / "no-backup"), "--data", str(data)]) == 2
    assert not data.exists() or list(data.iterdir()) == []


# ---- commands with nonsense in them


def test_a_login_that_has_another_role_is_told_what_replaces_its_token(running: Any) -> None:
    """`enroll instructor --renew` was answered: add --renew."""
    running.staff.send("POST", "staff", body={"name": "grace", "role": "assistant"})
    with pytest.raises(ServerError) as error:
        running.staff.enroll("grace", renew=True)
    assert str(error.value).endswith("say staff add grace --role assistant --renew.")
    running.enroll("ada")
    with pytest.raises(ServerError, match="a roster with the column role changes that"):
        running.staff.send("POST", "staff", body={"name": "ada", "role": "assistant"})
    with pytest.raises(ServerError, match="Add --renew to replace its token"):
        running.staff.enroll("ada")


def test_a_quotation_mark_that_nothing_closes_is_not_called_a_wrong_encoding(running: Any) -> None:
    torn = b'login,name\nada,"Ada\nbob,Bob\n'
    with pytest.raises(ServerError, match=r"no CSV: .*Look for a quotation mark") as error:
        running.staff.roster(torn)
    assert "UTF-8" not in str(error.value)
    with pytest.raises(ServerError, match=r"template is no CSV: .*quotation mark"):
        running.staff.export_to("canvas", io.BytesIO(), template=torn)
    with pytest.raises(ServerError, match="no CSV in UTF-8"):
        running.staff.roster(b"login\n\xff\n")


def test_an_empty_name_reaches_no_other_address(running: Any, capsys: Any) -> None:
    asked = ["--server", running.staff.server, "--token", running.staff.token]
    assert main(["roster", "remove", "", *asked]) == 2
    assert "roster: got an empty name" in capsys.readouterr().err
    assert main(["marking", "assign", "grace", *asked]) == 2
    assert "Say --lab, --question or --section." in capsys.readouterr().err
