"""The memory of a session that several threads use."""

import threading

import numpy as np
import pytest

from minitorch.graph import Graph, Session, Variable, group, initialize_all_variables, train
from minitorch.graph.core.node import Constant
from minitorch.graph.train.optimizer import Update


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
