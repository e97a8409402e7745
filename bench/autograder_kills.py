"""Submissions while servers are killed: nothing is lost, and every receipt holds.

    python bench/autograder_kills.py URL --learners 50000 --rate 100 --seconds 600

hands in to four servers behind nginx over the course that `autograder_course.py` filled at URL, so
many a second, while one server is killed each minute and started again. A client that gets no
receipt asks again under the same key. Afterwards each receipt is held against the database: the
learner, the lab, the SHA-256, and the notebook itself; and nothing may be there twice.
`tests/autograder/service/test_service_kills.py` is the short version.
"""

import argparse
import contextlib
import hashlib
import http.client
import itertools
import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import sqlalchemy as sa
from autograder_course import LABS, lab_name, login, token
from autograder_fleet import fleet

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.service.database.schema import gradings, notebooks, people, submissions
from autograder.service.records.store import Store

SAMPLE = Path(__file__).parent.parent / "tests/autograder/sample_labs/scale_and_sum"
CLIENTS = 32
GOALS_S = {"median": 0.1, "p99": 1.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="of the database that autograder_course.py filled")
    parser.add_argument("--learners", type=int, default=50_000)
    parser.add_argument("--rate", type=float, default=100.0, help="submissions a second")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kill-every", type=float, default=60.0, metavar="S")
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--waiting", action="store_true", help="grade nothing meanwhile")
    asked = parser.parse_args()
    count = int(asked.rate * asked.seconds)
    step = int(asked.rate * asked.kill_every)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for number in range(LABS):
            shutil.copytree(SAMPLE, folder / "labs" / lab_name(number))
        more = ["--scheduler", "tcp://127.0.0.1:1"] if asked.waiting else []
        where = (folder, asked.url, token("instructor"), folder / "labs")
        with fleet(*where, servers=asked.servers, nginx=True, options=more) as running:
            rush = Rush(running.addresses, lab_name(LABS - 1), asked.rate)
            people = [token(login(1 + n)) for n in range(asked.learners)]
            rush.run(people, count, CLIENTS, kills(running, range(step, count, step)))
    rush.report()
    print(f"nothing is lost: {check(asked.url, rush)}")


@dataclass
class Sent:
    """A submission as its client knows it."""

    number: int
    secret: str
    notebook: bytes
    receipt: dict[str, Any] = field(default_factory=dict)
    took_s: float = 0.0
    tries: int = 0


class Rush:
    """Clients that hand in at a steady rate, or as fast as they can; `run` ends with receipts."""

    def __init__(self, addresses: Sequence[str], lab: str, rate: float | None = None) -> None:
        self.sent: list[Sent] = []
        self._addresses, self._lab, self._rate = addresses, lab, rate
        self._began = self._ended = 0.0
        self._name = secrets.token_hex(8)  # so that no notebook of another run waits already
        self._book = json.loads(solution_notebook(load_lab(SAMPLE)))

    def run(
        self,
        tokens: Sequence[str],
        count: int,
        clients: int,
        before: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Hand in `count` notebooks, the next learner each time; `before` hears of each."""
        numbers, lock = itertools.count(), threading.Lock()
        self._began = time.perf_counter()

        def client(which: int) -> None:
            while True:
                with lock:
                    number = next(numbers)
                if number >= count:
                    return
                if self._rate:
                    due = self._began + number / self._rate
                    threading.Event().wait(max(0.0, due - time.perf_counter()))
                before(number)
                self.hand_in(number, tokens[number % len(tokens)], which)

        threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._ended = time.perf_counter()

    def hand_in(self, number: int, secret: str, which: int = 0) -> Sent:
        """Hand in for the learner of a token: ask until there is a receipt, others each time."""
        sent = Sent(number, secret, _numbered(self._book, f"{self._name}-{number}"))
        began, pause = time.perf_counter(), threading.Event()
        while not sent.receipt:
            address = self._addresses[(which + sent.tries) % len(self._addresses)]
            sent.tries += 1
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self._post(address, sent)
                if status in (200, 201):
                    sent.receipt = json.loads(answer)
                else:
                    assert status in (429, 502, 503, 504), (status, answer)
            if not sent.receipt:
                pause.wait(0.05)
        sent.took_s = time.perf_counter() - began
        self.sent.append(sent)
        return sent

    def _post(self, address: str, sent: Sent) -> tuple[int, bytes]:
        head = f'--b\r\nContent-Disposition: form-data; name="lab"\r\n\r\n{self._lab}\r\n'
        file = (
            '--b\r\nContent-Disposition: form-data; name="notebook"; filename="lab.ipynb"\r\n\r\n'
        )
        body = head.encode() + file.encode() + sent.notebook + b"\r\n--b--\r\n"
        headers = {
            "Authorization": f"Bearer {sent.secret}",
            "Content-Type": "multipart/form-data; boundary=b",
            "Idempotency-Key": f"{self._name}-{sent.number}",
        }
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        try:
            connection.request("POST", "/api/submissions", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def report(self) -> None:
        """Print the rate that was reached, and how long receipts took as shares of the goals."""
        took_s = sorted(sent.took_s for sent in self.sent)
        rate = len(self.sent) / (self._ended - self._began)
        wanted = f", {rate / self._rate:.2f} of what was asked for" if self._rate else ""
        print(f"{len(self.sent)} receipts, {sum(s.tries > 1 for s in self.sent)} at a later try")
        print(f"{rate:.1f} a second{wanted}")
        for name, place in (("median", 0.5), ("p99", 0.99)):
            share = took_s[int(place * (len(took_s) - 1))] / GOALS_S[name]
            print(f"{name} of receipts: {share:.2f} of the goal")


def _numbered(book: dict[str, Any], name: str) -> bytes:
    comment = {"cell_type": "markdown", "metadata": {}, "source": f"Number {name}"}
    return json.dumps({**book, "cells": [*book["cells"], comment]}).encode()


def kills(running: Any, at: Sequence[int]) -> Callable[[int], None]:
    """Return what kills one server after the other when the submissions `at` begin."""
    victims = {number: n % len(running.ports) for n, number in enumerate(at)}

    def before(number: int) -> None:
        if number in victims:
            print(f"server {victims[number]} is killed before submission {number}", flush=True)
            running.restart(victims[number])

    return before


def check(url: str, rush: Rush) -> str:
    """Hold every receipt against the database; return what there is.

    Raises:
        AssertionError: something is lost, changed, or there twice.
    """
    store = Store(url)
    try:
        receipts = {sent.receipt["id"]: sent for sent in rush.sent}
        assert len(receipts) == len(rush.sent), "two receipts name one submission"
        digests = {hashlib.sha256(sent.notebook).hexdigest() for sent in rush.sent}
        columns = (submissions.c.id, submissions.c.lab, submissions.c.sha256, submissions.c.state)
        query = sa.select(*columns, notebooks.c.notebook, people.c.login)
        query = query.join_from(submissions, notebooks).join(people)
        rows = store.database.rows(query.where(submissions.c.id >= min(receipts)))
        rows = [row for row in rows if row.sha256 in digests]
        assert len(rows) == len(receipts), f"{len(rows)} rows for {len(receipts)} receipts"
        for row in rows:
            sent = receipts[row.id]
            told = (sent.receipt["sha256"], sent.receipt["lab"])
            assert (row.sha256, row.lab, row.notebook) == (*told, sent.notebook)
            assert store.roster.owner(sent.secret, "bearer").login == row.login
        count = sa.select(gradings.c.submission_id, sa.func.count())
        count = count.where(gradings.c.submission_id >= min(receipts))
        graded = dict(map(tuple, store.database.rows(count.group_by(gradings.c.submission_id))))
        assert all(graded.get(row.id, 0) == (row.state == "graded") for row in rows)
        return f"{len(rows)} submissions, {sum(row.state == 'graded' for row in rows)} graded once"
    finally:
        store.close()


if __name__ == "__main__":
    main()
