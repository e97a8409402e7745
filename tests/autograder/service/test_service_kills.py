"""Servers that share a database are killed while learners hand in: every receipt holds.

The short version of `bench/autograder_kills.py`, which does the same for ten minutes.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.service.records.people import LEARNER
from autograder.service.records.store import Store
from tests.autograder.service.forked import COMMAND, SILENT, Forked

LAB = "00_lab"


@pytest.fixture
def kills(bench: Callable[[str], Any]) -> Any:
    return bench("autograder_kills")


@pytest.fixture
def url(make_postgres: Callable[[], str]) -> str:
    return make_postgres()


def enrolled(store: Store, kills: Any, count: int) -> list[str]:
    names = [kills.login(n + 1) for n in range(count)]
    people = [store.roster.add(name, LEARNER) for name in names]
    secrets = [kills.token(name) for name in names]
    for person, secret in zip(people, secrets, strict=True):
        store.roster.give_token(person, "bearer", token=secret)
    return secrets


def forked(words: list[str], _log: object) -> Forked:
    return Forked(SILENT + COMMAND, *words)


@pytest.mark.sandbox
def test_two_servers_are_killed_and_nothing_is_lost(url: str, kills: Any, tmp_path: Path) -> None:
    kills.shutil.copytree(kills.SAMPLE, tmp_path / "labs" / LAB)
    store = Store(url)
    secrets = enrolled(store, kills, 6)
    where = (tmp_path, url, kills.token("instructor"), tmp_path / "labs")
    with kills.fleet(*where, servers=2, nginx=False, program=forked) as running:
        rush = kills.Rush(running.addresses, LAB)
        rush.run(secrets, 18, 4, kills.kills(running, (6, 12)))
        found = store.claims.waiting()
        while found.waiting or found.grading:
            time.sleep(0.02)
            found = store.claims.waiting()
    store.close()
    assert kills.check(url, rush) == "18 submissions, 18 graded once"


def test_a_receipt_that_does_not_hold_is_found(url: str, kills: Any) -> None:
    store = Store(url)
    secrets = enrolled(store, kills, 2)
    ada, bob = (store.roster.owner(secret, "bearer") for secret in secrets)
    rush = kills.Rush([], LAB)
    for number, person in enumerate((ada, bob)):
        sent = kills.Sent(number, secrets[number], b"%d" % number)
        receipt = store.submissions.add(person, LAB, sent.notebook)
        sent.receipt = {"id": receipt.id, "lab": LAB, "sha256": receipt.sha256}
        rush.sent.append(sent)
    assert kills.check(url, rush) == "2 submissions, 0 graded once"
    store.submissions.add(ada, "01_lab", rush.sent[0].notebook)
    with pytest.raises(AssertionError, match="3 rows for 2 receipts"):
        kills.check(url, rush)
    rush.sent.append(replace(rush.sent[0], number=2))
    with pytest.raises(AssertionError, match="two receipts name one submission"):
        kills.check(url, rush)
    store.close()
