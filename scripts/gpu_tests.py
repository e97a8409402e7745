"""A pytest plugin: appends the outcome of each test, as it ends, to the file $GPU_RECORD."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

OURS = ("autograder", "ddp_lab", "labs", "lessons", "minitorch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put what takes longest last: it is what a time limit should cost."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is not None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record a test that has ended, and a failure before or after it."""
    if report.when == "call" or not report.passed:
        _record(report.nodeid, outcome_of(report), _note(report), report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a file that cannot be imported; one that lacks a package of others is skipped."""
    if report.failed:
        note = str(report.longrepr).strip().splitlines()[-1].removeprefix("E").strip()
        _record(report.nodeid, "skipped" if lacks_a_package(note) else "failed", note, 0.0)


def outcome_of(report: pytest.TestReport) -> str:
    """Return what became of a test; one that lacks a package of others is skipped."""
    return "skipped" if report.failed and lacks_a_package(_note(report)) else report.outcome


def lacks_a_package(note: str) -> bool:
    """Tell whether a failure is that a package is not installed, and none of ours."""
    missing = re.search(r"^(?:ModuleNotFound|Import)Error: .*No module named '(\w+)", note)
    return missing is not None and missing[1] not in OURS


def _note(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "")


def _record(name: str, outcome: str, note: str, seconds: float) -> None:
    row = {"name": name, "outcome": outcome, "note": note, "seconds": seconds}
    with Path(os.environ["GPU_RECORD"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
