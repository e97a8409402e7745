"""A course below a path in a real browser: from the list of courses to a grade that appears."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.running.server import Server, open_server
from autograder.service.settings import Settings

from .test_browser_server import FIRST, LAB, LOOKS, OF_WIDGETS, Bench, look_at

pytestmark = pytest.mark.browser


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def server(tmp_path: Path, bench: Bench) -> Iterator[Server]:
    """Return a server of two courses beside the one at `/`."""
    (tmp_path / "labs" / FIRST).mkdir(parents=True)
    (tmp_path / "labs" / FIRST / "lab.py").write_text(LAB)
    (tmp_path / "labs" / FIRST / "checks.py").write_text("")
    data = tmp_path / "data"
    for name, title in (("ml", "Machine-learning systems, 2031"), ("art", "Art")):
        assert main(["courses", "add", name, "--title", title, "--data", str(data)]) == 0
    with open_server(Settings(data=data, labs=tmp_path / "labs", port=0), lambda: bench) as server:
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(60)
            yield server
        finally:
            bench.close()
            server.stop()
            thread.join()


def test_a_learner_goes_from_the_list_to_a_grade(
    server: Server, bench: Bench, visit: Any, audit: Any
) -> None:
    course = server.course.others["ml"]
    ada = course.store.roster.add("ada", "learner")
    token = course.store.roster.give_token(ada, "bearer", lives_s=600)
    page = visit().open(server.url)
    problems = look_at(page, audit, "/", LOOKS)
    page.get_by_role("link", name="Machine-learning systems, 2031").click()
    page.get_by_label("token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{server.url}/courses/ml/submissions")
    assert page.get_by_role("link", name="Machine-learning systems, 2031").count() == 1
    page.get_by_role("link", name="Labs", exact=True).click()
    cell = {"cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": []}
    notebook = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    file = {"name": "lab.ipynb", "mimeType": "application/json", "buffer": notebook.encode()}
    page.locator("input[type=file]").set_input_files(file)
    page.locator("form:has(input[type=file]) button").click()
    page.wait_for_url(f"{server.url}/courses/ml/submissions/1")
    page.wait_for_selector("[data-live^='/courses/ml/']")
    bench.gate.set()
    page.wait_for_selector("#grade")  # by the script, which waits below the path too
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).borderRadius") != "0px"
    problems += look_at(page, audit, "/submissions/1", LOOKS[::-1])
    page.goto(f"{server.url}/courses/art/submissions")
    assert page.url == f"{server.url}/courses/art/login?next=/submissions"
    page.goto(f"{server.url}/courses/none/")
    assert page.get_by_text("there is no course 'none' on this server.").count() == 1
    problems += look_at(page, audit, "/courses/none", LOOKS)
    assert [p for p in problems if not any(rule in p for rule in OF_WIDGETS)] == []


def test_a_page_that_waits_for_a_grade_leads_to_the_login_when_the_session_ends(
    server: Server, visit: Any
) -> None:
    store = server.course.store
    ada = store.roster.add("ada", "learner")
    page = visit().open(server.url)
    page.goto(f"{server.url}/login")
    page.get_by_label("token").fill(store.roster.give_token(ada, "bearer", lives_s=600))
    page.get_by_role("button", name="Log in").click()
    number = store.submissions.add(ada, FIRST, b'{"cells": []}').id

    def end_session(route: Any) -> None:
        store.roster.give_token(ada, "bearer", lives_s=600)  # a new one, which ends the old one's
        route.abort()

    page.route("**/state?*", end_session, times=1)
    page.goto(f"{server.url}/submissions/{number}")
    page.wait_for_url(f"{server.url}/login?next=/submissions/{number}")
    assert page.get_by_label("token").count() == 1
