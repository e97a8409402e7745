"""What staff, monitors and Prometheus are told of the queue, and what staff may do about it."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.grading.process import ProcessGrader
from autograder.service.running.server import open_server

NO_SANDBOX = "SandboxMissing: sandbox: bwrap is not installed"


def notebook(source: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]}).encode()


def ask(who: Connection, path: str, method: str = "GET", token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token or who.token}"}
    with urlopen(Request(who.server + path, method=method, headers=headers)) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith("{") else text


def until(running: Any, paused: bool) -> Any:
    """Return the state of the queue once it is paused, or is not."""
    while (found := ask(running.staff, "/api/queue"))["paused"] is not paused:
        time.sleep(0.01)
    return found


def test_a_paused_queue_says_why_everywhere_and_goes_on_by_itself(
    running: Any, browser: Any
) -> None:
    running.grader.out_of_order = NO_SANDBOX
    ada = running.enroll("Ada")
    number = ada.submit("first", notebook("x = 1"))["id"]
    found = until(running, True)
    assert (found["waiting"], found["parked"]) == (1, [])
    assert found["reason"] == f"01_first: {NO_SANDBOX}" and found["oldest_s"] >= 0
    assert ask(running.staff, "/healthz") == {"status": "paused", "reason": found["reason"]}
    metrics = ask(running.staff, "/metrics")
    assert "course_queue_paused 1" in metrics and "course_submissions_waiting 1" in metrics
    assert f'course_lab_paused{{lab="01_first",reason="{NO_SANDBOX}"}} 1' in metrics
    assert ada.submission(str(number))["state"] == "stored"
    browser.log_in(running.staff.token)
    for path in ("/gradebook", "/queue"):
        assert (
            "Grading is paused" in browser.get(path).text and NO_SANDBOX in browser.get(path).text
        )
    running.grader.out_of_order = ""
    assert running.wait(number) == "graded"
    assert until(running, False)["reason"] is None
    assert ask(running.staff, "/healthz") == {"status": "ok", "reason": None}
    assert "course_queue_paused 0" in ask(running.staff, "/metrics")


def test_what_is_parked_is_listed_and_tried_again_in_bulk(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    numbers = [ada.submit("first", notebook(f"die {i}"))["id"] for i in range(3)]
    assert {running.wait(number) for number in numbers} == {"parked"}
    parked = ask(running.staff, "/api/queue")["parked"]
    assert [(p["id"], p["login"], p["lab"], p["tries"]) for p in parked] == [
        (number, "Ada", "01_first", 2) for number in reversed(numbers)
    ]
    assert all("status -9" in p["reason"] for p in parked)
    assert "course_submissions_parked 3" in ask(running.staff, "/metrics")
    told = ada.submission(str(numbers[0]))
    assert told["state"] == "parked" and "staff will grade it again" in told["reason"]
    assert "status -9" not in json.dumps(told) and told["score"] is None
    browser.log_in(running.staff.token)
    assert "status -9" in browser.get("/queue").text
    running.grader.poison = "nothing is deadly now"
    assert ask(running.staff, "/api/parked/retry", "POST") == {"retried": 3}
    assert {running.wait(number) for number in numbers} == {"graded"}
    assert ask(running.staff, "/api/queue")["parked"] == []


def test_staff_try_again_and_look_again_from_the_page(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    number = ada.submit("first", notebook("die"))["id"]
    running.wait(number)
    running.grader.poison = "nothing is deadly now"
    browser.log_in(running.staff.token)
    assert browser.ask("POST", "/queue/retry").status == 303
    assert running.wait(number) == "graded"
    assert browser.ask("POST", "/queue/resume").status == 303
    for path in ("/queue/retry", "/queue/resume"):
        assert browser.ask("POST", path, Origin="http://evil.example").status == 403
    browser.log_in(ada.token)
    assert browser.get("/queue").status == 403
    for path in ("/queue/retry", "/queue/resume"):
        assert browser.ask("POST", path).status == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/queue"), ("POST", "/api/queue/resume"), ("POST", "/api/parked/retry")],
)
def test_the_queue_is_for_staff(running: Any, method: str, path: str) -> None:
    with pytest.raises(HTTPError, match="403") as refused:
        ask(running.staff, path, method, running.enroll("Ada").token)
    refused.value.close()
    assert ask(running.staff, path, method) is not None


def test_metrics_are_in_prometheus_text_format(running: Any) -> None:
    """Each sample has a name of the format, its help and its type before it."""
    running.wait(running.enroll("Ada").submit("first", notebook("x = 1"))["id"])
    known: dict[str, set[str]] = {}
    for line in ask(running.staff, "/metrics").splitlines():
        if found := re.fullmatch(r"# (HELP|TYPE) (\w+) .+", line):
            known.setdefault(found[2], set()).add(found[1])
        else:
            found = re.fullmatch(r'([a-z_]+)(\{(\w+="[^"]*",?)+\})? [0-9.e+-]+', line)
            name = found and re.sub("_(bucket|sum|count)$", "", found[1])
            assert name and known[name] == {"HELP", "TYPE"}, line
    assert 'course_gradings_total{outcome="graded"} 1' in ask(running.staff, "/metrics")


def test_requests_are_counted_and_timed_by_route(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    for _ in range(3):
        with pytest.raises(ServerError, match="none of that number"):
            ada.submission("7")
    browser.ask("BREW", "/made/up/by/a/client")
    browser.get("/static/course.css")
    text = ask(running.staff, "/metrics")
    route = 'method="GET",route="/api/submissions/{number}"'
    assert f'course_requests_total{{{route},status="404"}} 3.0' in text
    assert f"course_request_seconds_count{{{route}}} 3.0" in text
    assert 'course_requests_total{method="other",route="other",status="404"} 1.0' in text
    assert "made/up" not in text and "Ada" not in text


DEPLOY = Path(__file__).parents[3] / "deploy"


def not_exported(text: str, metrics: str) -> set[str]:
    """Return the metrics and the labels of theirs that `text` names and `metrics` has not."""
    samples = [s for f in text_string_to_metric_families(metrics) for s in f.samples]
    names = {sample.name for sample in samples}
    labels = {label for sample in samples for label in sample.labels} | {"job"}
    chosen = re.findall(r"(?<![$\w])(\w+)\s*(?:=~|!=|=)\\?\"", text)
    by = [name for group in re.findall(r"\bby \(([^)]*)\)", text) for name in group.split(", ")]
    return (set(re.findall(r"\bcourse_\w+", text)) - names) | ({*chosen, *by} - labels)


def test_the_alerts_and_the_dashboard_name_what_is_exported(running: Any) -> None:
    running.grader.out_of_order = NO_SANDBOX
    running.enroll("Ada").submit("first", notebook("x = 1"))
    until(running, True)
    metrics = ask(running.staff, "/metrics")
    for name in ("alerts.yaml", "dashboard.json"):
        text = (DEPLOY / name).read_text("utf-8")
        assert len(re.findall(r"course_\w+", text)) > 5
        assert not_exported(text, metrics) == set()
    wrong = 'sum by (path) (rate(course_request_total{code="500"}[5m])) + course_queue_paused'
    assert not_exported(wrong, metrics) == {"course_request_total", "code", "path"}
    panels = json.loads((DEPLOY / "dashboard.json").read_text("utf-8"))["panels"]
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("unsandboxed", [True, False])
def test_unsandboxed_reaches_the_grader(settings: Any, unsandboxed: bool) -> None:
    with open_server(replace(settings, unsandboxed=unsandboxed)) as server:
        (grader,) = server.course.queue._graders
        assert isinstance(grader, ProcessGrader)
        wall = grader._pool._start.keywords["wall"]
        assert wall == (None if unsandboxed else "bubblewrap")


def test_a_learner_whose_grade_is_out_of_reach_is_not_told_zero(running: Any) -> None:
    running.grader.out_of_order = NO_SANDBOX
    ada = running.enroll("Ada")
    number = ada.submit("first", notebook("x = 1"))["id"]
    until(running, True)
    assert ada.submission(str(number))["score"] is None
    assert ",01_first,,," in running.staff.text("export", format="csv")
    with pytest.raises(ServerError, match="not finished yet"):
        running.staff._json("regrade", f"/api/submissions/{number}/regrade", b"")
