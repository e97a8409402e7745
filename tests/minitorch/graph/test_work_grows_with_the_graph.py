"""Four times the graph is four times the work: counted in looks at nodes, not in seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import keep_orders, list_needed, schedule
from minitorch.graph.core.verify import Checked, verify
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.memory.plan import memory_plan
from minitorch.graph.passes.optimize import PASSES, run_pass
from minitorch.graph.shapes.static import as_static

pytestmark = pytest.mark.as_built

FEW = 20  # steps of a graph; the other has four times as many
MOST = 4.6
"""Times the work: 4 log(4n) / log(n) at these sizes; with a square it would be 16."""
AT = np.array([[0.6, 0.8], [-0.8, 0.6]])

INPUTS: Any = Node.__dict__["inputs"]
looks = [0]


class Watched(Node):
    """A node that counts how often it is looked at: in a dict or a set, or for its inputs."""

    __slots__ = ()

    def __hash__(self) -> int:
        looks[0] += 1
        return object.__hash__(self)

    @property
    def inputs(self) -> tuple[Node, ...]:
        looks[0] += 1
        found: tuple[Node, ...] = INPUTS.__get__(self)
        return found

    @inputs.setter
    def inputs(self, value: tuple[Node, ...]) -> None:
        INPUTS.__set__(self, value)


@contextmanager
def watching(fetch: Node) -> Iterator[None]:
    """Count the looks at the operators below `fetch`, from the beginning."""
    nodes = [node for node in list_needed([fetch], ()) if type(node) is Node]
    for node in nodes:
        node.__class__ = Watched
    looks[0] = 0
    yield


def chain(x: Node, n: int) -> Any:
    for _ in range(n):
        x = tf.tanh(x * 1.01)
    return x


def fan(x: Node, n: int) -> Any:
    middle = tf.tanh(x)
    return tf.add_n([tf.sigmoid(middle * (1.0 + 1e-3 * i)) for i in range(n)])


def diamonds(x: Node, n: int) -> Any:
    for _ in range(n):
        x = tf.tanh(x) * 0.5 + tf.sigmoid(x)
    return x


def layers(x: Node, n: int) -> Any:
    for i in range(n):
        x = tf.nn.relu(tf.matmul(x, tf.constant(AT * (1.0 + 1e-3 * i))) + 0.01)
    return x


def waits(x: Node, n: int) -> Any:
    y = x * 1.0
    for _ in range(n):
        with tf.control_dependencies([y]):
            y = tf.tanh(x * 1.01)
    return y


def branches(x: Node, n: int) -> Any:
    for i in range(n):
        before, factor = x, 1.0 + 1e-3 * i
        x = tf.cond(
            tf.reduce_sum(x) > 0.0,
            lambda x=before, f=factor: tf.tanh(x) * f,
            lambda x=before: x * 0.5,
        )
    return x


GRAPHS = (chain, fan, diamonds, layers)


def gradient(build: Callable[[Node, int], Any]) -> Callable[[Node, int], Any]:
    def both(x: Node, n: int) -> Any:
        return tf.gradients(build(x, n), [x])[0]

    both.__name__ = f"gradient of {build.__name__}"
    return both


def run_by(executor: str) -> Callable[[Node, Node], Any]:
    def run(fetch: Node, x: Node) -> Any:
        with tf.Session(executor=executor) as session:
            return session.run(fetch, {x: AT})

    return run


def one_pass(name: str) -> Callable[[Node, Node], Any]:
    return lambda fetch, x: run_pass(name, [fetch], {x})


WORK: dict[str, Callable[[Node, Node], Any]] = {
    "count_nodes": lambda fetch, x: tf.count_nodes(fetch),
    "gradients": lambda fetch, x: tf.gradients(fetch, [x]),
    "memory_plan": lambda fetch, x: memory_plan(fetch),
    "optimize": lambda fetch, x: tf.optimize(fetch, [x]),
    "verify": lambda fetch, x: verify([fetch]),
    **{f"run, {name}": run_by(name) for name in ("compiled", "interpreter", "tokens", "arena")},
    **{name: one_pass(name) for name in (*PASSES, "simplify")},
}


def growth(work: Callable[[Node, Node], Any], build: Callable[[Node, int], Any]) -> float:
    """How many times the looks there are at a graph of four times the steps."""
    found = []
    for n in (FEW, 4 * FEW):
        tf.reset_default_graph()
        x = tf.placeholder(tf.float64, (2, 2))
        fetch = build(x, n)
        with use(Fixed(kernels=False)), watching(fetch):
            work(fetch, x)
        found.append(looks[0])
    return found[1] / found[0]


@pytest.mark.parametrize("name", WORK)
@pytest.mark.parametrize("build", [*GRAPHS, waits, branches], ids=lambda b: str(b.__name__))
def test_work_grows_with_the_graph(build: Callable[[Node, int], Any], name: str) -> None:
    assert growth(WORK[name], build) <= MOST


@pytest.mark.parametrize("name", [name for name in WORK if name != "gradients"])
@pytest.mark.parametrize("build", GRAPHS, ids=lambda b: str(b.__name__))
def test_work_grows_with_a_gradient(build: Callable[[Node, int], Any], name: str) -> None:
    assert growth(WORK[name], gradient(build)) <= MOST


def test_the_second_derivative_grows_with_the_graph() -> None:
    assert growth(WORK["gradients"], gradient(chain)) <= MOST


def many_variables(x: Node, n: int) -> Any:
    for _ in range(n):
        x = tf.tanh(x * tf.Variable(AT))
    return tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(x))


@pytest.mark.parametrize("optimize", [False, True])
def test_a_training_step_grows_with_its_variables(optimize: bool) -> None:
    def train(step: Node, x: Node) -> None:
        with tf.Session(optimize=optimize) as session:
            session.run(tf.initialize_all_variables())
            session.run(step, {x: AT})

    assert growth(train, many_variables) <= MOST


def test_work_that_looks_at_all_nodes_for_each_node_is_found_out() -> None:
    def every_pair(fetch: Node, x: Node) -> None:
        for node in list_needed([fetch], ()):
            list_needed([node], ())

    assert growth(every_pair, chain) > 2 * MOST


def test_an_order_that_is_kept_is_not_made_again() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = chain(x, 50)
    with watching(y), keep_orders():
        schedule([y], ())
        once = looks[0]
        for _ in range(100):
            schedule([y], ())
            list_needed([y], ())
    assert looks[0] - once < 10 * 100  # at the fetch, in the question, and not at 100 operators


def test_orders_are_kept_no_longer_than_asked_for() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = tf.tanh(x)
    with watching(y):
        with keep_orders():
            schedule([y], ())
        before = looks[0]
        schedule([y], ())
    assert looks[0] > before


def test_who_gets_an_order_may_change_its_list() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = tf.tanh(x)
    with keep_orders():
        schedule([y], ()).clear()
        assert [node.name for node in schedule([y], ())] == [x.name, y.name]


def test_a_pass_that_breaks_a_type_in_a_later_round_is_stopped() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = tf.tanh(tf.tanh(x))
    checked = Checked()
    verify([y], (), "right", checked)
    wrong = y.with_inputs((x,), ())
    wrong.shape = as_static([7])
    after = tf.tanh(x) + 0.0
    broken = after.with_inputs((wrong, *after.inputs[1:]), ())
    with pytest.raises(GraphError, match="broken"):
        verify([broken], (), "broken", checked)
    x_instead = y.inputs[0]
    x_instead.inputs = (tf.placeholder(tf.float64, (3, 5)),)
    with pytest.raises(GraphError, match="in place"):
        verify([y], (), "changed in place", checked)
