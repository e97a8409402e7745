"""The student in this process: plain data in and out, and the learner's errors as text."""

import functools
import subprocess
import sys
import types
from collections import deque
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from autograder.checks import Feedback, check, run_check
from autograder.errors import CheckBroken, NotAttempted, NotPlainData, StudentError
from autograder.grading.slicing import select_needed, statements_of
from autograder.plain import MAX_DEPTH, to_plain
from autograder.records import Statement
from autograder.student.local import LocalStudent

TEXT = """
import numpy as np
class Stack:
    size = 3
    def push(self, x): return x
stack = Stack()
def double(x): return 2 * x
def fails(): raise KeyError('missing')
def later(): raise NotImplementedError('later')
def unfit():
    import asyncio
    asyncio.AbstractEventLoop().stop()
def changes(x):
    x[0] = 9
    return x
answer = ...
number = 3
"""


@pytest.fixture
def student() -> LocalStudent:
    namespace: dict[str, object] = {}
    exec(TEXT, namespace)
    return LocalStudent(namespace)


def test_functions_methods_and_values_are_reached_by_name(student: LocalStudent) -> None:
    assert student.call("double", 4) == 8
    assert student.call("stack.push", 4) == 4
    assert student.value("number") == 3
    assert student.value("Stack.size") == 3


def test_arguments_are_copies(student: LocalStudent) -> None:
    x = np.zeros(2)
    assert student.call("changes", x)[0] == 9
    assert x[0] == 0


def test_what_a_library_does_not_implement_is_an_error_of_an_answer_that_asks_for_it(
    student: LocalStudent,
) -> None:
    with pytest.raises(NotAttempted):
        student.call("later")
    with pytest.raises(StudentError) as caught:
        student.call("unfit")
    assert caught.value.type_name == "NotImplementedError"
    assert "unfit" in caught.value.where


def test_an_exception_arrives_as_text(student: LocalStudent) -> None:
    with pytest.raises(StudentError, match="KeyError") as caught:
        student.call("fails")
    assert (caught.value.type_name, caught.value.message) == ("KeyError", "'missing'")
    assert "in fails" in caught.value.traceback
    assert "local.py" not in caught.value.traceback


def reads_what_nothing_returned():
    return list(nothing(3))  # noqa: F821 - a name of the learner's


def reads_an_array_of_none():
    import numpy

    return numpy.array(nothing(3))  # noqa: F821


def test_a_probe_that_cannot_go_on_with_an_answer_says_where_it_asked(
    student: LocalStudent,
) -> None:
    student.namespace["nothing"] = lambda x: None
    with pytest.raises(StudentError, match="'NoneType' object is not iterable") as caught:
        student.probe(reads_what_nothing_returned)
    assert "\n    return list(nothing(3))" in caught.value.where
    assert "does your function end in a return?" in caught.value.where
    with pytest.raises(StudentError, match="It holds None"):
        student.probe(reads_an_array_of_none)


@pytest.mark.parametrize("raised", ["ZeroDivisionError", "SystemExit"])
def test_an_exception_that_cannot_say_anything_is_the_learners_all_the_same(raised: str) -> None:
    student = LocalStudent()
    cell = f"class Mute(Exception):\n    def __str__(self): raise {raised}\n"
    failures = student.load([Statement(cell + "raise Mute", ("x",))])
    assert [failure.message for failure in failures] == ["Mute"]
    student.load([Statement(cell, ("Mute",)), Statement("def f(): raise Mute", ("f",))])
    with pytest.raises(StudentError, match="Mute"):
        student.call("f")


@pytest.mark.parametrize("ask", [
    lambda s: s.call("later"), lambda s: s.value("answer"), lambda s: s.call("answer"),
    lambda s: s.value("nowhere"),
])  # fmt: skip
def test_what_is_not_written_is_not_attempted(student: LocalStudent, ask) -> None:
    with pytest.raises(NotAttempted):
        ask(student)


def test_a_value_that_is_not_plain_is_the_learners_error(student: LocalStudent) -> None:
    with pytest.raises(StudentError, match="is of type Stack"):
        student.value("stack")


def test_a_probe_runs_beside_the_learners_code(student: LocalStudent) -> None:
    def probe(x, *, y=1):
        return double(np.sum(x)) + number + y  # noqa: F821  # names of the learner's

    assert student.probe(probe, x=np.ones(3)) == 10.0


def test_a_probe_carries_nothing_of_the_checks(student: LocalStudent) -> None:
    local = 3

    def closes_over(x):
        return x + local

    for function in (closes_over, lambda x: x, np.sum, len):
        with pytest.raises(CheckBroken, match="probe"):
            student.probe(function, x=1)


def test_statements_run_on_their_own(student: LocalStudent) -> None:
    statements = [
        Statement("a = 1", ("a",), (), 1),
        Statement("b = 1 / 0", ("b",), (), 2),
        Statement("c = b + 1", ("c",), ("b",), 3),
        Statement("d = a + 1", ("d",), ("a",), 4),
        Statement("a = nowhere", ("a",), (), 5),
        Statement("import asyncio\ne = await asyncio.sleep(0, 5)", ("e",), (), 6),
        Statement("raise SystemExit", (), (), 7),
    ]
    failures = student.load(statements)
    assert [f.type_name for f in failures] == [
        "ZeroDivisionError",
        "ZeroDivisionError",
        "NameError",
        "SystemExit",
    ]
    assert (student.value("a"), student.value("d"), student.value("e")) == (1, 2, 5)
    with pytest.raises(StudentError, match=r"division by zero.*cell 2"):
        student.value("c")
    assert student.source("d") == "d = a + 1"
    assert student.source("nowhere") is None


class Subclassed(np.ndarray):
    pass


class Tensor:
    def __init__(self, data: object) -> None:
        self.data = data

    def detach(self) -> "Tensor":
        return self

    def numpy(self) -> object:
        return self.data


class Word(str):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Word("a"), "a"),
        ([1, (2, {"a": None})], [1, (2, {"a": None})]),
        ((range(2, 5), deque([1]), {"a": 1}.items()), ([2, 3, 4], [1], [("a", 1)])),
        ({1: 2, (1, Word("b")): 3}, {1: 2, (1, "b"): 3}),
        (np.float32(1.5), np.float32(1.5)),
        ((np.array([["a"], ["b"]]), np.str_("c"), Fraction(1, 4)), ([["a"], ["b"]], "c", 0.25)),
        (Tensor(np.ones(2)), np.ones(2)),
        (np.ones(2).view(Subclassed), np.ones(2)),
        (np.asfortranarray(np.ones((2, 3))), np.ones((2, 3))),
        (np.ones(2, np.longdouble), np.ones(2)),
        (np.clongdouble(1.5), np.complex128(1.5)),
    ],
)
def test_values_become_plain(value: object, plain: object) -> None:
    found = to_plain(value)
    assert type(found) is type(plain)
    assert repr(found) == repr(plain)


def cyclic() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, lambda: 1, np.array([object()]), np.array([b"a"]), cyclic(),
     {"a": Tensor(3)}, {object(): 1}, [0] * 1_000_001, range(10**12), np.datetime64("2020"),
     [2**8191], [-(2**9000)]],
)  # fmt: skip
def test_what_is_not_plain_is_refused(value: object) -> None:
    with pytest.raises(NotPlainData):
        to_plain(value)


def test_depth_is_bounded_by_what_it_says() -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert to_plain(value) == value
    with pytest.raises(NotPlainData, match="32 levels"):
        to_plain([value])


class Communicator:
    def __init__(self, transport) -> None:
        self.transport, self.rank, self.size = transport, transport.rank, transport.size


@pytest.fixture
def communicator() -> Iterator[str]:
    module = types.ModuleType("a_communicator")
    module.Communicator = Communicator  # type: ignore[attr-defined]
    sys.modules["a_communicator"] = module
    yield "a_communicator:Communicator"
    del sys.modules["a_communicator"]


def test_ranks_send_over_a_wire_that_writes_everything_down(student, communicator) -> None:
    def ring(comm, x, step):
        comm.transport.isend(x, (comm.rank + 1) % comm.size, header=b"h")
        work = comm.transport.irecv((comm.rank - 1) % comm.size)
        return double(work.wait()) + step  # noqa: F821  # a name of the learner's

    inputs = [(np.full(2, float(r)), r) for r in range(3)]
    run = student.ranks(ring, 3, inputs, communicator)
    assert [list(r) for r in run.results] == [[4.0, 4.0], [1.0, 1.0], [4.0, 4.0]]
    assert sorted((m.src, m.dst, m.n_bytes, m.header) for m in run.messages) == [
        (0, 1, 16, b"h"),
        (1, 2, 16, b"h"),
        (2, 0, 16, b"h"),
    ]
    assert [m.order for m in run.messages] == [0, 1, 2]
    assert (run.bytes_sent(0), run.messages_sent(0)) == (16, 1)


def test_ranks_that_all_wait_are_told_so_at_once(student, communicator) -> None:
    def all_listen(comm, x):
        return comm.transport.irecv(1 - comm.rank).wait()

    def one_has_returned(comm, x):
        return x if comm.rank else comm.transport.irecv(1).wait()

    both = "rank 0 waits for rank 1; rank 1 waits for rank 0"
    for function, said, asked in (
        (all_listen, both, "What could a rank send before it receives?"),
        (one_has_returned, "rank 0 waits for rank 1; rank 1 has returned", "Who has returned"),
    ):
        with pytest.raises(StudentError, match=said) as caught:
            student.ranks(function, 2, [0, 0], communicator)
        assert caught.value.type_name == "Deadlock"
        ranks = functools.partial(student.ranks, function, 2, [0, 0], communicator)
        shown = run_check(check("q")(lambda *_, ranks=ranks: ranks()), student, 1).output
        assert shown.startswith("Deadlock: every rank waits") and asked in shown


def test_ranks_that_give_none_are_asked_for_a_return(student, communicator) -> None:
    def silent(comm, x):
        return None

    @check("q")
    def each_has_the_sum(student, rng):
        run = student.ranks(silent, 2, [0, 0], communicator)
        raise Feedback(f"rank 0 returned {run.results[0]}, expected 3.")

    said = run_check(each_has_the_sum, student, 1).output
    assert said.endswith("expected 3. Does your function end in a return?")


RANKS = """
import math, sys, threading
from autograder.errors import StudentError
from autograder.student import local_ranks

class Communicator:
    def __init__(self, transport):
        self.transport, self.rank = transport, transport.rank

def all_listen(comm):
    return comm.transport.irecv(1 - comm.rank).wait()

def a_thread_sends_once_all_listen(comm):
    import numpy, threading
    end = comm.transport
    def send():
        while not all(end._wire._waits):
            threading.Event().wait(0.01)
        threading.Event().wait(0.3)  # in which those who listen look again
        end.isend(numpy.ones(1), 1)
    if comm.rank == 0:
        threading.Thread(target=send).start()
        return end.irecv(1).wait()
    end.isend(end.irecv(0).wait() + 1.0, 0)

local_ranks.SILENCE_S = math.inf
try:
    found = local_ranks.run_ranks(globals()[sys.argv[1]], [(), ()], "__main__:Communicator")
    print("rank 0 got", found.results[0])
except StudentError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("all_listen", "every rank waits, and none will send: rank 0 waits for rank 1"),
        ("a_thread_sends_once_all_listen", "rank 0 got [2.]"),
    ],
)
def test_ranks_wait_for_ever_once_no_other_thread_is_there(function: str, says: str) -> None:
    """However short the silence: here no silence is long enough."""
    command = [sys.executable, "-c", RANKS, function]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert says in done.stdout, done.stderr


def test_a_rank_that_is_slow_to_send_is_no_deadlock(student, communicator) -> None:
    def slow(comm, x):
        import threading

        import numpy

        if comm.rank:
            return comm.transport.irecv(0).wait()
        threading.Event().wait(2.5)  # longer than the silence that tells a deadlock
        comm.transport.isend(numpy.array([x]), 1)
        return None

    assert student.ranks(slow, 2, [7, 0], communicator).results[1].tolist() == [7]


def test_a_rank_that_fails_ends_the_ranks_that_wait_for_it(student, communicator) -> None:
    def one_fails(comm):
        if comm.rank == 1:
            raise ValueError("rank 1 fails")
        comm.transport.irecv(1).wait()

    with pytest.raises(StudentError, match="rank 1 fails"):
        student.ranks(one_fails, 2, [(), ()], communicator)


def test_an_unwritten_rank_is_not_attempted(student, communicator) -> None:
    student.namespace["ring"] = student.namespace["later"]
    student.namespace["ring"] = lambda comm: student.namespace["later"]()
    with pytest.raises(NotAttempted):
        student.ranks("ring", 2, [(), ()], communicator)


def test_inputs_must_be_one_a_rank(student, communicator) -> None:
    with pytest.raises(CheckBroken, match="got 1 inputs, expected 2"):
        student.ranks("double", 2, [1], communicator)


def test_annotations_of_the_future_hold_from_their_cell_on_and_break_nothing() -> None:
    plain = "def f(x: Unknown):\n    return x"
    eager = ["NameError"] if sys.version_info < (3, 14) else []  # later, nobody asks for them
    cells = [plain, "from __future__ import annotations", plain]
    found = statements_of([("code", text) for text in cells])
    loaded = select_needed(found, ["f"])
    assert [s.text for s in loaded] == cells
    student = LocalStudent()
    failures = student.load(loaded)
    assert [failure.type_name for failure in failures] == eager
    assert student.call("f", 3) == 3


def test_what_ipython_gives_to_notebooks_is_there_and_does_nothing() -> None:
    text = (
        "def f(x):\n    display(x)\n"
        "    get_ipython().run_line_magic('matplotlib', 'inline')\n    return x"
    )
    student = LocalStudent()
    assert not student.load([Statement(text, ("f",))])
    assert student.call("f", 3) == 3
