"""The durable queue: nothing is lost, nothing is graded twice at once, nothing loops."""

import itertools
import math
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from autograder.errors import LabError
from autograder.records import CheckResult, Outcome, Report
from autograder.service.errors import GraderUnable, StartError
from autograder.service.grading.queue import MAX_KILLS, Queue
from autograder.service.records.people import LEARNER, Person
from autograder.service.records.store import Store, sqlite_url
from autograder.service.records.submissions.claims import Claims
from autograder.service.records.submissions.submissions import Submissions


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database_url: Any, clock: Clock) -> Any:
    opened = Store(database_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def submissions(store: Store) -> Submissions:
    return store.submissions


@pytest.fixture
def claims(store: Store) -> Claims:
    return store.claims


@pytest.fixture
def ada(store: Store) -> Person:
    return store.roster.add("Ada", LEARNER)


SOLUTION = b"x = 1  # the lab's own"
REPORT = Report("lab", (), score=1.0, max_score=4.0)


def add(store: Store, person: Person, text: str = "", lab: str = "lab") -> int:
    """Store a notebook that is like no other, and return its number."""
    return store.submissions.add(person, lab, f"{text} {next(_COUNTER)}".encode()).id


_COUNTER = itertools.count()


def queue_over(claims: Claims, grader: Any, owner: str = "node/1", **more: Any) -> Queue:
    return Queue(claims, lambda: grader, owner=owner, solution=lambda lab: SOLUTION, **more)


def graded_texts(grader: Any, text: str) -> int:
    return sum(text in graded for graded in grader.graded)


def test_who_submits_sixty_at_once_keeps_nobody_waiting(
    claims: Claims, ada: Person, store: Store, clock: Clock
) -> None:
    flood = [add(store, ada) for _ in range(60)]
    bob, eve = (store.roster.add(name, LEARNER) for name in ("Bob", "Eve"))
    first = claims.claim("a", 100)
    assert first and first.id == flood[0]
    others = [add(store, person) for person in (bob, bob, eve)]
    clock.now += 1
    claims.finish(first.id, "a", REPORT)
    order = []
    for _ in range(6):
        clock.now += 1
        claim = claims.claim("a", 100)
        assert claim
        claims.finish(claim.id, "a", REPORT)
        order.append(claim.id)
    bobs, bobs_second, eves = others
    assert order == [bobs, eves, flood[1], bobs_second, flood[2], flood[3]]


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(2, 5))]
)
def test_the_lines_pick_whom_a_look_at_all_submissions_would(
    claims: Claims, store: Store, clock: Clock, seed: int
) -> None:
    """The oracle reads every submission: least recently served, then the oldest of theirs."""
    rng = random.Random(seed)
    everybody = [store.roster.add(f"L{i}", LEARNER) for i in range(5)]
    rows: dict[int, list[Any]] = {}  # id -> person, state, finished at
    held: list[int] = []

    def served(person: int) -> float:
        theirs = [row for row in rows.values() if row[0] == person]
        if any(row[1] == "grading" for row in theirs):
            return math.inf
        return max((row[2] for row in theirs), default=0.0)

    for _ in range(120):
        clock.now += 1
        step = rng.choice(("add", "claim", "claim", "finish", "put back", "regrade"))
        if step == "add":
            person = rng.choice(everybody)
            rows[add(store, person)] = [person.id, "stored", 0.0]
        elif step == "claim":
            waiting = [number for number, row in rows.items() if row[1] == "stored"]
            expected = min(waiting, key=lambda n: (served(rows[n][0]), n), default=None)
            claim = claims.claim("a", 1000)
            assert (claim.id if claim else None) == expected
            if claim:
                rows[claim.id][1] = "grading"
                held.append(claim.id)
        elif step == "regrade":
            done = [number for number, row in rows.items() if row[1] == "graded"]
            if done:
                again = rng.choice(done)
                assert claims.regrade(again)
                rows[again][1] = "stored"
        elif held:
            number = held.pop(rng.randrange(len(held)))
            if step == "finish":
                claims.finish(number, "a", REPORT)
                rows[number][1:] = ["graded", clock.now]
            else:
                claims.put_back(number, "a")
                rows[number][1] = "stored"


def test_a_lease_that_ran_out_does_not_put_its_person_last(
    claims: Claims, ada: Person, store: Store, clock: Clock
) -> None:
    number = add(store, ada)
    assert claims.claim("gone", 10)
    clock.now += 20
    add(store, store.roster.add("Bob", LEARNER))
    claim = claims.claim("next", 10)
    assert claim and claim.id == number


def test_the_oldest_is_claimed_first_and_once(claims: Claims, store: Store, ada: Person) -> None:
    numbers = [add(store, ada) for _ in range(3)]
    found = [claims.claim("a", 10), claims.claim("b", 10), claims.claim("a", 10)]
    assert [claim.id for claim in found if claim] == numbers
    assert claims.claim("a", 10) is None


def test_many_workers_never_claim_the_same(claims: Claims, store: Store, ada: Person) -> None:
    numbers = [add(store, ada) for _ in range(40)]
    taken: list[int] = []

    def take(owner: str) -> None:
        while claim := claims.claim(owner, 10):
            taken.append(claim.id)

    threads = [threading.Thread(target=take, args=(f"worker {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == numbers


def test_a_lease_that_ran_out_is_claimed_again(
    claims: Claims, store: Store, ada: Person, clock: Clock
) -> None:
    number = add(store, ada)
    assert claims.claim("gone", 10)
    clock.now += 9
    assert claims.claim("next", 10) is None
    clock.now += 2
    again = claims.claim("next", 10)
    assert again and (again.id, again.tries) == (number, 0)


def test_a_renewed_lease_is_kept(claims: Claims, store: Store, ada: Person, clock: Clock) -> None:
    number = add(store, ada)
    claims.claim("first", 10)
    clock.now += 9
    assert claims.renew(number, "first", 10)
    clock.now += 9
    assert claims.claim("second", 10) is None


def test_who_lost_the_claim_cannot_write_the_grade(
    claims: Claims, store: Store, ada: Person, clock: Clock
) -> None:
    number = add(store, ada)
    claims.claim("slow", 10)
    clock.now += 11
    claims.claim("quick", 10)
    wrong, right = Report("lab", (), error="slow"), Report("lab", (), error="quick")
    assert not claims.finish(number, "slow", wrong)
    assert not claims.renew(number, "slow", 10)
    assert claims.finish(number, "quick", right)
    assert not claims.finish(number, "quick", wrong)
    entry, report = store.submissions.get(number), store.submissions.report(number)
    assert entry and report and (entry.state, report.error) == ("graded", "quick")


def test_a_submission_that_fails_graders_while_the_solution_passes_is_parked_after_two_tries(
    claims: Claims, store: Store, ada: Person, grader: Any
) -> None:
    number = add(store, ada, "die")
    queue = queue_over(claims, grader)
    while queue.work(grader):
        pass
    assert graded_texts(grader, "die") == 2
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score, entry.tries) == ("parked", None, 2)
    assert entry.reason and "status -9" in entry.reason
    assert queue.reasons() == {}
    assert [parked.id for parked in store.submissions.parked()] == [number]


def test_what_is_parked_is_tried_again_in_bulk(
    claims: Claims, store: Store, ada: Person, grader: Any
) -> None:
    numbers = [add(store, ada, "die") for _ in range(3)]
    queue = queue_over(claims, grader)
    while queue.work(grader):
        pass
    assert claims.waiting().parked == 3
    assert claims.retry_parked() == 3
    assert (claims.waiting().waiting, claims.waiting().parked) == (3, 0)
    while queue.work(grader):
        pass
    assert graded_texts(grader, "die") == 12
    assert sorted(parked.id for parked in store.submissions.parked()) == numbers


def test_an_honest_submission_behind_a_deadly_one_is_graded(
    claims: Claims, store: Store, ada: Person, grader: Any
) -> None:
    add(store, ada, "die")
    number = add(store, ada, "x = 1")
    queue = queue_over(claims, grader)
    while queue.work(grader):
        pass
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score) == ("graded", 4.0)


def test_what_is_not_the_notebooks_fault_pauses_says_why_and_goes_on_by_itself(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    numbers = [add(store, ada, "x = 1") for _ in range(3)]
    queue = queue_over(claims, grader, clock=clock)
    grader.out_of_order = "SandboxMissing: sandbox: bwrap is not installed"
    for _ in range(20):
        clock.now += 1
        queue.work(grader)
    assert queue.reasons() == {"lab": "SandboxMissing: sandbox: bwrap is not installed"}
    waiting = claims.waiting()
    assert (waiting.waiting, waiting.parked, waiting.oldest_s) == (3, 0, 20.0)
    assert {entry.state for entry in store.submissions.all()} == {"stored"}
    grader.out_of_order = ""
    clock.now += 11
    while queue.work(grader):
        pass
    assert queue.reasons() == {}
    found = [store.submissions.get(number) for number in numbers]
    assert [(e.state, e.score, e.tries) for e in found if e] == [("graded", 4.0, 0)] * 3


def test_a_grader_that_can_grade_nothing_pauses_at_once_and_blames_nobody(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    class Away:
        reason = "no scheduler"

        def grade(self, lab: str, notebook: bytes) -> Report:
            if self.reason and notebook != SOLUTION:  # it would grade a solution by now
                raise GraderUnable(self.reason)
            return grader.grade(lab, notebook)

    number, away = add(store, ada, "x = 1"), Away()
    queue = queue_over(claims, away, clock=clock)
    assert queue.work(away)
    assert queue.reasons() == {"lab": "no scheduler"}
    away.reason = ""
    clock.now += 11
    assert queue.work(away)
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score, entry.tries) == ("graded", 4.0, 0)


class Poor:
    """Grades as where the modules in `missing` are not installed; a notebook names what it uses."""

    def __init__(self, missing: str) -> None:
        self.missing = missing
        self.graded: list[bytes] = []

    def grade(self, lab: str, notebook: bytes) -> Report:
        self.graded.append(notebook)
        name = next((n for n in self.missing.split() if n.encode() in notebook), None)
        note = f"Cell 1, line 2 stopped: ModuleNotFoundError: No module named {name!r}"
        score, notes = (4.0, ()) if name is None else (1.0, (note,))
        return Report(
            lab, (CheckResult("c", "q", Outcome.CORRECT, score, 4.0),), notes=notes
        ).with_totals()


def test_a_module_that_the_solution_misses_too_pauses_the_lab_and_marks_nobody_down(
    claims: Claims, store: Store, ada: Person, clock: Clock
) -> None:
    number = add(store, ada, "import torch")
    grader: Any = Poor("torch")
    solution: Any = {"solution": lambda lab: b"import torch  # ours"}
    queue = Queue(claims, lambda: grader, owner="node/1", clock=clock, **solution)
    assert queue.work(grader)
    missing = "ModuleNotFoundError: No module named 'torch'"
    assert queue.reasons() == {"lab": f"the solution gets 1 of 4 here: {missing}"}
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score) == ("stored", None)
    grader.missing = ""
    clock.now += 11
    while queue.work(grader):
        pass
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score, entry.tries) == ("graded", 4.0, 0)


def test_a_module_that_a_notebook_alone_misses_is_its_own_loss(
    claims: Claims, store: Store, ada: Person, clock: Clock
) -> None:
    numbers = [add(store, ada, "import seaborn") for _ in range(2)]
    grader: Any = Poor("seaborn")
    queue = queue_over(claims, grader, clock=clock)
    while queue.work(grader):
        pass
    found = [store.submissions.get(number) for number in numbers]
    assert [(e.state, e.score) for e in found if e] == [("graded", 1.0)] * 2
    assert grader.graded.count(SOLUTION) == 1


def test_tries_that_count_are_none_of_the_times_when_the_grader_was_out_of_order(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    number = add(store, ada, "die")
    queue = queue_over(claims, grader, clock=clock)
    for out_of_order in ("", "no sandbox"):
        grader.out_of_order = out_of_order
        queue.work(grader)
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.tries) == ("stored", 0)


def test_a_lab_that_is_out_of_order_holds_up_no_other(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    def solution(lab: str) -> bytes:
        if lab == "broken":
            raise LabError("checks.py:3: no such name")
        return SOLUTION

    queue = Queue(claims, lambda: grader, owner="node/1", solution=solution, clock=clock)
    broken = [add(store, ada, "die", "broken") for _ in range(4)]
    fine = [add(store, ada, "x = 1", "fine") for _ in range(4)]
    while queue.work(grader):
        pass
    assert queue.reasons() == {"broken": "LabError: checks.py:3: no such name"}
    states = {entry.id: entry.state for entry in store.submissions.all()}
    assert {states[number] for number in fine} == {"graded"}
    assert {states[number] for number in broken} == {"stored"}
    assert graded_texts(grader, "die") == 1


def test_what_waits_is_not_forgotten_where_the_database_fails_as_a_lab_is_mended(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    class Away:
        """Claims whose next release finds the database away."""

        failures = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(claims, name)

        def release(self, except_of: Any, most: int | None = None) -> int:
            if not except_of and self.failures:
                self.failures -= 1
                raise OSError("no space left on device")
            return claims.release(except_of, most)

    number = add(store, ada, "x = 1")
    away = Away()
    queue = queue_over(away, grader, clock=clock)  # type: ignore[arg-type]
    grader.out_of_order = "no sandbox"
    queue.work(grader)
    grader.out_of_order, away.failures = "", 1
    clock.now += 11
    with pytest.raises(OSError, match="no space"):
        queue.work(grader)
    assert queue.reasons() == {"lab": "no sandbox"}
    clock.now += 11
    assert queue.work(grader)
    entry = store.submissions.get(number)
    assert entry and entry.state == "graded"


def test_a_disk_that_stays_full_is_logged_once(
    claims: Claims, grader: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Full:
        def __getattr__(self, name: str) -> Any:
            return getattr(claims, name)

        def claim(self, *_: Any, **__: Any) -> Any:
            raise OSError("database or disk is full")

    queue = queue_over(Full(), grader)  # type: ignore[arg-type]
    assert not any(queue._try(grader) for _ in range(3))
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_another_server_tries_one_of_what_is_held_before_the_others(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    numbers = [add(store, ada, "x = 1") for _ in range(5)]
    assert claims.claim("killed/1", 10, avoid=["lab"]) is None
    grader.out_of_order = "no sandbox"
    queue = queue_over(claims, grader, clock=clock)
    assert queue.work(grader)
    assert not queue.work(grader)
    assert graded_texts(grader, "x = 1") == 2  # that one, and the solution
    assert claims.release(except_of=(), most=9) == 5  # all of them wait for the lab still
    grader.out_of_order = ""
    clock.now += 11
    while queue.work(grader):
        pass
    assert [entry.id for entry in store.submissions.all() if entry.state == "graded"] == numbers[
        ::-1
    ]


def test_servers_put_a_lab_aside_while_many_hand_in_and_none_waits_in_a_circle(
    claims: Claims, store: Store
) -> None:
    everybody = [store.roster.add(f"L{number}", LEARNER) for number in range(24)]
    over = threading.Event()

    def hand_in(people: list[Person]) -> None:
        for _ in range(4):
            for person in people:
                add(store, person)

    def put_aside(owner: str) -> None:
        while not over.is_set():
            assert claims.claim(owner, 10, avoid=["lab"]) is None

    with ThreadPoolExecutor(8) as threads:
        servers = [threads.submit(put_aside, f"server{n}/1") for n in range(4)]
        clients = [threads.submit(hand_in, everybody[n::4]) for n in range(4)]
        wait(clients)
        over.set()
    for done in (*clients, *servers):
        done.result()
    assert claims.claim("last/1", 10, avoid=["lab"]) is None
    assert claims.release(except_of=()) == 24 * 4


def test_a_lab_whose_solution_hangs_leaves_the_others_their_time(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    class Hangs:
        def grade(self, lab: str, notebook: bytes) -> Report:
            if lab == "hangs":
                clock.now += 900
                raise LabError("no answer in 900 s")
            return grader.grade(lab, notebook)

    judge = Hangs()
    queue = Queue(claims, lambda: judge, owner="node/1", solution=lambda lab: SOLUTION, clock=clock)
    add(store, ada, "x = 1", "hangs")
    queue.work(judge)
    fine = [add(store, ada, "x = 1", "fine") for _ in range(40)]
    began = clock.now
    while {e.state for e in store.submissions.all() if e.id in fine} != {"graded"}:
        clock.now += 10  # what one of them takes
        queue.work(judge)
    assert clock.now - began < 40 * 10 + 2 * 900


def test_staff_need_not_wait_for_the_next_look(
    claims: Claims, store: Store, ada: Person, grader: Any, clock: Clock
) -> None:
    add(store, ada, "x = 1")
    queue = queue_over(claims, grader, clock=clock)
    grader.out_of_order = "no sandbox"
    queue.work(grader)
    grader.out_of_order = ""
    assert not queue.work(grader)
    queue.resume()
    assert queue.work(grader)
    assert claims.waiting().waiting == 0


def test_a_grader_that_raises_is_counted_like_a_death(
    claims: Claims, store: Store, ada: Person
) -> None:
    class Broken:
        def grade(self, lab: str, notebook: bytes) -> Report:
            if notebook == SOLUTION:
                return REPORT
            raise ZeroDivisionError("ours")

        def close(self) -> None:
            pass

    number = add(store, ada)
    queue = queue_over(claims, Broken())
    while queue.work(Broken()):
        pass
    entry = store.submissions.get(number)
    assert entry and entry.state == "parked" and "ZeroDivisionError" in (entry.reason or "")


def test_ends_of_the_server_never_count(
    claims: Claims, store: Store, ada: Person, grader: Any
) -> None:
    number = add(store, ada, "x = 1")
    for _ in range(10):
        assert claims.claim("node/1", 10)
        assert claims.free_orphans("node") == 1
    queue_over(claims, grader).work(grader)
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.score) == ("graded", 4.0)


def test_kills_from_outside_are_no_tries_but_have_an_end(
    claims: Claims, store: Store, ada: Person, grader: Any
) -> None:
    number = add(store, ada, "kill")
    queue = queue_over(claims, grader)
    for _ in range(10):
        assert queue.work(grader)
    entry = store.submissions.get(number)
    assert entry and (entry.state, entry.tries) == ("stored", 0)
    while queue.work(grader):
        pass
    entry = store.submissions.get(number)
    assert entry and entry.state == "parked"
    assert graded_texts(grader, "kill") == MAX_KILLS + 1


def test_orphans_of_this_node_are_freed_and_of_others_are_not(
    claims: Claims, store: Store, ada: Person
) -> None:
    add(store, ada)
    add(store, ada)
    claims.claim("ours/1", 10)
    claims.claim("ours_too/1", 10)
    assert claims.free_orphans("ours") == 1
    assert [entry.state for entry in store.submissions.all()] == ["grading", "stored"]


def test_what_was_held_back_waits_again_after_a_restart(
    claims: Claims, store: Store, ada: Person
) -> None:
    number = add(store, ada)
    assert claims.claim("ours/1", 10, avoid=["lab"]) is None
    assert claims.claim("ours/1", 10) is None
    claims.free_orphans("ours")
    assert claims.release(except_of=["lab"]) == 0
    assert claims.release(except_of=[], most=1) == 1
    claim = claims.claim("ours/2", 10)
    assert claim and claim.id == number


def test_a_stopped_server_gives_its_work_back(start: Callable[..., Any]) -> None:
    with start() as running:
        learner = running.enroll("Ada")
        learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "wait x = 1"}]}')
        assert running.grader.entered.wait(30)
        submissions = running.server.course.store.submissions
    entry = submissions.get(1)
    assert entry and (entry.state, entry.tries) == ("stored", 0)
    with start() as running:
        running.grader.gate.set()
        assert running.wait(1) == "graded"


def test_work_left_by_a_killed_server_is_graded_by_the_next(
    start: Callable[..., Any], settings: Any
) -> None:
    with start() as running:
        running.enroll("Ada")
        node = running.server._queue._owner.partition("/")[0]
    store = Store(sqlite_url(settings.data))
    ada = store.roster.find("Ada")
    assert ada
    store.submissions.add(ada, "01_first", b"x = 1")
    store.claims.claim(f"{node}/4242", 3600)
    store.close()
    with start() as running:
        assert running.wait(1) == "graded"


def test_a_regrade_goes_through_the_queue_again(running: Any) -> None:
    learner, course = running.enroll("Ada"), running.server.course
    number = learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "die"}]}')["id"]
    assert running.wait(number) == "parked"
    assert course.store.claims.regrade(number)
    course.queue.wake()
    assert running.wait(number) == "parked"
    assert graded_texts(running.grader, "die") == 4
    assert not course.store.claims.regrade(99)
    assert not course.store.claims.regrade(10**30)  # more than a database can hold


def test_two_servers_do_not_share_a_data_directory(start: Callable[..., Any]) -> None:
    with start(), pytest.raises(StartError, match="in use by another"), start():
        pass


def test_the_instructor_token_is_private_and_stays(
    start: Callable[..., Any], settings: Any
) -> None:
    path = settings.data / "instructor.token"
    with start() as running:
        first = running.staff.token
        assert path.stat().st_mode & 0o777 == 0o600
        database = b"".join(p.read_bytes() for p in settings.data.glob("course.sqlite3*"))
        assert first.encode() not in database and first.split(".")[1].encode() not in database
    with start() as running:
        assert running.staff.token == first
        running.enroll("Ada")
    path.unlink()
    with start() as running:
        assert running.staff.token != first
        running.enroll("Bob")


def test_a_database_of_another_layout_is_refused(start: Callable[..., Any], settings: Any) -> None:
    import sqlite3

    with start():
        pass
    connection = sqlite3.connect(settings.data / "course.sqlite3")
    connection.execute("UPDATE facts SET value = '999'")
    connection.commit()
    connection.close()
    with pytest.raises(StartError, match="another layout"), start():
        pass


def test_a_file_that_is_no_database_is_refused(start: Callable[..., Any], settings: Any) -> None:
    settings.data.mkdir()
    (settings.data / "course.sqlite3").write_text("certainly not a database" * 100)
    with pytest.raises(StartError, match=r"cannot be opened.*restores a copy"), start():
        pass
