"""The sandbox as a check sees it: real workers, warm and cold, and ranks between which we stand."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autograder.errors import CheckBroken, LimitReached, NotAttempted, SandboxError, StudentError
from autograder.records import MIB, Limits, Statement
from autograder.sandbox import launch, layout, watch, worker_pool
from autograder.sandbox.host import Sandbox
from autograder.sandbox.process import Process
from autograder.sandbox.worker_pool import Supply

pytestmark = pytest.mark.sandbox
LIMITS = Limits(
    wall_s=240, cpu_s=240, call_s=60, memory_bytes=256 * MIB, processes=24, file_bytes=8 * MIB
)


FILES = "OSError memory"  # a warm worker's file systems refuse; a cold one's are watched


def statements(*texts: str) -> list[Statement]:
    """Return statements that bind the name they define: `def f`, `f = ...`."""
    made = []
    for line, text in enumerate(texts, 1):
        first = text.removeprefix("def ").split("(")[0].split("=")[0].strip()
        made.append(Statement(text, (first,) if first.isidentifier() else (), line=line))
    return made


@pytest.fixture(scope="module", params=["warm", "cold"])
def supply(request: pytest.FixtureRequest) -> Iterator[Supply]:
    made = Supply(wall="bubblewrap", warm=request.param == "warm")
    yield made
    assert not made.reasons
    made.close()


@pytest.fixture(scope="module")
def warm() -> Iterator[Supply]:
    made = Supply(wall="bubblewrap")
    yield made
    made.close()


@pytest.fixture
def student(supply: Supply) -> Iterator[Sandbox]:
    with Sandbox(LIMITS, source=supply) as made:
        yield made


def test_calls_values_and_sources_are_the_learners(student: Sandbox) -> None:
    text = "def double(x, *, plus=0):\n    return 2 * x + plus"
    assert not student.load(statements("import numpy as np", text, "size = (3, [4.5])"))
    np.testing.assert_array_equal(student.call("double", np.arange(3), plus=1), [1, 3, 5])
    assert student.value("size") == (3, [4.5])
    assert student.source("double") == text
    assert student.source("triple") is None
    assert student.kind == "bubblewrap"


def test_a_statement_that_fails_costs_only_what_needs_it(student: Sandbox) -> None:
    given = [
        Statement("broken = 1 / 0", ("broken",), (), 3, 2),
        Statement("after = broken + 1", ("after",), ("broken",)),
        Statement("fine = 1", ("fine",)),
    ]
    failures = student.load(given)
    assert [f.type_name for f in failures] == ["ZeroDivisionError"] * 2
    assert student.value("fine") == 1
    for name in ("broken", "after"):
        with pytest.raises(StudentError, match="ZeroDivisionError"):
            student.value(name)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os; bad = os._exit(7)", "exit code 7"),
        ("import ctypes; bad = ctypes.string_at(0)", "SIGSEGV"),
        ("bad = [b'x' * (1 << 20) for _ in iter(int, 1)]", "memory|MemoryError"),
    ],
    ids=["exits", "crashes", "eats memory"],
)
def test_a_statement_that_ends_its_process_costs_only_itself(
    student: Sandbox, text: str, says: str
) -> None:
    given = [*statements("before = 1"), Statement(text, ("bad",)), *statements("later = before")]
    failures = student.load(given)
    assert [f.statement.text for f in failures] == [text]
    assert student.value("later") == 1
    with pytest.raises((LimitReached, StudentError), match=says):
        student.value("bad")


def test_a_statement_that_hangs_costs_only_itself(student: Sandbox) -> None:
    hangs = Statement("bad = any(iter(int, 1))", ("bad",))
    assert not student.load(statements("before = 1"))
    student.limits = replace(LIMITS, call_s=0.5)
    assert [f.statement for f in student.load([hangs])] == [hangs]
    student.limits = LIMITS
    assert not student.load(statements("later = before"))
    assert student.value("later") == 1
    with pytest.raises(LimitReached, match="ended after"):
        student.value("bad")


def test_what_the_learner_raises_arrives_as_text(student: Sandbox) -> None:
    student.load(
        statements(
            "def wrong(x):\n    return [][x]",
            "def later():\n    raise NotImplementedError('later')",
            "hole = ...",
        )
    )
    with pytest.raises(StudentError) as caught:
        student.call("wrong", 3)
    assert caught.value.type_name == "IndexError"
    assert "return [][x]" in caught.value.traceback
    for ask in (lambda: student.call("later"), lambda: student.value("hole")):
        with pytest.raises(NotAttempted):
            ask()
    with pytest.raises(NotAttempted, match="nowhere"):
        student.call("nowhere")


def test_after_a_limit_the_next_call_finds_the_same_names(student: Sandbox) -> None:
    student.load(
        statements("def spin():\n    while True: pass", "n = 5", "def add(x):\n    return x + n")
    )
    student.allow(0.3)
    with pytest.raises(LimitReached, match="spin: ended after") as caught:
        student.call("spin")
    assert caught.value.kind == "time"
    student.allow(60.0)
    assert student.call("add", 1) == 6


def test_time_that_is_used_up_is_not_exceeded(student: Sandbox) -> None:
    student.load(statements("def fine():\n    return 1"))
    student.allow(0.0)
    with pytest.raises(LimitReached, match="used up") as caught:
        student.call("fine")
    assert caught.value.kind == "time"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("np.ones(1 << 40)", "MemoryError"),
        ("hold = [np.ones(1 << 18) for _ in iter(int, 1)]", "memory"),
        ("[print('x' * 100_000) for _ in iter(int, 1)]", "output"),
        ("open('/tmp/f', 'wb').write(bytes(9 << 20))", "OSError"),
        ("os.kill(os.getpid(), 9)", "died"),
        ("[open(f'/tmp/{n}', 'w').close() for n in range(30_000)]", FILES),
    ],
)
def test_each_limit_says_which_it_was(student: Sandbox, body: str, kind: str) -> None:
    student.load(statements("import numpy as np, os", f"def use():\n    {body}"))
    student.allow(60.0)
    with pytest.raises((LimitReached, StudentError)) as caught:
        student.call("use")
    said = getattr(caught.value, "kind", "") or getattr(caught.value, "type_name", "")
    assert said in kind.split()


def test_processor_time_is_limited_over_all_processes(supply: Supply) -> None:
    with Sandbox(LIMITS, source=supply) as student:
        student.load(statements("def spin():\n    while True: pass"))
        assert student._worker is not None
        begun_s = watch.usage(student._worker.pid)[1]  # to start in takes some, and no fixed time
        student.limits = replace(LIMITS, cpu_s=begun_s + 0.3)
        with pytest.raises(LimitReached, match="CPU") as caught:
            student.call("spin")
        assert caught.value.kind == "cpu"


def test_what_is_printed_is_kept_up_to_the_limit_and_changes_nothing(supply: Supply) -> None:
    with Sandbox(replace(LIMITS, output_bytes=1000), source=supply) as student:
        student.load(statements("def talk():\n    print('hello' * 1000, flush=True)\n    return 1"))
        assert student.call("talk") == 1
    assert student.output.startswith(b"hellohello")
    assert len(student.output) == 1000


def test_a_probe_runs_among_the_learners_names(student: Sandbox) -> None:
    student.load(statements("secret_factor = 3", "def scale(x):\n    return secret_factor * x"))
    assert student.probe(calls_scale, x=np.arange(2)) == [0, 3]


def calls_scale(x: Any, n: int = 2) -> Any:
    return [int(v) for v in scale(x)[:n]]  # type: ignore[name-defined]  # noqa: F821


def test_two_submissions_share_no_file_and_no_name(supply: Supply) -> None:
    leave = (
        "def leave():\n    open('/tmp/left', 'w').write('x')\n    import numpy\n    numpy.left = 1"
    )
    look = (
        "def look():\n    import os, numpy\n"
        "    return os.path.exists('/tmp/left') or hasattr(numpy, 'left')"
    )
    with Sandbox(LIMITS, source=supply) as one, Sandbox(LIMITS, source=supply) as other:
        for student in (one, other):
            student.load(statements(leave, look))
        one.call("leave")
        assert one.call("look") is True
        assert other.call("look") is False
    with Sandbox(LIMITS, source=supply) as third:
        third.load(statements(look))
        assert third.call("look") is False


def test_random_numbers_differ_between_submissions(supply: Supply) -> None:
    drawn = set()
    for _ in range(2):
        with Sandbox(LIMITS, preload=("numpy.random",), source=supply) as student:
            student.load(statements("import random, numpy as np"))
            drawn |= set(student.probe(draws))
    assert len(drawn) == 6


def draws() -> Any:
    return (random.random(), float(np.random.rand()), float(np.random.default_rng().random()))  # type: ignore[name-defined]  # noqa: F821


def test_students_of_several_threads_do_not_disturb_each_other(warm: Supply) -> None:
    answers: list[Any] = []

    def grade(n: int) -> None:
        with Sandbox(LIMITS, source=warm) as student:
            student.load(statements(f"def f(x):\n    return x + {n}"))
            answers.extend(student.call("f", x) - x for x in range(20))

    threads = [threading.Thread(target=grade, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(list(range(4)) * 20)


RING = """def ring(comm, x, times=1):
    for _ in range(times):
        comm.send(x, (comm.rank + 1) % comm.size)
        x = comm.recv((comm.rank - 1) % comm.size)
    return x"""


def test_the_judge_sees_every_message_between_ranks(warm: Supply) -> None:
    inputs = [(np.full(3, float(rank)), 2) for rank in range(4)]
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements(RING))
        run = student.ranks("ring", 4, inputs)
    for rank, result in enumerate(run.results):
        np.testing.assert_array_equal(result, inputs[(rank - 2) % 4][0])
        assert run.messages_sent(rank) == 2
        assert run.bytes_sent(rank) == 2 * 24
    assert {(m.src, m.dst) for m in run.messages} == {(r, (r + 1) % 4) for r in range(4)}
    assert [m.order for m in run.messages] == list(range(8))


def all_reduces(comm: Any, x: Any) -> Any:
    return comm.all_reduce(x, algorithm="ring")


def test_collectives_run_over_the_judge(warm: Supply) -> None:
    inputs = [np.arange(8.0) * rank for rank in range(4)]
    with Sandbox(LIMITS, source=warm) as student:
        run = student.ranks(all_reduces, 4, inputs)
    for result in run.results:
        np.testing.assert_array_equal(result, np.arange(8.0) * 6)
    assert {run.bytes_sent(rank) for rank in range(4)} == {2 * 3 * 16}


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("comm.recv((comm.rank + 1) % 3)", StudentError, "rank 0 waits for rank 1; rank 1 waits"),
        (
            "comm.rank == 0 and comm.recv(2)",
            StudentError,
            "rank 0 waits for rank 2; rank 1 has ret",
        ),
        ("comm.recv(1) if comm.rank else 1 / 0", StudentError, "rank 0: division by zero"),
        ("comm.recv(1) if comm.rank else __import__('os')._exit(9)", LimitReached, "rank 0.*9"),
        ("comm.rank and exec('raise NotImplementedError')", NotAttempted, "implemented"),
    ],
)
def test_ranks_that_fail_say_which_and_who_waits_for_whom(
    warm: Supply, body: str, error: type[Exception], says: str
) -> None:
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements(f"def go(comm, x):\n    return {body}", "fine = 1"))
        with pytest.raises(error, match=says):
            student.ranks("go", 3, [0, 0, 0])
        assert student.value("fine") == 1


def test_ranks_that_never_end_are_said_to_run(warm: Supply) -> None:
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements("def go(comm, x):\n    return any(iter(int, 1))", "fine = 1"))
        student.allow(0.5)
        with pytest.raises(LimitReached, match="time was used up; rank 0 runs"):
            student.ranks("go", 3, [0, 0, 0])
        student.allow(60.0)
        assert student.value("fine") == 1


def test_what_a_check_gets_wrong_is_a_broken_check(warm: Supply) -> None:
    with Sandbox(LIMITS, source=warm) as student:
        with pytest.raises(CheckBroken):
            student.ranks(all_reduces, 3, [1, 2])
        with pytest.raises(CheckBroken):
            student.probe(lambda: 1)


def test_when_the_zygote_is_killed_the_next_submission_gets_a_new_one(warm: Supply) -> None:
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements("n = 1"))
        _kill_zygotes(warm)
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements("n = 2"))
        assert student.value("n") == 2
        assert student.kind == "bubblewrap"
    assert not warm.reasons


def _kill_zygotes(supply: Supply) -> None:
    """Kill the zygotes of a supply and wait for the end of all that hangs on them."""
    pids = supply.pids()
    os.kill(pids[0], signal.SIGKILL)
    waiting = threading.Event()
    while any(watch.running(pid) for pid in pids):
        waiting.wait(0.01)


def test_a_worker_whose_zygote_is_killed_before_it_greets_is_started_anew(
    warm: Supply, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeted, killed = worker_pool._await_hello, list[int]()

    def kill_first(made: Process) -> None:
        if not killed:
            killed.append(made.pid)
            _kill_zygotes(warm)
            made.channel.close()
        greeted(made)

    monkeypatch.setattr(worker_pool, "_await_hello", kill_first)
    with Sandbox(LIMITS, source=warm) as student:
        student.load(statements("n = 2"))
        assert student.value("n") == 2 and killed
    assert not warm.reasons


def test_a_process_that_is_killed_takes_its_sandboxes_with_it() -> None:
    code = (
        "from autograder.sandbox.host import Sandbox\n"
        "from autograder.sandbox import worker_pool\n"
        "with Sandbox() as s:\n    print(*worker_pool.supply().pids(), flush=True)\n    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as judge:
        assert judge.stdout is not None
        pids = [int(pid) for pid in judge.stdout.readline().split()]
        assert len(pids) >= 4
        judge.kill()
    deadline = threading.Event()
    while any(watch.running(pid) for pid in pids):
        deadline.wait(0.01)


@pytest.mark.parametrize("wall", ["unshare", "limits"])
def test_a_lesser_wall_grades_and_is_called_unsandboxed(wall: str) -> None:
    supply = Supply(wall=wall)
    try:
        with Sandbox(LIMITS, source=supply) as student:
            student.load(statements("n = 2", "def spin():\n    while True: pass"))
            assert student.value("n") == 2
            assert student.kind == "unsandboxed"
            student.allow(0.2)
            with pytest.raises(LimitReached):
                student.call("spin")
    except SandboxError as error:
        python = layout.find().python
        assert not launch.reachable(python), error
        assert "root alone" in str(error)


def test_where_bubblewrap_fails_the_next_wall_is_used_and_the_reason_kept() -> None:
    supply = Supply()
    supply._layout = replace(
        supply._layout, mounts=(*supply._layout.mounts, ("/nowhere-at-all", "/nowhere"))
    )
    if launch.reachable(supply._layout.python) or os.geteuid() != 0:
        with Sandbox(LIMITS, source=supply) as student:
            assert student.kind == "unsandboxed"
        assert len(supply.reasons) == 2
    else:
        with pytest.raises(SandboxError, match="root alone"), Sandbox(LIMITS, source=supply):
            pass
        assert len(supply.reasons) == 4
    assert all("did not start" in reason for reason in supply.reasons[:2])


@pytest.mark.parametrize("warm", [True, False])
def test_a_wall_that_has_held_is_never_given_up_for_a_lesser_one(warm: bool) -> None:
    supply = Supply(warm=warm)
    with Sandbox(LIMITS, source=supply) as student:
        assert student.kind == "bubblewrap"
    supply.close()
    good = supply._layout
    supply._layout = replace(good, mounts=(("/nowhere-at-all", "/nowhere"),))
    with pytest.raises(SandboxError), Sandbox(LIMITS, source=supply):
        pass
    supply._layout = good
    with Sandbox(LIMITS, source=supply) as student:
        assert student.kind == "bubblewrap"
    supply.close()


def test_the_learners_names_are_those_of_main(student: Sandbox) -> None:
    text = (
        "def one(x):\n    return x + 1\n"
        "class Pair:\n    left: 'Pair'\n"
        "def use():\n    import multiprocessing, pickle, typing\n"
        "    from concurrent.futures import ProcessPoolExecutor\n"
        "    forking = multiprocessing.get_context('fork')\n    typing.get_type_hints(Pair)\n"
        "    pickle.loads(pickle.dumps(Pair()))\n"
        "    with ProcessPoolExecutor(1, forking) as pool:\n"
        "        return list(pool.map(one, [1, 2]))"
    )
    assert not student.load([Statement(text, ("one", "Pair", "use"))])
    assert student.call("use") == [2, 3]
