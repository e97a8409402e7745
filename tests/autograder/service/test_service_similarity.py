"""Which answers are alike, as staff see it: over HTTP, as a page, and side by side."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.service.errors import ServerError

ANSWER = """def scale(values, factor):
    made = []
    for index, value in enumerate(values):
        if factor < 0 and index > 3:
            made.append("<b>" * 0)
        elif value is not None:
            made.append(value * factor + index - index)
    return tuple(made)
"""
RENAMED = ANSWER.replace("made", "out").replace("index", "i").replace("value", "v")
OTHER = """def scale(values, factor):
    import operator
    first = [operator.mul(x, factor) for x in values]
    while len(first) > len(values):
        first.pop()
    return sorted(first, key=lambda x: -x)[::-1]
"""


@pytest.fixture
def running(start: Any, labs: Path) -> Any:
    source = '# %% [markdown]\n# # First\n# %% question="scale" points="4"\n'
    body = "    ### BEGIN SOLUTION\n    return values\n    ### END SOLUTION\n"
    (labs / "01_first" / "lab.py").write_text(f"{source}def scale(values, factor):\n{body}")
    with start() as server:
        yield server


def book(*cells: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in cells]}).encode()


def ask(who: Any) -> Any:
    return who._json("similarity", "/api/labs/first/similarity")


def test_alike_answers_are_listed_and_shown_side_by_side(running: Any, browser: Any) -> None:
    ada, bob, cyd, eve = (running.enroll(name) for name in ("Ada", "Bob", "Cyd", "Eve"))
    numbers = [
        who.submit("first", book("print(1)", text))["id"]
        for who, text in ((ada, ANSWER), (bob, RENAMED), (cyd, OTHER), (eve, "(" * 9999))
    ]
    found = ask(running.staff)
    (pair,) = found["pairs"]
    assert (found["lab"], found["compared"]) == ("01_first", 4)
    assert (pair["question"], pair["share"]) == ("scale", 1.0)
    assert pair["left"] == {"submission": numbers[0], "login": "Ada"}
    assert pair["right"] == {"submission": numbers[1], "login": "Bob"}
    browser.log_in(running.staff.token)
    listed = browser.get("/labs/first/similarity").text
    path = f"/labs/01_first/similarity/scale?left={numbers[0]}&amp;right={numbers[1]}"
    assert path in listed and "Ada and Bob" in listed and "100 %" in listed
    sides = browser.get(path.replace("&amp;", "&")).text
    assert "made.append(" in sides and "out.append(" in sides
    assert "&lt;b&gt;" in sides and "<b>" not in sides
    ada.submit("first", book(ANSWER, OTHER.replace("first", "own")))  # the last definition counts
    (pair,) = ask(running.staff)["pairs"]
    assert {pair["left"]["login"], pair["right"]["login"]} == {"Ada", "Cyd"}


def test_similarity_is_for_staff(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    number = ada.submit("first", book(ANSWER))["id"]
    with pytest.raises(ServerError) as refused:
        ask(ada)
    assert refused.value.status == 403
    browser.log_in(ada.token)
    for path in ("", f"/scale?left={number}&right={number}"):
        assert browser.get(f"/labs/first/similarity{path}").status == 403
    browser.log_in(running.staff.token)
    assert browser.get(f"/labs/first/similarity/scale?left={number}&right=99").status == 404


def test_a_lab_that_cannot_be_read_is_said(running: Any, labs: Path) -> None:
    (labs / "01_first" / "lab.py").unlink()
    with pytest.raises(ServerError) as refused:
        ask(running.staff)
    assert refused.value.status == 422
