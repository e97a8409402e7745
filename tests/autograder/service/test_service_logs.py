"""The log as JSON: one object a line, one line a request, and no token anywhere."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.records.store import sqlite_url
from autograder.service.web.logs import Json

SAID = {"time", "level", "message"}


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """Return what was logged of requests so far, as it would be written."""
    caplog.set_level(logging.INFO, logger="autograder.service.web.logs")

    def read() -> list[dict[str, Any]]:
        return [json.loads(Json().format(r)) for r in caplog.records if hasattr(r, "request")]

    return read


def test_each_request_is_a_line_without_its_query_and_its_tokens(
    start: Any, browse: Any, lines: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with start(log_format="json") as running:
        browser, token = browse(running.staff.server), running.staff.token
        browser.log_in(token)
        browser.get("/gradebook?search=ada")
        browser.ask("GET", f"/enter?code={token}")
        browser.ask("GET", f"/learners/{token}%0Aline")
        browser.ask("GET", "/api/labs", Authorization="Bearer nonsense")
    found = lines()
    assert [(one["method"], one["path"], one["status"]) for one in found] == [
        ("POST", "/login", 303),
        ("GET", "/gradebook", 200),
        ("GET", "/enter", 200),
        ("GET", "/learners/[token]\nline", 404),
        ("GET", "/api/labs", 401),
    ]
    assert all(set(one) == {*SAID, "method", "path", "status", "ms"} for one in found)
    assert all(one["ms"] >= 0 and one["time"].endswith("+00:00") for one in found)
    whole = "".join(Json().format(record) for record in caplog.records)
    secret = token.partition(".")[2]
    assert secret not in whole and browser.cookie.partition(".")[2] not in whole


def test_as_text_no_request_is_logged(running: Any, browser: Any, lines: Any) -> None:
    assert browser.get("/login").status == 200
    assert lines() == []


def test_an_error_is_one_line_with_its_traceback() -> None:
    try:
        raise ValueError("the first line\nthe second")
    except ValueError:
        record = logging.LogRecord("x", 40, "f", 1, "broken: %s", ("é\n",), sys.exc_info())
    line = Json().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert found["level"] == "ERROR" and found["message"] == "broken: é\n"
    assert found["error"].endswith("the second") and "Traceback" in found["error"]


def test_an_error_of_the_database_does_not_say_what_was_written(tmp_path: Path) -> None:
    database = Database(sqlite_url(tmp_path))
    with pytest.raises(sa.exc.OperationalError) as error, database.write() as connection:
        connection.execute(sa.text("INSERT INTO nowhere VALUES (:word)"), {"word": "sesame full"})
    assert "nowhere" in str(error.value) and "sesame" not in str(error.value)
    database.close()
