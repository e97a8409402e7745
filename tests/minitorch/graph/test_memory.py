"""The memory of a session that several threads use, and who of them waits for whom."""

import threading
from collections.abc import Callable
from queue import Queue
from typing import Self

import numpy as np
import pytest

from minitorch.graph import Graph, Session, Variable, group, initialize_all_variables, train
from minitorch.graph.memory import State
from minitorch.graph.node import Constant
from minitorch.graph.train.optimizer import Update
from minitorch.graph.waits import Turn, waiting


class Beside:
    """A thread that lasts as long as the `with` block, and does in between what it is given."""

    def __enter__(self) -> Self:
        self._work: Queue[Callable[[], object] | None] = Queue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._work.put(None)
        self.thread.join()

    def does(self, work: Callable[[], object]) -> None:
        """Return once it is done."""
        self._work.put(work)
        self._work.join()

    def begins(self, work: Callable[[], object]) -> None:
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            self._work.task_done()


def test_a_thread_from_before_the_session_counts_as_idle_until_it_uses_it() -> None:
    """As those of a notebook's kernel must, or that a test before this one left behind."""
    with Beside() as other:
        state = State()
        assert state.alone()
        other.does(state.take_part)
        assert not state.alone()
    assert state.alone()


def test_a_thread_from_after_the_session_may_still_act() -> None:
    state = State()
    with Beside():
        assert not state.alone()
        with waiting(lambda: False):
            assert not state.alone()
    assert state.alone()


def test_the_thread_that_made_the_session_may_still_act() -> None:
    states: list[State] = []
    with Beside() as other:
        other.does(lambda: states.append(State()))
        assert not states[0].alone()
    assert states[0].alone()


def test_a_thread_that_waits_is_stuck_until_what_it_waits_for_holds() -> None:
    """Then it is about to act, though it may not have noticed yet."""
    state, holds, end = State(), threading.Event(), threading.Event()
    began = threading.Event()

    def waits() -> None:
        with waiting(holds.is_set):
            began.set()
            end.wait()

    with Beside() as other:
        other.begins(waits)
        began.wait()
        assert state.alone()
        holds.set()
        assert not state.alone()
        end.set()


def test_a_thread_that_waits_for_its_turn_is_stuck_until_the_turn_ends() -> None:
    state, turn, took = State(), Turn(), threading.Event()

    def takes() -> None:
        with turn:
            took.set()

    with Beside() as other:
        with turn:
            other.begins(takes)
            while not state.alone():  # it is about to come to the turn
                pass
            assert not took.is_set()
        assert took.wait(60)
        assert not state.alone()


class Meeting(Update):
    """Adds the gradient to the variable in two halves, and notes how many do so at once."""

    inside = most = 0

    def rule(self, grad: np.ndarray, values: list[np.ndarray], *hyper: np.ndarray) -> None:
        Meeting.inside += 1
        Meeting.most = max(Meeting.most, Meeting.inside)
        turn.wait(0.05)  # lets the other thread in, where it can come in
        values[0] += grad
        Meeting.inside -= 1


turn = threading.Event()


@pytest.mark.parametrize("in_place", [True, False])
def test_two_threads_update_a_variable_one_after_the_other(in_place: bool) -> None:
    Meeting.inside = Meeting.most = 0
    with Graph().as_default(), Session() as session:
        variable = Variable(np.zeros(3))
        update, state = Meeting(variable), session.state
        session.run(initialize_all_variables())
        run = update.run_in_place if in_place else update.run
        threads = [threading.Thread(target=run, args=(state, np.ones(3))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert Meeting.most == 1
        np.testing.assert_array_equal(session.run(variable), 3.0)


def test_no_step_of_gradient_descent_is_lost_between_threads() -> None:
    size, steps = 1 << 18, 40
    with Graph().as_default(), Session() as session:
        variable = Variable(np.zeros(size))
        gradient = Constant(np.full(size, -1.0))
        step = group(train.GradientDescentOptimizer(1.0).apply_gradients([(gradient, variable)]))
        session.run(initialize_all_variables())
        session.run(step)
        session.run(variable.initializer)
        threads = [
            threading.Thread(target=lambda: [session.run(step) for _ in range(steps)])
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = session.run(variable)
    assert (found.min(), found.max()) == (2.0 * steps, 2.0 * steps)
