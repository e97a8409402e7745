"""A pool of processes: jobs that kill, hang, refuse or talk nonsense cost themselves alone."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograder.grading.line_process import JobRefused, LineProcess, ProcessEnded
from autograder.grading.pool import Pool

# Obeys: each order is a statement, and the answer is what `said` is then.
OBEYS = """
import os, sys, time
from pathlib import Path
from autograder.grading.line_process import Serving, refusal

serving = Serving()

def answer(request):
    space = {**globals(), "said": None, "instead": None}
    exec(request["order"], space)
    return space["instead"] or {"said": space["said"]}

serving.run(answer)
"""
HANGS = "time.sleep(3600)"
# Leaves a child in a session of its own, which has said its number.
LEAVES = """
if not os.fork():
    os.setsid()
    Path("draft").write_text(str(os.getpid()))
    Path("draft").rename("child")
    time.sleep(3600)
while not Path("child").exists():
    time.sleep(0.005)
os.kill(os.getpid(), 9)
"""


def start() -> LineProcess:
    return LineProcess(["-c", OBEYS])


@pytest.fixture
def pool() -> Iterator[Pool]:
    with closing(Pool(start)) as found:
        yield found


def order(text: str) -> dict[str, Any]:
    return {"order": text}


def pid_of(pool: Pool) -> int:
    found: int = pool.ask(order("said = os.getpid()"))["said"]
    return found


@pytest.mark.parametrize(
    ("text", "says", "status"),
    [
        ("os._exit(3)", "exit status 3", 3),
        ("os.kill(os.getpid(), 9)", "exit status -9", -9),
        ("raise OSError('no disk')", "OSError: no disk", 1),
        ("os.write(serving._answers, b'nonsense\\n'); os._exit(4)", "exit status 4", 4),
    ],
)
def test_a_job_that_ends_its_process_says_how_and_the_next_has_another(
    pool: Pool, text: str, says: str, status: int
) -> None:
    with pytest.raises(ProcessEnded, match=says) as caught:
        pool.ask(order(text))
    ended = caught.value
    assert (ended.status, ended.ours, ended.overran) == (status, False, False)
    assert pool.ask(order("said = 1")) == {"said": 1}


def test_a_job_that_overruns_is_ended_with_what_it_started(pool: Pool, tmp_path: Path) -> None:
    child = tmp_path / "child"
    text = f"""
child = os.fork()
if child:
    Path({str(child)!r}).write_text(str(child))
{HANGS}"""
    timeout_s = 0.5
    while not child.exists():  # on a busy machine it does not come so far at first
        timeout_s *= 2
        with pytest.raises(ProcessEnded) as caught:
            pool.ask(order(text), timeout_s=timeout_s)
    assert (caught.value.status, caught.value.ours, caught.value.overran) == (-9, True, True)
    assert is_over(int(child.read_text()))
    assert pool.ask(order("said = 1"), timeout_s=60.0) == {"said": 1}


def is_over(pid: int) -> bool:
    """Wait for the end of a process; a hang here is a failure."""
    status = Path(f"/proc/{pid}/stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.005)
    return True


def test_a_dead_process_whose_child_holds_its_output_open_is_noticed(pool: Pool) -> None:
    """The child is out of reach, in a session of its own; nothing but the deadline would end it."""
    process = start()
    with pytest.raises(ProcessEnded, match="exit status -9") as caught:
        process.ask(order(LEAVES))
    assert not caught.value.ours
    os.kill(int((process._directory.path / "child").read_text()), 9)
    process.close()


def test_a_refusal_has_its_reason_and_costs_its_process(pool: Pool) -> None:
    first = pid_of(pool)
    with pytest.raises(JobRefused, match="no lab") as caught:
        pool.ask(order("instead = refusal(KeyError('no lab'), fatal=True)"))
    assert (caught.value.kind, caught.value.fatal) == ("KeyError", True)
    assert pid_of(pool) != first


def test_a_process_that_was_killed_while_idle_is_replaced_unnoticed(pool: Pool) -> None:
    first = pid_of(pool)
    os.kill(first, 9)
    is_over(first)
    assert pid_of(pool) != first


def test_answers_come_when_they_are_ready_with_the_number_of_their_request(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    waits = f"while not Path({str(gate)!r}).exists(): pass\nsaid = 'late'"
    seen = []
    with closing(Pool(start, 2)) as pool:
        for number, answer in pool.answers([order(waits), order("os._exit(3)"), order("said = 2")]):
            seen.append((number, str(answer) if isinstance(answer, ProcessEnded) else answer))
            if len(seen) == 2:
                gate.touch()
    assert seen == [(1, "exit status 3"), (2, {"said": 2}), (0, {"said": "late"})]


def test_no_more_processes_than_were_asked_for_and_none_that_is_not_wanted() -> None:
    with closing(Pool(start, 3)) as pool:
        pids = {pid_of(pool) for _ in range(5)}
        assert len(pids) == 1
        said = [a for _, a in pool.answers([order("said = os.getpid()")] * 20)]
        assert 1 <= len({a["said"] for a in said if not isinstance(a, ProcessEnded)}) <= 3


@pytest.mark.parametrize("end", ["leave", "kill"])
def test_who_leaves_answers_early_ends_everything(tmp_path: Path, end: str) -> None:
    ready, more = [tmp_path / name for name in "ab"], tmp_path / "more"
    jobs = [order(f"Path({str(path)!r}).write_text(str(os.getpid())); {HANGS}") for path in ready]
    jobs += [order(f"Path({str(more)!r}).touch()")] * 20
    pool = Pool(start, 3)
    answers = pool.answers([order("said = 1"), *jobs[:2]])
    assert next(answers) == (0, {"said": 1})
    while not all(path.exists() and path.read_text() for path in ready):
        time.sleep(0.005)
    if end == "leave":
        answers.close()
    else:
        pool.kill()
        assert {number for number, _ in answers} == {1, 2}
    assert all(is_over(int(path.read_text())) for path in ready)
    with pytest.raises(ProcessEnded, match="stopped") as caught:
        pool.ask(order("said = 1"))
    assert caught.value.status is None
    pool.close()


def test_close_waits_for_the_job_that_is_under_way(tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    waits = f"""
Path({str(begun)!r}).touch()
while not Path({str(gate)!r}).exists(): time.sleep(0.005)
said = 'done'"""
    pool, found = Pool(start), []
    asking = in_thread(lambda: found.append(pool.ask(order(waits))))
    while not begun.exists():
        time.sleep(0.005)
    closing_ = in_thread(pool.close)
    gate.touch()
    asking.join()
    closing_.join()
    assert found == [{"said": "done"}]


def in_thread(action: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=action)
    thread.start()
    return thread


def test_large_requests_and_answers_pass_and_what_is_printed_does_not(pool: Pool) -> None:
    large = "y" * 3_000_000
    text = f"print('printed'); said = len({large!r}) * 'x'"
    assert pool.ask(order(text)) == {"said": "x" * len(large)}


def test_what_a_long_life_writes_as_errors_is_not_kept() -> None:
    process = start()
    for number in range(3):
        process.ask(order(f"sys.stderr.write('{number}' * 100_000); sys.stderr.flush()"))
        assert process._errors is not None
        assert os.fstat(process._errors.fileno()).st_size == 0
    with pytest.raises(ProcessEnded, match=r"^last words$"):
        process.ask(order("sys.stderr.write('first\\nlast words\\n'); os._exit(1)"))
    process.close()
