"""The pages: logging in and out, who sees what, and that nothing of a learner's becomes markup."""

import json
import re
import threading
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from autograder.service.web.app import routers

HOSTILE = "<script>alert(1)</script>&\"'"


def graded(running: Any, who: Any, source: str = "x = 2") -> int:
    cell = {"cell_type": "code", "source": source}
    number: int = who.submit("first", json.dumps({"cells": [cell]}).encode())["id"]
    running.wait(number)
    return number


@pytest.mark.parametrize("path", ["/", "/submissions", "/submissions/1", "/gradebook"])
def test_nobody_logged_in_is_led_to_the_login_page(browser: Any, path: str) -> None:
    answer = browser.get(path)
    assert answer.status == 303
    assert answer.getheader("Location").startswith("/login?next=")


def test_a_token_logs_in_and_the_cookie_is_kept_from_scripts(running: Any, browser: Any) -> None:
    answer = browser.log_in(running.enroll("Ada").token)
    cookie = answer.getheader("Set-Cookie")
    assert answer.status == 303
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert "Ada" in browser.get("/submissions").text


def test_a_wrong_token_is_told_so(browser: Any) -> None:
    answer = browser.log_in("nonsense")
    assert answer.status == 401 and "not known here" in answer.text
    assert not browser.cookie


def test_logging_out_ends_the_session_on_the_server(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    stolen = browser.cookie
    browser.ask("POST", "/logout")
    browser.cookie = stolen
    assert browser.get("/gradebook").status == 303


def test_what_is_sent_after_the_session_ended_is_said_to_be_unsent(
    running: Any, browser: Any
) -> None:
    """To go on to its address would show a page that there is not."""
    number = graded(running, ada := running.enroll("Ada"))
    browser.log_in(ada.token)
    browser.ask("POST", "/logout")
    form = {"question": "scale", "text": "written for an hour"}
    answer = browser.ask("POST", f"/submissions/{number}/requests", form)
    page = browser.get(answer.getheader("Location"))
    assert page.status == 200 and "what you sent was not stored" in page.text
    assert 'name="next" value="/"' in page.text


def test_the_bearer_token_is_no_cookie(running: Any, browser: Any) -> None:
    browser.cookie = f"course_session={running.staff.token}"
    assert browser.get("/gradebook").status == 303


def test_a_link_logs_in_once(running: Any, browser: Any) -> None:
    number = graded(running, learner := running.enroll("Ada"))
    link = learner.page(f"/submissions/{number}").removeprefix(learner.server)
    answer = browser.get(link)
    assert answer.status == 200 and "Continue as Ada" in answer.text
    code = parse_qs(urlsplit(link).query)["code"][0]
    form = {"code": code, "next": f"/submissions/{number}"}
    assert browser.ask("POST", "/enter", form).getheader("Location") == f"/submissions/{number}"
    assert browser.get(f"/submissions/{number}").status == 200
    stranger = type(browser)(learner.server)
    assert "used already" in stranger.get(link).text
    assert stranger.ask("POST", "/enter", form).status == 401
    assert not stranger.cookie


def test_a_link_alone_logs_nobody_in_as_somebody_else(running: Any, browser: Any) -> None:
    """Such as one to the account of whoever put it on a page of theirs."""
    ada, mallory = running.enroll("Ada"), running.enroll("Mallory")
    link = mallory.page("/submissions").removeprefix(mallory.server)
    browser.log_in(ada.token)
    asked = browser.get(link).text
    assert "Log in as Mallory?" in asked and "Ada is logged in now" in asked
    assert "Ada" in browser.get("/submissions").text
    code = parse_qs(urlsplit(link).query)["code"][0]
    sent = browser.ask("POST", "/enter", {"code": code}, Origin="http://evil.example")
    assert sent.status == 403
    assert "Ada" in browser.get("/submissions").text


@pytest.mark.parametrize(
    ("site", "logged_in"),
    [("same-site", True), ("same-origin", True), ("none", False), ("cross-site", False)],
)
def test_a_link_from_a_page_of_this_machine_logs_in_at_once(
    running: Any, browser: Any, site: str, logged_in: bool
) -> None:
    """As from JupyterLab beside the server. A link in a message says `none`."""
    ada = running.enroll("Ada")
    link = ada.page("/submissions").removeprefix(ada.server)
    answer = browser.ask("GET", link, Sec_Fetch_Site=site)
    assert ("logged in" in answer.text) is logged_in
    assert (browser.get("/submissions").status == 200) is logged_in


def test_elsewhere_a_neighbouring_site_is_no_better_than_any(running: Any, browser: Any) -> None:
    link = running.enroll("Ada").page("/").removeprefix(running.staff.server)
    headers = {"Sec_Fetch_Site": "same-site", "Host": "course.example.org"}
    assert "Continue as Ada" in browser.ask("GET", link, **headers).text


def test_a_link_for_whom_is_logged_in_already_leads_on(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    browser.log_in(ada.token)
    link = ada.page("/submissions").removeprefix(ada.server)
    assert 'url=/submissions"' in browser.get(link).text


@pytest.mark.parametrize(
    "target",
    [
        *("//evil.example", "https://evil.example", "/\\evil.example", "///evil.example"),
        *("////evil.example", "//[evil", "/\t/evil.example", "evil.example"),
    ],
)
def test_no_login_leads_to_another_site(running: Any, browser: Any, target: str) -> None:
    assert browser.log_in(running.staff.token, target).getheader("Location") == "/"
    code = urlencode({"code": "x", "next": target})
    assert "evil" not in browser.get(f"/enter?{code}").text
    assert "evil" not in browser.get(f"/login?{code}").text


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Origin": "http://["}, {"Sec_Fetch_Site": "cross-site"}],
)
@pytest.mark.parametrize("path", ["/login", "/enter", "/logout", "/submissions/1/regrade"])
def test_a_form_of_another_site_is_refused(
    browser: Any, path: str, headers: dict[str, str]
) -> None:
    assert browser.ask("POST", path, {"token": "x"}, **headers).status == 403


def test_learners_see_their_own_and_staff_see_all(running: Any, browser: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    number = graded(running, ada)
    for token, status in ((ada.token, 200), (bob.token, 404), (running.staff.token, 200)):
        browser.log_in(token)
        for part in ("", "/notebook", "/report"):
            assert browser.get(f"/submissions/{number}{part}").status == status
    browser.log_in(bob.token)
    assert "Ada" not in browser.get("/submissions").text
    assert browser.get("/gradebook").status == 403
    assert browser.get("/gradebook/export").status == 403
    assert browser.ask("POST", f"/submissions/{number}/regrade").status == 403


def test_hidden_checks_say_property_and_hint_to_learners_and_all_to_staff(
    running: Any, browser: Any
) -> None:
    number = graded(running, ada := running.enroll("Ada"))
    for path in (f"/submissions/{number}", f"/submissions/{number}/report"):
        browser.log_in(ada.token)
        text = browser.get(path).text
        assert "output of open check" in text and "output of secret check" in text
        assert "runs at submission only" in text and "detail of" not in text
    browser.log_in(running.staff.token)
    text = browser.get(f"/submissions/{number}").text
    assert "output of secret check" in text and "detail of secret check" in text


def test_text_of_a_learner_stays_text(running: Any, browser: Any) -> None:
    number = graded(running, running.enroll("Ada"), f"report {HOSTILE}")
    browser.log_in(running.staff.token)
    for path in (f"/submissions/{number}", f"/submissions/{number}/report"):
        text = browser.get(path).text
        assert text.count("<script") == text.count('<script src="/static/course.js"')
        assert HOSTILE in unescape(text)


def test_the_policy_forbids_all_scripts_but_ours(running: Any, browser: Any) -> None:
    number = graded(running, running.enroll("Ada"))
    browser.log_in(running.staff.token)
    paths = ["/login", "/gradebook", "/submissions", f"/submissions/{number}", "/nowhere"]
    for path in [*paths, f"/submissions/{number}/report", f"/submissions/{number}/notebook"]:
        answer = browser.get(path)
        policy = answer.getheader("Content-Security-Policy")
        ours = "script-src 'self'; connect-src 'self';"
        assert "default-src 'none';" in policy and "script-src" not in policy.replace(ours, "")
        assert "frame-ancestors 'none'" in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.text.count("<script") <= 1 and "onclick" not in answer.text


def test_a_page_that_waits_is_told_of_the_change_and_never_reloads(
    running: Any, browser: Any
) -> None:
    learner = running.enroll("Ada")
    number = learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "wait"}]}')["id"]
    running.grader.entered.wait(30)
    browser.log_in(learner.token)
    text = browser.get(f"/submissions/{number}").text
    assert "Being graded" in text and "http-equiv" not in text
    path = f"/submissions/{number}/state"
    assert f'data-live="{path}" data-state="grading"' in text
    assert json.loads(browser.get(f"{path}?seen=stored").text) == {"state": "grading"}  # at once
    told: list[str] = []
    waiting = threading.Thread(target=lambda: told.append(browser.get(f"{path}?seen=grading").text))
    waiting.start()
    running.grader.gate.set()
    waiting.join()
    assert json.loads(told[0]) == {"state": "graded"}


def test_staff_send_a_submission_through_again(running: Any, browser: Any) -> None:
    number = graded(running, running.enroll("Ada"))
    browser.log_in(running.staff.token)
    assert browser.ask("POST", f"/submissions/{number}/regrade").status == 303
    running.wait(number)
    assert len(running.grader.graded) == 2


def test_the_page_of_labs_switches_solutions_on_and_off(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    dates = {"due": "2026-01-01T00:00:00Z", "late_until": "2026-01-02T00:00:00Z"}
    for form, is_on in (({**dates, "solutions": "on"}, True), (dates, False)):
        assert browser.ask("POST", "/labs/01_first/dates", form).status == 303
        assert running.server.course.store.dates.calendar().rules["01_first"].solutions is is_on
        assert ('name="solutions" checked' in browser.get("/labs").text) is is_on


def test_the_gradebook_shows_the_best_of_each_learner(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    for source in ("x = 1", "x = 2"):
        graded(running, ada, source)
    running.enroll("Bob")
    browser.log_in(running.staff.token)
    text = browser.get("/gradebook").text
    assert "Bob" in text and '<a href="/submissions/1" tabindex="-1">4<' in text


@pytest.mark.parametrize("path", ["/submissions/99", "/submissions/abc", "/nowhere"])
def test_what_is_not_there_is_a_page_that_says_so(running: Any, browser: Any, path: str) -> None:
    browser.log_in(running.staff.token)
    answer = browser.get(path)
    assert answer.status in (404, 422)
    assert "Back to the start" in answer.text and "Traceback" not in answer.text


def test_what_a_database_cannot_store_is_refused(
    start: Any, make_postgres: Any, browse: Any
) -> None:
    """PostgreSQL has no NUL in a text."""
    with start(database_url=make_postgres()) as running:
        browser = browse(running.staff.server)
        browser.log_in(running.staff.token)
        for path, form in (
            ("/labs/first/extensions", {"login": "a\0b", "due": ""}),
            ("/people/a%00b/role", {"role": "learner"}),
        ):
            assert browser.ask("POST", path, form).status in (404, 422), path
        assert browser.get("/learners/a%00b").status in (404, 422)


def test_no_page_takes_a_form_of_another_site(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    course = running.server.course
    pages = routers(course)[-1]
    routes: list[Any] = [r for r in pages.routes if "POST" in getattr(r, "methods", ())]
    assert len(routes) >= 16
    for route in routes:
        path = re.sub(r"{\w+}", "1", route.path)
        for headers in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "same-site"}):
            answer = browser.ask("POST", path, {"at": "1"}, **headers)
            assert answer.status == 403 and "another site" in answer.text, path
    assert browser.get("/queue").status == 200  # still logged in


def test_the_number_of_an_answer_may_be_any_text(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    for at in ("9" * 5000, "9" * 19, "٣", "-1", ""):
        answer = browser.ask("POST", "/grading/first/why", {"at": at})
        assert answer.status == 409
