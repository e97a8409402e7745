"""The day of people who mark: groups, assignments, comments that are shared, samples, the keys."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.records.marks import alike_digest
from autograder.service.web.routes.marking import KEYS
from tests.autograder.service.asking import ask

WHY = "/api/grading/first/why"
LAB = """# %% [markdown] question="why" points="2" manual="true" rubric1="2: Names the unit"
# ## Why
#
# Say **why** it is doubled.
#
# ### BEGIN SOLUTION
# The factor is two.
# ### END SOLUTION
"""


def answered(running: Any, name: str, text: str) -> int:
    """Return the number of a graded submission in which a learner has answered."""
    cells = {"cells": [{"cell_type": "code", "source": f"manual: {text}"}]}
    number = int(running.enroll(name).submit("first", json.dumps(cells).encode())["id"])
    assert running.wait(number) == "graded"
    return number


def assistant(running: Any, login: str = "grace") -> Connection:
    made = running.staff.send("POST", "staff", body={"login": login, "role": "assistant"})
    return Connection(running.staff.server, made["token"])


def logged(running: Any) -> list[tuple[str, str, str]]:
    entries = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    return [(line["who"], line["action"], line["subject"]) for line in reversed(entries)]


def score(running: Any, number: int) -> Any:
    return running.staff.submission(str(number))["score"]


# ---- beside an answer


def test_question_and_model_answer_stand_beside_it(start: Any, labs: Path, browse: Any) -> None:
    with (labs / "01_first" / "lab.py").open("a") as file:
        file.write(LAB)
    with start() as running:
        answered(running, "Ada", "It is <b>two</b>.")
        desk = ask(running.staff, "GET", WHY)[1]
        assert desk["question_text"] == "## Why\n\nSay **why** it is doubled."
        assert desk["model_answer"] == "The factor is two."
        assert desk["answer"]["rubric"][0] == {"points": 1.5, "text": "Names the unit"}
        browser = browse(running.staff.server)
        browser.log_in(running.staff.token)
        page = browser.get("/grading/01_first/why").text
        assert "<strong>why</strong>" in page and "The factor is two." in page
        assert "&lt;b&gt;two" in page
        (labs / "01_first" / "lab.py").write_text('# %% question="why" points="x"')
        assert browser.get("/grading/01_first/why").status == 200  # the lab is being edited


# ---- groups


@pytest.mark.parametrize(
    ("left", "right", "alike"),
    [
        ("Because.", "  because\n", True),
        ("**O(n)**, so:\n`x`", "o(n) so x", True),
        ("x = -1", "x = 1", False),
        ("3.5", "35", False),
        ("a < b", "a > b", False),
        ("n!", "n", False),
        ("größer", "GRÖSSER", True),
        ("\ud800", "\ud800", True),
    ],
)
def test_what_makes_answers_alike(left: str, right: str, alike: bool) -> None:
    assert (alike_digest(left) == alike_digest(right)) is alike


def test_an_answer_without_a_word_is_like_no_other() -> None:
    assert alike_digest("") == alike_digest(" ** ") == ""


def test_a_group_is_marked_at_once_and_one_is_taken_out(running: Any, browser: Any) -> None:
    texts = ("It is two.", "it is TWO", "It is two.", "It is three.", "It is two")
    numbers = [answered(running, f"L{n}", text) for n, text in enumerate(texts)]
    (group,) = ask(running.staff, "GET", f"{WHY}/groups")[1]["groups"]
    assert (group["number"], group["text"]) == (4, "It is two.")
    path = f"/grading/01_first/why/groups/{group['alike']}"
    browser.log_in(assistant(running).token)
    page = browser.get(path).text
    assert [f'name="a{n}"' in page for n in numbers] == [True, True, True, False, True]
    form = {f"a{n}": "1" for n in (*numbers[:3], numbers[3])}  # the fourth is of no group
    form |= {"points": "1.5", "item0": "Names the unit", "comment": "Right."}
    assert browser.ask("POST", path, form).status == 303
    assert [score(running, n) for n in numbers] == [1.5, 1.5, 1.5, 0.0, 0.0]
    (mark,) = running.server.course.store.submissions.report(numbers[1]).manual
    assert (mark.items, mark.comment) == (("Names the unit",), "Right.")
    marked = [line for line in logged(running) if line[1] == "mark"]
    assert marked == [("grace", "mark", f"submission {n}: why") for n in numbers[:3]]
    assert ask(running.staff, "GET", f"{WHY}/groups")[1]["groups"] == []
    assert ask(running.staff, "GET", WHY)[1]["left"] == 2


def test_a_group_leaves_alone_what_is_marked_meanwhile(running: Any) -> None:
    numbers = [answered(running, f"L{n}", "Two.") for n in range(3)]
    alike = alike_digest("Two.")
    ask(running.staff, "PUT", f"/api/submissions/{numbers[0]}/marks", {"why": {"points": 2}})
    body = {"submissions": [*numbers, 99, 10**30], "mark": {"points": 1}}
    done = ask(running.staff, "POST", f"{WHY}/groups/{alike}", body)
    assert done == (200, {"marked": numbers[1:]})
    assert [score(running, n) for n in numbers] == [2.0, 1.0, 1.0]
    assert ask(running.staff, "POST", f"{WHY}/groups/{alike}", body)[1] == {"marked": []}


@pytest.fixture(scope="module")
def two(unmoved: Any) -> Any:
    """Return a server on which two have given one answer."""
    answered(unmoved, "Ada", "Two.")
    answered(unmoved, "Bob", "Two.")
    return unmoved


@pytest.mark.parametrize(
    "body",
    [
        {"submissions": [1], "mark": {"points": None}},
        {"submissions": [1], "mark": {"comment": "x"}},
        {"submissions": [1], "mark": {"points": 3}},
        {"submissions": [1], "mark": [1]},
        {"submissions": [], "mark": {"points": 1}},
        {"submissions": ["1"], "mark": {"points": 1}},
        {"submissions": list(range(1, 103)), "mark": {"points": 1}},
        {"submissions": 1, "mark": {"points": 1}},
        {"mark": {"points": 1}},
    ],
)
def test_what_marks_no_group_is_refused(two: Any, body: Any) -> None:
    path = f"{WHY}/groups/{alike_digest('Two.')}"
    assert ask(two.staff, "POST", path, body)[0] == 422
    assert ask(two.staff, "GET", WHY)[1]["left"] == 2
    assert ask(two.staff, "GET", f"{WHY}/groups/nonsense")[0] == 422


# ---- who marks what


def test_work_is_assigned_by_question_and_section_and_counted(
    running: Any, browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(5):
        answered(running, f"L{n}", f"It is {n}.")
    sections = "".join(f"L{n},{'AB'[n % 2]}\n" for n in range(5))
    assert running.staff.roster(f"login,section\n{sections}".encode())["changed"] == 5
    grace, hal = assistant(running), assistant(running, "hal")
    path, by_question = (
        "/api/grading/assignments",
        {"login": "hal", "lab": "first", "question": "why"},
    )
    assert ask(running.staff, "PUT", path, {"login": "grace", "section": "A"})[0] == 200
    assert ask(running.staff, "PUT", path, by_question)[1]["lab"] == "01_first"
    assert ask(running.staff, "PUT", path, by_question)[0] == 200  # twice is once
    assert ask(grace, "PUT", path, by_question)[0] == 403
    found = ask(grace, "GET", "/api/grading")[1]
    assert (found["mine"]["waiting"], found["mine"]["written"]) == (3, 3)
    browser.log_in(grace.token)
    page = browser.get("/grading").text
    assert "3 of 3 answers wait" in page and "?section=A" in page and "5 of 5 answers wait" in page
    assert "3 of 3 wait" in browser.get("/today").text
    walked = []
    at = ask(grace, "GET", f"{WHY}?section=A")[1]
    assert (at["total"], at["left"], at["place"]) == (3, 3, 1)
    way = f"/grading/01_first/why?section=A&at={at['submission']}"
    while way.startswith("/grading/01_first"):
        walked.append(int(re.findall("at=([0-9]+)", way)[0]))
        way = browser.ask("POST", way, {"points": "1"}).getheader("Location")
    assert walked == [1, 3, 5]
    markers = {m["login"]: m for m in ask(grace, "GET", "/api/grading")[1]["markers"]}
    assert [markers["grace"][k] for k in ("waiting", "written", "marked")] == [0, 3, 3]
    assert [markers["hal"][k] for k in ("waiting", "written", "marked")] == [2, 5, 0]
    assert "Nothing of what is assigned to you waits" in browser.get("/grading").text
    asked = ["--server", hal.server, "--token", hal.token]
    assert main(["marking", "list", *asked]) == 0
    said = capsys.readouterr().out
    assert "01_first: why: 2 of 5 answers wait" in said
    assert "hal: 2 of 5 answers wait, 0 marked: 01_first, why" in said
    assert main(["today", *asked]) == 0 and "my marking: 2 answers" in capsys.readouterr().out
    instructor = ["--server", hal.server, "--token", running.staff.token]
    assert (
        main(
            [
                "marking",
                "assign",
                "hal",
                "--lab",
                "first",
                "--question",
                "why",
                *instructor,
                "--remove",
            ]
        )
        == 0
    )
    assert "hal no longer marks" in capsys.readouterr().out
    assert ask(hal, "GET", "/api/grading")[1]["mine"]["assigned"] == []
    done = [line for line in logged(running) if "assign" in line[1]]
    assert [(who, what) for who, _, what in done] == [
        ("instructor", x) for x in ("grace", "hal", "hal")
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"login": "grace"}, 422),
        ({"login": "grace", "lab": 1}, 422),
        ({"login": "grace", "lab": "nowhere"}, 404),
        ({"login": "grace", "question": "nothing"}, 404),
        ({"login": "grace", "section": "Z"}, 404),
        ({"login": "Ada", "lab": "first"}, 422),
        ({"login": "nobody", "lab": "first"}, 404),
    ],
)
def test_what_is_no_assignment_is_refused(running: Any, body: Any, status: int) -> None:
    assistant(running)
    running.enroll("Ada")
    assert ask(running.staff, "PUT", "/api/grading/assignments", body)[0] == status
    gone = {"login": "grace", "lab": "first"}
    assert ask(running.staff, "DELETE", "/api/grading/assignments", gone)[0] == 404


# ---- comments


def test_a_comment_is_kept_for_an_item_and_counted_where_it_is_used(
    running: Any, browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [answered(running, f"L{n}", f"It is {n}.") for n in range(3)]
    grace, path = assistant(running), "/grading/01_first/why"
    browser.log_in(grace.token)
    form = {
        "points": "1",
        "comment": "Well begun.",
        "of0": "Names the unit",
        "new0": " No  unit: cm or m? ",
    }
    assert browser.ask("POST", f"{path}?at={numbers[0]}", form).status == 303
    (mark,) = running.server.course.store.submissions.report(numbers[0]).manual
    assert mark.comment == "Well begun.\nNo unit: cm or m?"
    (kept,) = ask(running.staff, "GET", f"{WHY}/comments")[1]["comments"]
    assert (kept["item"], kept["text"], kept["uses"]) == ("Names the unit", "No unit: cm or m?", 1)
    assert 'data-comment="No unit: cm or m?"' in browser.get(f"{path}?at={numbers[1]}").text
    mark = {"why": {"points": 1, "comment": "Hm.\nNo unit: cm or m?"}}
    for _ in range(2):  # saving the same comment again is no other use
        ask(running.staff, "PUT", f"/api/submissions/{numbers[1]}/marks", mark)
    assert ask(running.staff, "POST", f"{WHY}/comments", {"text": "Good."})[0] == 201
    assert ask(running.staff, "POST", f"{WHY}/comments", {"text": "Good."})[0] == 201
    found = ask(running.staff, "GET", f"{WHY}/comments")[1]["comments"]
    assert [(c["text"], c["uses"]) for c in found] == [("No unit: cm or m?", 2), ("Good.", 0)]
    asked = ["--server", grace.server, "--token", grace.token]
    assert main(["marking", "comments", "first", "why", *asked]) == 0
    assert capsys.readouterr().out.startswith("2 x Names the unit: No unit: cm or m?\n0 x ")
    assert "No unit" in browser.get(f"{path}/comments").text
    assert browser.ask("POST", f"{path}/comments/{kept['id']}").status == 303
    assert browser.ask("POST", f"{path}/comments/{kept['id']}").status == 404
    (other,) = ask(running.staff, "GET", f"{WHY}/comments")[1]["comments"]
    assert ask(running.staff, "DELETE", f"/api/grading/first/how/comments/{other['id']}")[0] == 404
    assert ask(running.staff, "DELETE", f"{WHY}/comments/{other['id']}")[0] == 204
    done = [line[:2] for line in logged(running) if "comment" in line[1]]
    assert done == [
        (who, f"{what} comment") for what in ("keep", "remove") for who in ("grace", "instructor")
    ]
    assert mark["why"]["comment"] in str(
        running.staff.submission(str(numbers[1]))["report"]["manual"][0]["comment"]
    )


@pytest.mark.parametrize(
    "body", [{}, {"text": " \0 "}, {"text": "x" * 501}, {"text": "x", "item": 1}]
)
def test_what_is_no_comment_is_refused(unmoved: Any, body: Any) -> None:
    assert ask(unmoved.staff, "POST", f"{WHY}/comments", body)[0] == 422
    assert ask(unmoved.staff, "GET", f"{WHY}/comments")[1]["comments"] == []


@pytest.mark.parametrize("where", ["the pile", "its own page"])
def test_a_mark_that_another_gave_meanwhile_is_not_replaced_unseen(
    running: Any, browse: Any, where: str
) -> None:
    number = answered(running, "Ada", "It is.")
    shown = path = f"/grading/01_first/why?at={number}"
    if where == "its own page":
        shown, path = f"/submissions/{number}", f"/submissions/{number}/manual"
    browsers = {}
    for who in (assistant(running), assistant(running, "hal")):
        browsers[who] = browse(who.server)
        browsers[who].log_in(who.token)
    forms = []
    for browser, points in zip(browsers.values(), ("2", "1"), strict=True):
        seen = re.findall('name="seen" value="([0-9a-f]+)"', browser.get(shown).text)[-1]
        mark = {"question": "why", "points": points, "score": points, "comment": ""}
        forms.append((browser, {"seen": seen, **mark}))
    (first, given), (second, stale) = forms
    assert first.ask("POST", path, given).status == 303
    assert first.ask("POST", path, given).status == 303  # the same once more is no other mark
    refused = second.ask("POST", path, stale)
    assert refused.status == 409 and "has 2 points" in refused.text
    assert score(running, number) == 2.0
    seen = re.findall('name="seen" value="([0-9a-f]+)"', second.get(shown).text)[-1]
    assert second.ask("POST", path, {**stale, "seen": seen}).status == 303
    assert score(running, number) == 1.0


# ---- a sample that two people mark


def test_a_sample_is_marked_twice_blind_and_staff_decide(
    running: Any, browse: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = [answered(running, f"L{n}", f"It is {n}.") for n in range(4)]
    grace, hal = assistant(running), assistant(running, "hal")
    assert ask(grace, "POST", f"{WHY}/sample", {"size": 3})[0] == 403
    assert ask(running.staff, "POST", f"{WHY}/sample", {"size": 3})[1] == {"drawn": 3}
    assert ask(running.staff, "POST", f"{WHY}/sample", {"size": 9})[1] == {"drawn": 1}
    theirs = browse(hal.server)
    theirs.log_in(hal.token)
    assert theirs.get("/grading/01_first/why?sample=1").getheader("Location").endswith("/sample")
    for number, points in zip(numbers[:3], (2, 1, 0.5), strict=True):
        body = {"why": {"points": points, "comment": "grace's own words"}}
        assert ask(grace, "PUT", f"/api/submissions/{number}/marks", body)[0] == 200
    # The first marker is asked for no second; the other sees nothing of the first.
    assert ask(grace, "GET", f"{WHY}?sample=1")[0] == 404
    assert "grace's" in browse_page(browse, grace, f"/grading/01_first/why?at={numbers[0]}")
    for path in ("?sample=1", f"?at={numbers[0]}"):
        page = theirs.get(f"/grading/01_first/why{path}").text
        assert "second mark" in page and "grace&#39;s" not in page and 'value="2"' not in page
    listed = {"lab": "01_first", "question": "why", "answers": 4, "undecided": 0}
    for who, yours in ((hal, 3), (grace, 0)):
        assert ask(who, "GET", "/api/grading")[1]["samples"] == [{**listed, "yours": yours}]
    assert "3 wait for your second mark" in theirs.get("/grading").text
    desk = ask(hal, "GET", f"{WHY}?sample=1")[1]
    assert (desk["second"], desk["total"], desk["left"]) == (True, 4, 3)
    assert desk["answer"]["score"] is None and desk["submission"] == numbers[0]
    form = {"second": "1", "points": "1", "comment": "hal's"}
    way = theirs.ask("POST", f"/grading/01_first/why?sample=1&at={numbers[0]}", form)
    assert way.getheader("Location").endswith(f"at={numbers[1]}")
    put = f"{WHY}/sample/{numbers[1]}"
    assert ask(hal, "PUT", put, {"points": 1})[0] == 200
    assert ask(hal, "PUT", put, {"points": 2})[0] == 409  # there is one
    assert ask(grace, "PUT", f"{WHY}/sample/{numbers[2]}", {"points": 2})[0] == 409  # their own
    assert ask(hal, "PUT", f"{WHY}/sample/{numbers[3]}", {"points": 2})[0] == 409  # has no first
    found = ask(grace, "GET", f"{WHY}/sample")[1]
    assert (found["sampled"], found["waiting"], found["mean_difference"]) == (4, 2, 0.5)
    assert [(p["submission_id"], p["difference"]) for p in found["pairs"]] == [
        (numbers[0], 1.0),
        (numbers[1], 0.0),
    ]
    assert [score(running, n) for n in numbers] == [2.0, 1.0, 0.5, 0.0]  # the first counts
    assert ask(hal, "GET", "/api/grading")[1]["samples"] == [
        {**listed, "yours": 1, "undecided": 1}  # of two pairs one differs
    ]
    asked = ["--server", hal.server, "--token", hal.token]
    assert main(["marking", "sample", "first", "why", *asked]) == 0
    said = capsys.readouterr().out
    assert "2 of 4 are marked twice, mean absolute difference 0.5" in said
    assert f"submission {numbers[0]}: grace 2, hal 1" in said
    assert (
        theirs.ask("POST", f"/grading/01_first/why/sample/{numbers[0]}", {"take": "second"}).status
        == 303
    )
    assert ask(running.staff, "POST", put, {"take": "first"})[0] == 200
    assert [score(running, n) for n in numbers[:2]] == [1.0, 1.0]
    assert all(p["decided"] for p in ask(grace, "GET", f"{WHY}/sample")[1]["pairs"])
    done = [line for line in logged(running) if line[1] in ("sample", "second mark", "decide")]
    assert [action for _, action, _ in done] == ["sample"] * 2 + ["second mark"] * 2 + [
        "decide"
    ] * 2


def browse_page(browse: Any, who: Connection, path: str) -> str:
    browser = browse(who.server)
    browser.log_in(who.token)
    return str(browser.get(path).text).replace("&#39;", "'")


def test_nothing_is_decided_of_an_answer_that_is_another_now(running: Any) -> None:
    ada, grace = running.enroll("Ada"), assistant(running)
    book = {"cells": [{"cell_type": "code", "source": "manual: It is two."}]}
    number = int(ada.submit("first", json.dumps(book).encode())["id"])
    running.wait(number)
    ask(running.staff, "POST", f"{WHY}/sample", {"size": 1})
    ask(grace, "PUT", f"/api/submissions/{number}/marks", {"why": {"points": 2}})
    assert ask(running.staff, "PUT", f"{WHY}/sample/{number}", {"points": 1})[0] == 200
    running.server.course.store.claims.regrade(number)
    changed = running.grader.grade("first", json.dumps(book).replace("two", "three").encode())
    assert running.wait(number) == "graded"
    with running.server.course.store.database.write() as connection:
        from autograder.service.records.grades import gradings

        gradings.publish(connection, number, changed, 1e9)
    decided = ask(running.staff, "POST", f"{WHY}/sample/{number}", {"take": "second"})
    assert decided[0] == 409 and "another now" in decided[1]["detail"]


@pytest.mark.parametrize("size", [None, 0, -1, 501, "x", True, 1.5])
def test_what_is_no_size_of_a_sample_is_refused(unmoved: Any, size: Any) -> None:
    assert ask(unmoved.staff, "POST", f"{WHY}/sample", {"size": size})[0] == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "1", {"points": None}, 422),
        ("PUT", "1", {}, 422),
        ("PUT", "9", {"points": 1}, 409),
        ("PUT", str(10**30), {"points": 1}, 409),
        ("POST", "1", {"take": "both"}, 422),
        ("POST", "1", {"take": "first"}, 404),
        ("POST", str(10**30), {"take": "first"}, 409),
    ],
)
def test_what_is_no_second_mark_is_refused(
    running: Any, method: str, path: str, body: Any, status: int
) -> None:
    answered(running, "Ada", "Two.")
    ask(running.staff, "POST", f"{WHY}/sample", {"size": 1})
    assert ask(running.staff, method, f"{WHY}/sample/{path}", body)[0] == status


# ---- all of it


def test_it_is_all_for_staff(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    browser.log_in(ada.token)
    alike = alike_digest("Two.")
    below = ("", "/groups", f"/groups/{alike}", "/comments", "/sample")
    for path in ("/grading", "/grading/people", *(f"/grading/first/why{part}" for part in below)):
        assert browser.get(path).status == 403, path
        assert path == "/grading/people" or ask(ada, "GET", f"/api{path}")[0] == 403, path
    for path in ("/comments/1", f"/groups/{alike}", "/sample", "/sample/1", ""):
        assert browser.ask("POST", f"/grading/first/why{path}", {"points": "1"}).status == 403
    browser.log_in(running.staff.token)
    for odd in ("?at=-1", f"?at={10**30}", "?section=%00", "?sample=maybe"):
        assert browser.get(f"/grading/first/why{odd}").status == 422
    assert browser.get("/grading/first/wh%00y").status == 422


def test_the_keys_of_the_page_are_those_of_the_guide() -> None:
    guide = (Path(__file__).parents[3] / "docs/running_a_course.md").read_text("utf-8")
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", guide, re.M)
    assert [row for row in rows if row[0] in dict(KEYS)] == list(KEYS)
