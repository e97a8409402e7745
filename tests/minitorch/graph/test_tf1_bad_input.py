"""What programs get wrong: refused by name, with the line that built it; and names of graphs."""

import threading
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import DTypeError, MinitorchError, ShapeError

HERE = r"test_tf1_bad_input\.py:\d+"


# ── two graphs ──────────────────────────────────────────────────────────────────────────────────


def _two() -> tuple[tf.Graph, Any, Any]:
    other = tf.Graph()
    with other.as_default():
        a = tf.constant(1.0, name="a")
    return other, a, tf.constant(2.0, name="b")


@pytest.mark.parametrize(
    "mix",
    [
        lambda a, b: a + b,
        lambda a, b: b * a,
        lambda a, b: tf.add_n([a, b]),
        lambda a, b: tf.stack([a, b]),
        lambda a, b: tf.where(a > 0.0, a, b),
    ],
)
def test_nodes_of_two_graphs_do_not_meet(mix: Any) -> None:
    _, a, b = _two()
    both = rf"two graphs: .*built at .*{HERE}, in the graph made at .* and .*{HERE}, in the graph"
    with pytest.raises(tf.GraphError, match=both):
        mix(a, b)


def test_a_session_runs_its_own_graph_alone() -> None:
    other, a, b = _two()
    with tf.Session() as session:
        with pytest.raises(tf.GraphError, match=rf"cannot fetch 'a'.*{HERE}.*session runs"):
            session.run(a)
        with pytest.raises(tf.GraphError, match="cannot feed 'a'"):
            session.run(b, {a: 1.0})
        with pytest.raises(tf.GraphError, match="cannot fetch 'a'"):
            a.eval()
    with tf.Session(graph=other) as session:
        assert session.run(a) == 1.0


def test_a_node_belongs_to_the_graph_of_its_inputs() -> None:
    other, a, _ = _two()
    more = (a * 2 + np.ones(2)).sum()
    assert more.graph is other
    assert tf.gradients(more, a)[0].graph is other
    with tf.Session(graph=other) as session:
        assert session.run(more) == 6


def test_a_finalized_graph_takes_no_more_nodes_and_still_runs() -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.reduce_sum(x * 1.0 + 0.0)
    tf.get_default_graph().finalize()
    with pytest.raises(tf.GraphError, match=rf"finalized.*asked for at .*{HERE}"):
        x + 1
    for options in ({}, {"optimize": True}, {"executor": "tokens"}):
        with tf.Session(**options) as session:
            assert session.run(y, {x: [1, 2]}) == 3


def test_names_find_nodes_and_graphs_find_elements() -> None:
    with tf.name_scope("layer") as scope:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.identity(x, name="y")
    with tf.name_scope("layer"):
        again = tf.identity(x, name="y")
    with tf.name_scope(scope):
        third = tf.identity(x, name="y")
    graph = tf.get_default_graph()
    assert (y.name, again.name, third.name) == ("layer/y", "layer_1/y", "layer/y_1")
    assert graph.get_tensor_by_name("layer/y:0") is y
    assert graph.get_operation_by_name("layer/x") is x
    assert graph.as_graph_element("layer/y:0") is graph.as_graph_element(y) is y
    assert [n for n in graph.get_operations() if n is x or n is third] == [x, third]
    for wrong in ("layer/z:0", ""):
        with pytest.raises(tf.GraphError, match="there is no node"):
            graph.get_tensor_by_name(wrong)
    with pytest.raises(TypeError):
        graph.get_tensor_by_name(3)  # type: ignore[arg-type]
    with pytest.raises(tf.GraphError, match="not in this graph"):
        tf.Graph().as_graph_element(y)


def test_collections_hold_what_was_put_there() -> None:
    v = tf.Variable(1.0, name="scope/v", collections=[tf.GraphKeys.GLOBAL_VARIABLES, "mine"])
    local = tf.Variable(0, trainable=False, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.add_to_collection("things", 3)
    tf.get_collection_ref("things").append(4)
    graph = tf.get_default_graph()
    assert tf.get_collection("things") == [3, 4]
    assert tf.get_collection("mine", scope="scope") == [v] == tf.global_variables()
    assert tf.get_collection("mine", scope="other") == tf.get_collection("none") == []
    assert tf.local_variables() == [local]
    assert set(graph.get_all_collection_keys()) >= {"things", "mine", "variables"}
    graph.clear_collection("things")
    assert tf.get_collection("things") == []


def test_two_threads_build_in_graphs_of_their_own() -> None:
    found: dict[int, Any] = {}

    def build(i: int) -> None:
        with tf.Graph().as_default() as graph:
            x = tf.constant(float(i)) * 2
            with tf.Session() as session:
                found[i] = (session.run(x), x.graph is graph)

    threads = [threading.Thread(target=build, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: (2.0 * i, True) for i in range(3)}


# ── what a run refuses ──────────────────────────────────────────────────────────────────────────


def test_a_value_of_a_loops_rounds_cannot_be_fetched() -> None:
    inside: list[Any] = []

    def body(i: Any) -> Any:
        inside.append(tf.multiply(i, 2, name="twice"))
        return i + 1

    end = tf.while_loop(lambda i: i < 3, body, [0])
    with tf.Session() as session:
        assert session.run(end) == 3
        with pytest.raises(tf.GraphError, match=rf"'twice': it is in a while loop.*{HERE}"):
            session.run(inside[0])


@pytest.mark.parametrize("value", [None, "abc", [[1, 2], [3]], np.ones((2, 4)), 1j, object()])
def test_a_feed_that_does_not_fit_names_the_placeholder_and_its_line(value: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.Session() as session, pytest.raises(tf.GraphError, match=rf"'x'.*{HERE}"):
        session.run(x * 2, {x: value})


@pytest.mark.parametrize("fetch", [None, [None], "loss:0", 3, np.ones(2), {"a": None}, object()])
def test_what_is_no_node_cannot_be_fetched(fetch: Any) -> None:
    tf.constant(1)
    with tf.Session() as session, pytest.raises(tf.GraphError, match="cannot fetch"):
        session.run(fetch)


# ── what cannot be built ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "mix",
    [
        lambda f, i: f + i,
        lambda f, i: i - f,
        lambda f, i: tf.multiply(f, i),
        lambda f, i: tf.maximum(i, f),
        lambda f, i: f < i,
        lambda f, i: f / tf.cast(f, tf.float64),
        lambda f, i: i * 0.5,
        lambda f, i: tf.pow(i, 0.5),
    ],
)
def test_dtypes_do_not_mix_by_themselves(mix: Any) -> None:
    f, i = tf.placeholder(tf.float32, [2], name="f"), tf.constant([1, 2], name="i")
    with pytest.raises(DTypeError, match=rf"Use cast|{HERE}"):
        mix(f, i)


def test_numbers_and_constants_take_the_dtype_beside_them() -> None:
    f, i = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int32, [2])
    assert (f + 1).dtype == (f * np.ones(2)).dtype == (tf.Constant(1) + f).dtype == tf.float32
    assert (i + 1).dtype == (2 * i).dtype == tf.int32
    assert (f * (f > 0.0)).dtype == tf.float32


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: tf.constant("words"), DTypeError),
        (lambda: tf.constant(1.5, tf.int32), DTypeError),
        (lambda: tf.placeholder("float33"), DTypeError),
        (lambda: tf.placeholder(tf.float32, [-3]), tf.GraphError),
        (lambda: tf.constant(1.0) + None, tf.GraphError),
        (lambda: tf.assign(tf.constant(1.0), 2.0), tf.GraphError),
        (lambda: tf.one_hot([1.5], 3), tf.GraphError),
        (lambda: tf.nn.top_k([1.0, 2.0], 5), tf.GraphError),
        (lambda: tf.add_n([]), tf.GraphError),
        (lambda: tf.split(tf.ones([2, 5]), 3, 1), tf.GraphError),
        (lambda: tf.unstack(tf.placeholder(tf.float32, [None, 2])), tf.GraphError),
        (lambda: tf.layers.dense(tf.placeholder(tf.float32, [None, None]), 3), tf.GraphError),
        (lambda: tf.nn.conv2d(tf.ones([1, 5, 5, 3]), tf.ones([3, 3, 4, 2]), 1, "SAME"), ShapeError),
        (lambda: tf.nn.conv2d(tf.ones([1, 5, 5, 3]), tf.ones([3, 3, 3, 2]), 1, "X"), tf.GraphError),
        (lambda: tf.matrix_inverse(tf.ones([2, 3])), ShapeError),
        (lambda: tf.segment_sum(tf.ones([3]), [0.5, 1.0, 2.0]), tf.GraphError),
        (lambda: tf.einsum("ij,jk->ik", tf.ones([2, 3]), tf.ones([2, 3])), ShapeError),
        (lambda: tf.train.AdamOptimizer().minimize(tf.constant(1.0)), tf.GraphError),
        (lambda: tf.losses.mean_squared_error(tf.ones([2]), tf.ones([3])), tf.GraphError),
        (lambda: tf.scatter_add(tf.Variable([1.0]), [0.5], [1.0]), tf.GraphError),
    ],
)
def test_what_cannot_be_built_names_a_line(build: Any, error: type[MinitorchError]) -> None:
    with pytest.raises(error, match=HERE):
        build()


def test_a_shape_that_contradicts_what_is_known_is_refused() -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    x.set_shape([5, None])
    assert x.shape == [5, 3]
    with pytest.raises(ShapeError, match=rf"'x' built at .*{HERE}"):
        x.set_shape([4, 3])
    y = tf.placeholder(tf.float32)
    y.set_shape([None, 2])
    assert y.shape.as_list() == [None, 2]


def test_sizes_have_values_as_tensorflows_do() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    assert [d.value for d in x.get_shape()] == [None, 3]
    assert x.get_shape()[1].value == int(x.shape[1]) == x.shape[-1].value == 3
    assert x.shape.ndims == 2 and not x.shape.is_fully_defined()
    assert x.get_shape() == [None, 3] and x.get_shape().as_list() == [None, 3]
    assert tf.TensorShape([2, 3]).num_elements() == 6
    assert x.shape.is_compatible_with([7, 3]) and not x.shape.is_compatible_with([7, 4])
    with pytest.raises(tf.GraphError, match="not known before the run"):
        int(x.get_shape()[0])
    _, grown = tf.while_loop(
        lambda i, _: i < 3,
        lambda i, a: (i + 1, tf.concat([a, [1.0]], 0)),
        (tf.constant(0), tf.zeros([1])),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )
    with tf.Session() as session:
        assert session.run(grown).tolist() == [0, 1, 1, 1]
