"""What dates or attempts refuse is kept as a draft: seen by its learner alone, handed in later."""

import hashlib
import http.client
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from autograder.service.client import Connection
from autograder.service.errors import Refused, ServerError
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store
from autograder.service.records.submissions.intake import get_draft, list_drafts

CLOSED = {"due": "2026-01-01T00:00:00Z", "late_until": "2026-01-02T00:00:00Z"}
DRAFT = "/api/labs/first/draft"
PAGE = "/labs/01_first/draft"


def book(source: str = "x = 1") -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]}).encode()


def ahead() -> str:
    return (datetime.now(UTC) + timedelta(hours=9)).isoformat()


def ask(who: Connection, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(who.server).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {who.token}"}
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def set_rules(running: Any, **rules: Any) -> None:
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200


def extend(running: Any, login: str) -> None:
    path = f"/api/labs/first/extensions/{login}"
    assert ask(running.staff, "PUT", path, {"due": ahead()})[0] == 200


def refused(who: Connection, notebook: bytes, status: int = 403) -> str:
    with pytest.raises(ServerError) as error:
        who.submit("first", notebook)
    assert error.value.status == status
    return str(error.value)


@pytest.mark.parametrize("why", ["closed", "opens", "attempts"])
def test_what_is_refused_is_kept_and_nothing_is_handed_in(running: Any, why: str) -> None:
    ada, sent = running.enroll("Ada"), book("x = 'ä'")
    if why == "attempts":
        set_rules(running, attempts=1)
        ada.submit("first", book())
    else:
        set_rules(running, **(CLOSED if why == "closed" else {"opens": ahead()}))
    attempts = running.server.course.store.submissions.attempts
    person = running.server.course.person("ada")
    before = attempts(person.id)
    began = datetime.now(UTC).replace(microsecond=0)
    message = refused(ada, sent)
    assert why in message and "kept as your draft" in message and "not handed in" in message
    status, text = ask(ada, "GET", DRAFT)
    found = json.loads(text)
    assert status == 200 and found.keys() == {"lab", "sha256", "saved_at", "why"}
    assert found["lab"] == "01_first" and why in found["why"]
    assert found["sha256"] == hashlib.sha256(sent).hexdigest()
    assert datetime.fromisoformat(found["saved_at"]) >= began
    assert ask(ada, "GET", f"{DRAFT}/notebook") == (200, sent)
    assert attempts(person.id) == before


def test_the_newest_is_kept_and_its_learner_deletes_it(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    set_rules(running, **CLOSED)
    for source in ("x = 1", "x = 2"):
        refused(ada, book(source))
    for other in (bob, running.staff):
        for method, path in (
            *(("GET", DRAFT), ("GET", f"{DRAFT}/notebook")),
            *(("DELETE", DRAFT), ("POST", f"{DRAFT}/submit")),
        ):
            status, text = ask(other, method, path)
            assert status == 404 and "no draft" in json.loads(text)["detail"]
    assert ask(ada, "GET", f"{DRAFT}/notebook") == (200, book("x = 2"))
    assert ask(ada, "GET", "/api/labs/second/draft")[0] == 404
    assert ask(ada, "GET", "/api/labs/nine/draft")[0] == 404
    assert ask(ada, "DELETE", DRAFT) == (204, b"")
    assert [ask(ada, m, DRAFT)[0] for m in ("GET", "DELETE")] == [404, 404]


def test_an_extension_lets_the_draft_be_handed_in(running: Any) -> None:
    ada = running.enroll("Ada")
    set_rules(running, **CLOSED)
    refused(ada, book())
    saved = ask(ada, "GET", DRAFT)
    status, text = ask(ada, "POST", f"{DRAFT}/submit")
    assert status == 403
    assert "closed" in json.loads(text)["detail"] and "still kept" in json.loads(text)["detail"]
    assert ask(ada, "GET", DRAFT) == saved
    extend(running, "ada")
    status, text = ask(ada, "POST", f"{DRAFT}/submit")
    receipt = json.loads(text)
    assert status == 201 and receipt["sha256"] == json.loads(saved[1])["sha256"]
    assert receipt["late_days"] == 0 and receipt["url"].endswith(f"/submissions/{receipt['id']}")
    assert running.wait(receipt["id"]) == "graded"
    assert ask(ada, "GET", f"/api/submissions/{receipt['id']}/notebook") == (200, book())
    assert ask(ada, "GET", DRAFT)[0] == 404
    assert ask(ada, "POST", f"{DRAFT}/submit")[0] == 404


def test_what_is_accepted_later_takes_the_place_of_the_draft_and_a_retry_does_not(
    running: Any,
) -> None:
    ada, submissions = running.enroll("Ada"), running.server.course.store.submissions
    person = running.server.course.person("ada")
    key = secrets.token_hex(8)
    receipt = submissions.add(person, "01_first", book(), retry_key=key)
    set_rules(running, **CLOSED)
    refused(ada, book("x = 2"))
    again = submissions.add(person, "01_first", book(), retry_key=key)
    assert (again.id, again.is_new) == (receipt.id, False)
    assert ask(ada, "GET", DRAFT)[0] == 200
    extend(running, "ada")
    ada.submit("second", book())
    assert ask(ada, "GET", DRAFT)[0] == 200
    ada.submit("first", book("x = 3"))
    assert ask(ada, "GET", DRAFT)[0] == 404


def test_nothing_is_kept_of_what_is_no_notebook_too_large_or_too_often(start: Any) -> None:
    with start(upload_bytes=4000, kept_bytes=3000, burst=20, per_minute=0.001) as running:
        ada = running.enroll("Ada")
        set_rules(running, **CLOSED)
        refused(ada, b"no notebook", 422)
        refused(ada, book("x" * 5000), 413)
        assert ask(ada, "GET", DRAFT)[0] == 404
        kept = book("x" * 1800)
        refused(ada, kept[:-1] + b" }")
        refused(ada, kept)  # in the place of the one before, so there is room
        with pytest.raises(ServerError) as error:  # a draft counts in what one learner may store
            ada.submit("second", kept)
        assert error.value.status == 413
        answers = [ask(ada, "POST", f"{DRAFT}/submit")[0] for _ in range(20)]
        assert set(answers) == {403, 429} and answers == sorted(answers)
        refused(ada, book("x = 2"), 429)
        assert ask(ada, "GET", f"{DRAFT}/notebook") == (200, kept)


def test_a_draft_is_there_after_the_server_has_ended(start: Any) -> None:
    with start() as running:
        token = running.enroll("Ada").token
        set_rules(running, **CLOSED)
        refused(Connection(running.staff.server, token), book())
    with start() as running:
        ada = Connection(running.staff.server, token)
        assert ask(ada, "GET", f"{DRAFT}/notebook") == (200, book())


def test_the_pages_show_a_draft_and_hand_it_in(running: Any, browser: Any, browse: Any) -> None:
    ada, bob, staff = running.enroll("Ada"), running.enroll("Bob"), browse(running.staff.server)
    browser.log_in(ada.token)
    staff.log_in(running.staff.token)
    set_rules(running, **CLOSED)
    refused(ada, book())
    button = f'action="{PAGE}/submit"'
    for path in ("/labs", "/submissions"):
        text = browser.get(path).text
        assert "It was not handed in: the lab closed on Fri 02 Jan 2026" in text
        assert "It cannot be handed in now." in text and button not in text
    assert "waits for more time or attempts" in staff.get("/learners/ada").text
    assert "draft" not in staff.get("/learners/bob").text.lower()
    found = browser.get(f"{PAGE}/notebook")
    assert found.text == book().decode()
    assert 'filename="01_first-draft.ipynb"' in found.getheader("Content-Disposition")
    assert browser.ask("POST", f"{PAGE}/submit").status == 403
    extend(running, "ada")
    assert "can be handed in now" in staff.get("/learners/ada").text
    for path in ("/labs", "/submissions"):
        text = browser.get(path).text
        assert button in text and "cannot be handed in now" not in text
    answer = browser.ask("POST", f"{PAGE}/submit")
    assert (answer.status, answer.getheader("Location")) == (303, "/submissions/1")
    assert "draft" not in browser.get("/submissions").text.lower()
    other = browse(running.staff.server)
    other.log_in(bob.token)
    assert other.get(f"{PAGE}/notebook").status == 404
    assert "draft" not in other.get("/labs").text.lower()


def test_the_pages_delete_a_draft_and_take_no_form_of_another_site(
    running: Any, browser: Any
) -> None:
    ada = running.enroll("Ada")
    browser.log_in(ada.token)
    set_rules(running, **CLOSED)
    refused(ada, book())
    for what in ("submit", "delete"):
        answer = browser.ask("POST", f"{PAGE}/{what}", Origin="http://evil.example")
        assert answer.status == 403 and "another site" in answer.text
    assert ask(ada, "GET", DRAFT)[0] == 200
    for _ in range(2):  # also pressed twice
        assert browser.ask("POST", f"{PAGE}/delete").status == 303
    assert ask(ada, "GET", DRAFT)[0] == 404


@pytest.fixture
def store(database_url: Any) -> Iterator[Store]:
    opened = Store(database_url, clock=lambda: 1000.0)
    yield opened
    opened.close()


def test_of_many_buttons_pressed_at_once_one_hands_the_draft_in(store: Store) -> None:
    """On both databases; the others are told that there is no draft any more."""
    staff, ada = store.roster.add("grace", "instructor"), store.roster.add("ada", "learner")
    store.dates.set_rules("lab", Rules(opens="1970-01-01T01:00:00Z"), staff)
    with pytest.raises(Refused, match="opens"):
        store.submissions.add(ada, "lab", book())
    draft = get_draft(store.database, ada.id, "lab")
    assert (draft.saved_at, draft.why) == (1000.0, "the lab opens on Thu 01 Jan 1970, 01:00 UTC")
    store.dates.set_rules("lab", Rules(), staff)

    def press(_: int) -> int:
        try:
            return store.submissions.add_draft(ada, "lab").id
        except Refused as error:
            return -error.status

    with ThreadPoolExecutor(8) as threads:
        answers = sorted(threads.map(press, range(8)))
    assert answers[:-1] == [-404] * 7
    assert store.submissions.notebook(answers[-1]) == book()
    assert list_drafts(store.database, ada.id) == []


def test_a_draft_that_waits_again_already_is_not_handed_in_twice(store: Store) -> None:
    """Accepted, refused when it was sent again, and then graded anew."""
    staff, ada = store.roster.add("grace", "instructor"), store.roster.add("ada", "learner")
    store.dates.set_rules("lab", Rules(attempts=1), staff)
    receipt = store.submissions.add(ada, "lab", book())
    claim = store.claims.claim("a", 10)
    assert claim and store.claims.park(claim.id, "a", "")
    with pytest.raises(Refused, match="attempts"):
        store.submissions.add(ada, "lab", book())
    assert store.claims.retry_parked() == 1
    again = store.submissions.add_draft(ada, "lab")
    assert (again.id, again.is_new) == (receipt.id, False)
    assert list_drafts(store.database, ada.id) == []
