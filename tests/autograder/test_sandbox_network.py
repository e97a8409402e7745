"""One rank's end of the judge's network: what a transport promises, over real workers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autograder.errors import LimitReached, StudentError
from autograder.records import MIB, Limits, Statement, Step
from autograder.sandbox.host import Sandbox
from autograder.sandbox.worker_pool import Supply
from autograder.student.local import LocalStudent

pytestmark = pytest.mark.sandbox
LIMITS = Limits(wall_s=3600, cpu_s=3600, call_s=60, memory_bytes=512 * MIB)  # for all tests
RAW = "contextlib:nullcontext"  # hands the transport itself to the function, as `.enter_result`


@pytest.fixture(scope="module")
def student() -> Iterator[Sandbox]:
    supply = Supply(wall="bubblewrap")
    with Sandbox(LIMITS, source=supply) as made:
        made.load([Statement("import numpy as np", ("np",))])
        yield made
    supply.close()


def run(student: Any, function: Any, size: int = 2, **options: Any) -> Any:
    student.allow(LIMITS.call_s)
    return student.ranks(function, size, list(range(size)), communicator=RAW, **options)


def sends_in_order(holder: Any, _: int) -> Any:
    end = holder.enter_result
    peer = 1 - end.rank
    works = [end.irecv(peer, channel=n % 2) for n in range(6)]
    for n in range(6):
        end.isend(np.full(2, n), peer, channel=n % 2, header=b"h%d" % n)
    got = [(int(work.wait()[0]), work.header) for work in reversed(works)]
    return got[::-1], end.size


def test_messages_of_a_channel_arrive_in_the_order_of_their_sending(student: Sandbox) -> None:
    found = run(student, sends_in_order)
    assert found.results == (([(n, b"h%d" % n) for n in range(6)], 2),) * 2
    assert [m.header for m in found.messages if m.src == 0] == [b"h%d" % n for n in range(6)]
    assert found.bytes_sent(0) == 6 * (16 + len(b"h0"))  # no communicator writes such a header


def sends_and_looks(holder: Any, _: int) -> Any:
    end = holder.enter_result
    if end.rank == 1:
        return float(end.irecv(0).wait()[0])
    sent = end.isend(np.ones(1), 1)
    sent.wait()
    return sent.wait()


def peeks(holder: Any, _: int) -> Any:
    end = holder.enter_result
    if end.rank == 0:
        return end.isend(np.ones(1), 1).wait()
    works = [end.irecv(0), end.irecv(0)]
    end.isend(np.ones(1), 0)
    return [works[0].test(), float(works[0].wait()[0])][1]


@pytest.mark.parametrize("local", [False, True])
def test_steps_say_what_a_rank_did_in_which_order(student: Sandbox, local: bool) -> None:
    asked: Any = LocalStudent({"np": np}) if local else student
    found = run(asked, sends_and_looks, steps=True)
    assert [s for s in found.steps if s.rank == 0] == [Step(0, "send", 1), Step(0, "over", 1)]
    assert [s for s in found.steps if s.rank == 1] == [Step(1, "post", 0), Step(1, "ask", 0)]
    found = run(asked, peeks, steps=True)
    kinds = [step.kind for step in found.steps if step.rank == 1]
    assert (found.results[1], kinds) == (1.0, ["post", "post", "send", "ask"])
    assert run(asked, sends_and_looks).steps == ()


def test_a_message_stays_in_the_network_until_it_is_asked_for(student: Sandbox) -> None:
    found = run(student, sends_in_order, steps=True)  # waits for the last one first
    assert found.results == (([(n, b"h%d" % n) for n in range(6)], 2),) * 2
    assert run(student, looks_into_its_socket, steps=True).results[1] == (False, 1.0)
    assert run(student, looks_into_its_socket).results[1] == (True, 1.0)


def sends_from_a_copy(holder: Any, _: int) -> Any:
    import os

    end = holder.enter_result
    if os.fork() == 0:
        end.isend(np.ones(1), 1 - end.rank)
    return float(end.irecv(1 - end.rank).wait()[0])


def test_a_rank_that_forks_may_not_send_from_the_copy(student: Sandbox) -> None:
    with pytest.raises(StudentError, match=r"RuntimeError: rank .*: comm: used in a copy of its"):
        run(student, sends_from_a_copy)


def asks_for_more_than_it_receives(holder: Any, _: int) -> None:
    end = holder.enter_result
    if end.rank == 0:
        return end.isend(np.ones(1), 1).wait()
    end.irecv(0)
    end.say_step("ask", 0, 0, 2)
    return end.irecv(0).wait()


def test_a_rank_gets_no_message_ahead_of_the_receive_that_waits_for_it(student: Sandbox) -> None:
    with pytest.raises(LimitReached, match="no receive was posted"):
        run(student, asks_for_more_than_it_receives, steps=True)


def looks_into_its_socket(holder: Any, _: int) -> Any:
    import select

    end = holder.enter_result
    if end.rank == 0:
        end.isend(np.ones(1), 1)
        return end.isend(np.ones(1), 1, channel=1).wait()
    second, first = end.irecv(0, channel=1), end.irecv(0)
    second.wait()  # the first was sent before it
    is_there = first.done or bool(select.select([end._connection], [], [], 0)[0])
    return is_there, float(first.wait()[0])


def changes_after_sending(holder: Any, _: int) -> Any:
    end = holder.enter_result
    if end.rank == 0:
        x = np.ones(3)
        end.isend(x, 1).wait()
        x[:] = 7
        return None
    buffer = end.empty(3, "float64")
    assert end.irecv(0, buffer=buffer).wait() is buffer
    return buffer


def test_a_send_copies_and_a_receive_fills_its_buffer(student: Sandbox) -> None:
    np.testing.assert_array_equal(run(student, changes_after_sending).results[1], np.ones(3))


def receives_into_a_wrong_buffer(holder: Any, _: int) -> Any:
    end = holder.enter_result
    if end.rank == 0:
        return end.isend(np.ones(3), 1).wait()
    return end.irecv(0, buffer=np.zeros(4)).wait()


def gives_up_waiting(holder: Any, _: int) -> Any:
    end = holder.enter_result
    if end.rank == 0:
        return end.irecv(1).wait(0.05)
    return end.irecv(0).wait()


def sends_to_nobody(holder: Any, _: int) -> Any:
    holder.enter_result.isend(np.ones(1), 2)


def sends_objects(holder: Any, _: int) -> Any:
    holder.enter_result.isend(np.array([{}]), 0)


@pytest.mark.parametrize(
    ("function", "type_name", "says"),
    [
        (receives_into_a_wrong_buffer, "ValueError", r"rank 1: .*got float64 \(3,\)"),
        (gives_up_waiting, "TimeoutError", "rank 0 waits for a message from rank 1"),
        (sends_to_nobody, "ValueError", "no such rank: got 2"),
        (sends_objects, "TypeError", "dtype object"),
    ],
)
def test_misuse_is_told_to_the_rank_that_did_it(
    student: Sandbox, function: Any, type_name: str, says: str
) -> None:
    with pytest.raises(StudentError, match=says) as caught:
        run(student, function)
    assert caught.value.type_name == type_name


def polls(holder: Any, _: int) -> Any:
    end = holder.enter_result
    peer = 1 - end.rank
    work = end.irecv(peer)
    before = work.test()
    end.isend(np.ones(1), peer)
    n_polls = 1
    while not work.test():
        n_polls += 1
    return before in (True, False), float(work.wait()[0])


def test_a_rank_may_poll_instead_of_waiting(student: Sandbox) -> None:
    assert run(student, polls).results == ((True, 1.0),) * 2


def receives_on_threads(holder: Any, _: int) -> Any:
    import threading

    end = holder.enter_result
    peer, got = 1 - end.rank, {}

    def receive(channel: int) -> None:
        got[channel] = int(end.irecv(peer, channel=channel).wait()[0])

    threads = [threading.Thread(target=receive, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for n in reversed(range(4)):
        end.isend(np.array([n * n]), peer, channel=n)
    for thread in threads:
        thread.join()
    return [got[n] for n in range(4)]


def test_threads_of_a_rank_each_get_their_own_message(student: Sandbox) -> None:
    assert run(student, receives_on_threads).results == ([0, 1, 4, 9],) * 2


def one_thread_waits_while_another_will_send(holder: Any, _: int) -> Any:
    import threading

    end = holder.enter_result
    peer, got = 1 - end.rank, []
    receiver = threading.Thread(target=lambda: got.append(float(end.irecv(peer).wait()[0])))
    receiver.start()
    total = sum(n * n for n in range(3_000_000))  # longer than a rank waits before it says so
    end.isend(np.array([total % 7.0]), peer)
    receiver.join()
    return got


def test_a_rank_that_computes_beside_a_waiting_thread_is_not_deadlocked(
    student: Sandbox,
) -> None:
    results = run(student, one_thread_waits_while_another_will_send).results
    assert results[0] == results[1]


def waits_on_a_thread(holder: Any, _: int) -> Any:
    import threading

    end = holder.enter_result
    receiver = threading.Thread(target=lambda: end.irecv(1 - end.rank).wait())
    receiver.start()
    receiver.join()


def test_a_deadlock_behind_threads_is_found_by_its_silence(student: Sandbox) -> None:
    with pytest.raises(StudentError, match="rank 0 waits for rank 1; rank 1 waits for rank 0"):
        run(student, waits_on_a_thread)


def exchanges_much(holder: Any, _: int) -> Any:
    end = holder.enter_result
    peer = (end.rank + 1) % end.size
    for _ in range(3):
        end.isend(np.full(1 << 20, float(end.rank)), peer)
    return [float(end.irecv((end.rank - 1) % end.size).wait()[-1]) for _ in range(3)]


def test_large_messages_that_no_one_reads_yet_block_no_one(student: Sandbox) -> None:
    found = run(student, exchanges_much, 3)
    assert found.results == ([2.0] * 3, [0.0] * 3, [1.0] * 3)
    assert found.bytes_sent(1) == 3 * (8 << 20)


def test_a_communicator_that_is_not_there_is_named(student: Sandbox) -> None:
    with pytest.raises(StudentError, match="nowhere:Comm"):
        student.ranks(polls, 2, [0, 0], communicator="nowhere:Comm")


LEARNERS = (
    "from __future__ import annotations",
    "print('ran', flush=True)",
    "def wants(holder, x: not_defined_anywhere): return 1 / x",
    "async def later(): return 5",
    "def adds(holder, x): return five + x",
    "five = await later()",
)


def test_ranks_get_code_that_was_compiled_where_nothing_ran() -> None:
    supply = Supply(wall="bubblewrap")
    with Sandbox(LIMITS, source=supply) as made:
        statements = [
            Statement(text, (text.split("(")[0].removeprefix("def "),), (), 1, line)
            for line, text in enumerate(LEARNERS, 1)
        ]
        assert made.load(statements) == []
        for _ in range(2):
            assert made.ranks("adds", 2, [0, 1], communicator=RAW).results == (5, 6)
        with pytest.raises(StudentError) as caught:
            made.ranks("wants", 1, [0], communicator=RAW)
        assert "In wants, line 1: def wants(holder, x: not_defined_anywhere)" in caught.value.where
    supply.close()
    assert made.output.count(b"ran\n") == 1 + 2 + 2 + 1
