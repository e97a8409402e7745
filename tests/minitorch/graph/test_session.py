"""A session runs what is asked for: feeds, fetches, variables, order; errors name lines."""

import inspect
import re
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError, ShapeError
from minitorch.op import Op
from minitorch.tensor.tensor import tensor


def here(offset: int = 0) -> str:
    """file:line of the caller, `offset` lines further down."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return re.escape(f"{frame.f_back.f_code.co_filename}:{frame.f_back.f_lineno + offset}")


class Counter(Op):
    """Counts how often it is computed."""

    def __init__(self) -> None:
        self.runs = 0

    def compute(self, xp: Any, *arrays: Any) -> Any:
        self.runs += 1
        return arrays[0]

    def infer(self, *specs: Any) -> Any:
        return specs[0]


# ── fetches ─────────────────────────────────────────────────────────────────────────────────────


def test_only_what_is_fetched_runs() -> None:
    used, unused = Counter(), Counter()
    x = tf.placeholder(tf.float32, (2,))
    y = used(x)
    unused(x)
    with tf.Session() as session:
        session.run(y, {x: [1, 2]})
    assert (used.runs, unused.runs) == (1, 0)


def test_a_node_fetched_twice_and_used_twice_runs_once() -> None:
    counter = Counter()
    x = counter(tf.constant([1.0]))
    with tf.Session() as session:
        session.run([x, x, x + x])
    assert counter.runs == 1


def test_fetches_keep_their_structure() -> None:
    pair = namedtuple("pair", "a b")
    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.Session() as session:
        got = session.run({"x": [a, (b, a)], "y": pair(a, [b]), "z": tf.no_op()})
    assert got == {"x": [1.0, (2.0, 1.0)], "y": pair(1.0, [2.0]), "z": None}
    assert isinstance(got["y"], pair)


def test_a_node_can_be_fetched_and_fed_by_name() -> None:
    x = tf.placeholder(tf.float32, (), name="x")
    tf.multiply(x, 2.0, name="double")
    with tf.Session() as session:
        assert session.run("double:0", {"x": 3}) == 6.0


def test_what_is_fetched_is_nobodys_memory() -> None:
    w = tf.Variable(np.ones((2, 3), np.float32))
    x = tf.placeholder(tf.float32, (2, 3))
    fed = np.zeros((2, 3), np.float32)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for node in (w, w.read(), tf.transpose(w), tf.identity(w), w[0], x, tf.constant([1.0])):
            session.run(node, {x: fed})[...] = 9.0
        assert (session.run(w) == 1.0).all()
        assert (fed == 0.0).all()
        assert (session.run(tf.constant([1.0])) == 1.0).all()


def test_what_cannot_be_fetched_is_an_error() -> None:
    with tf.Session() as session:
        with pytest.raises(GraphError, match="cannot fetch 3"):
            session.run(3)
        with pytest.raises(GraphError, match="cannot fetch 'nobody'"):
            session.run("nobody")


# ── feeds ───────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_feed_names_node_and_line() -> None:
    line = here(1)
    x = tf.placeholder(tf.float32, (None, 3), name="pixels")
    with tf.Session() as session, pytest.raises(GraphError, match=f"'pixels'.*{line}"):
        session.run(x * 2.0)


def test_a_feed_of_another_shape_names_node_shapes_and_line() -> None:
    line = here(1)
    x = tf.placeholder(tf.float32, (None, 3), name="pixels")
    says = rf"'pixels'.*\(2, 4\), expected \(None, 3\).*{line}"
    with tf.Session() as session, pytest.raises(GraphError, match=says):
        session.run(x * 2.0, {x: np.zeros((2, 4))})


def test_a_feed_that_is_no_number_or_loses_a_fraction_is_refused() -> None:
    x = tf.placeholder(tf.int32, (), name="count")
    with tf.Session() as session:
        for wrong in ("three", 1.5, None, [[1], [2, 3]], 1j, 2**40, -(2**31) - 1, object()):
            with pytest.raises(GraphError, match="'count'"):
                session.run(x + 1, {x: wrong})


def test_a_feed_dict_that_is_no_dict_is_refused() -> None:
    x = tf.placeholder(tf.float32, ())
    with tf.Session() as session, pytest.raises(GraphError, match="feed_dict of list"):
        session.run(x, [1.0])  # type: ignore[arg-type]


def test_a_write_that_does_not_fit_names_the_variable_and_the_write() -> None:
    first = here(1)
    w = tf.Variable(np.zeros((2, 3), np.float32), name="weights")
    x = tf.placeholder(tf.float32)
    write = tf.assign(w, x, name="write")
    says = rf"\(3, 2\), expected \(2, 3\).*'weights'.*{first}.*'write' built at {here(-1)}"
    with tf.Session() as session, pytest.raises(GraphError, match=says):
        session.run(write, {x: np.zeros((3, 2))})


def test_numbers_lists_and_other_dtypes_are_converted() -> None:
    x = tf.placeholder(tf.float32, (2,))
    with tf.Session() as session:
        for fed in ([1, 2], (1.0, 2.0), np.array([1, 2], np.int64), tensor([1.0, 2.0])):
            got = session.run(x * 2.0, {x: fed})
            assert got.dtype == np.float32
            assert got.tolist() == [2.0, 4.0]


def test_any_node_may_be_fed() -> None:
    x = tf.placeholder(tf.float32, ())
    y = x * 2.0
    w = tf.Variable(1.0)
    with tf.Session() as session:
        assert session.run(y + w, {y: 5.0, w: 1.0}) == 6.0


def test_a_key_that_is_no_node_is_an_error() -> None:
    with tf.Session() as session, pytest.raises(GraphError, match="cannot feed 'nobody'"):
        session.run(tf.constant(1.0), {"nobody": 1.0})


def test_a_default_stands_in_for_a_feed() -> None:
    keep = tf.placeholder_with_default(0.5, ())
    with tf.Session() as session:
        assert session.run(keep * 2.0) == 1.0
        assert session.run(keep * 2.0, {keep: 2.0}) == 4.0


# ── variables ───────────────────────────────────────────────────────────────────────────────────


def test_variables_live_in_a_session_and_differ_between_two() -> None:
    w = tf.Variable(1.0)
    add = tf.assign_add(w, 1.0)
    init = tf.initialize_all_variables()
    a, b = tf.Session(), tf.Session()
    a.run(init)
    b.run(init)
    a.run(add)
    a.run(add)
    assert (a.run(w), b.run(w)) == (3.0, 1.0)


def test_a_variable_without_a_value_is_an_error_that_says_so() -> None:
    line = here(1)
    w = tf.Variable(1.0, name="weights")
    with tf.Session() as session, pytest.raises(GraphError, match=f"'weights'.*{line}.*initialize"):
        session.run(w + 1.0)


def test_a_variable_starts_from_the_same_draw_as_the_one_it_is_built_on() -> None:
    a = tf.Variable(tf.random_normal((3,)))
    b = tf.Variable(a.initialized_value() * 2.0)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        x, y = session.run([a, b])
    np.testing.assert_allclose(y, 2 * x)


def test_operations_run_in_the_default_session_which_may_stay_open() -> None:
    w = tf.Variable(1.0)
    add = tf.assign_add(w, 1.0)
    session = tf.Session()
    with session.as_default():
        tf.initialize_all_variables().run()
        assert add.run() is None
        assert w.eval() == 2.0
    add.run(session=session)
    assert session.run(w) == 3.0
    with pytest.raises(GraphError, match="no session is open"):
        add.run()


def test_a_closed_session_runs_nothing() -> None:
    with tf.Session() as session:
        pass
    with pytest.raises(GraphError, match="closed"):
        session.run(tf.constant(1.0))


def test_assigning_a_fed_array_copies_it() -> None:
    w = tf.Variable(np.zeros(2, np.float32))
    x = tf.placeholder(tf.float32, (2,))
    fed = np.ones(2, np.float32)
    with tf.Session() as session:
        session.run(tf.assign(w, x), {x: fed})
        fed[:] = 7.0
        assert session.run(w).tolist() == [1.0, 1.0]


def test_assigning_another_shape_or_dtype_is_refused_when_building() -> None:
    w = tf.Variable(np.zeros((2, 3), np.float32), name="weights")
    with pytest.raises(GraphError, match=r"\(3, 2\).*'weights'.*\(2, 3\)"):
        tf.assign(w, tf.zeros((3, 2)))
    with pytest.raises(GraphError, match="int64"):
        tf.assign(w, tf.constant(np.zeros((2, 3), np.int64)))
    with pytest.raises(GraphError, match="expected a Variable"):
        tf.assign(tf.constant(1.0), 2.0)  # type: ignore[arg-type]


# ── order ───────────────────────────────────────────────────────────────────────────────────────


def test_a_read_under_control_dependencies_sees_the_write() -> None:
    w = tf.Variable(1.0)
    write = tf.assign(w, 10.0)
    with tf.control_dependencies([write]):
        after, named, product = w + 0.0, tf.identity(w), w.read()
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run([after, named, product]) == [10.0, 10.0, 10.0]


def test_a_read_without_control_dependencies_sees_the_value_before_the_run() -> None:
    w = tf.Variable(np.ones(3, np.float32))
    total = tf.reduce_sum(w * 2.0)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for write in (tf.assign_add(w, tf.ones((3,))), tf.assign_sub(w, tf.ones((3,)))):
            before = session.run(w)
            got, seen, view = session.run([total, w, tf.reshape(w, (3, 1)), write])[:3]
            np.testing.assert_array_equal(seen, before)
            np.testing.assert_array_equal(view[:, 0], before)
            assert got == 2 * before.sum()


def test_a_value_read_before_a_write_and_used_after_it_is_the_old_one() -> None:
    w = tf.Variable(np.ones(2, np.float32))
    old = tf.identity(w)
    write = tf.assign_add(w, tf.ones((2,)))
    with tf.control_dependencies([write]):
        both = tf.stack([old + 0.0, tf.identity(w)])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(both).tolist() == [[1.0, 1.0], [2.0, 2.0]]


def test_writes_in_a_chain_of_control_dependencies_happen_in_order() -> None:
    w = tf.Variable(2.0)
    double = tf.assign(w, w * 2.0)
    with tf.control_dependencies([double]):
        plus = tf.assign_add(w, 3.0)
    with tf.control_dependencies([plus]):
        last = w.read()
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(last) == 7.0


def test_a_group_runs_its_members_and_gives_none() -> None:
    a, b = tf.Variable(0.0), tf.Variable(0.0)
    both = tf.group(tf.assign(a, 1.0), tf.assign(b, 2.0))
    with tf.Session() as session:
        assert session.run(both) is None
        assert session.run([a, b]) == [1.0, 2.0]


def test_control_dependencies_on_what_is_no_node_are_an_error() -> None:
    with pytest.raises(TypeError, match="int"), tf.control_dependencies([1]):  # type: ignore[list-item]
        pass


# ── building ────────────────────────────────────────────────────────────────────────────────────


def test_static_shapes_keep_what_is_unknown() -> None:
    x = tf.placeholder(tf.float32, (None, 3))
    y = tf.matmul(x, tf.zeros((3, 5)))
    assert y.shape == (None, 5)
    assert y.shape == [None, 5]
    assert y.get_shape().as_list() == [None, 5]
    assert tf.reduce_sum(y, 0).shape == (5,)
    assert tf.transpose(y).shape == (5, None)


def test_a_shape_error_when_building_names_the_line() -> None:
    x = tf.placeholder(tf.float32, (None, 3))
    w = tf.zeros((4, 5))
    with pytest.raises(ShapeError, match=rf"\(4, 5\).*{here(1)}"):
        tf.matmul(x, w)


def test_a_shape_error_when_running_names_node_shapes_and_line() -> None:
    a, b = tf.placeholder(tf.float32, (None,), "a"), tf.placeholder(tf.float32, (None,), "b")
    line = here(1)
    total = tf.add(a, b, name="total")
    with tf.Session() as session:
        with pytest.raises(ShapeError, match=rf"\(2,\) and \(3,\).*'total'.*{line}"):
            session.run(total, {a: [1, 2], b: [1, 2, 3]})
        assert session.run(total, {a: [1, 2], b: [1, 2]}).tolist() == [2.0, 4.0]


def test_a_learners_operator_that_crashes_is_named_with_its_line() -> None:
    class Broken(Op):
        def compute(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
            raise RuntimeError("no idea")

        def infer(self, *specs: Any) -> Any:
            return specs[0]

    node = Broken()(tf.constant(1.0))
    with tf.Session() as session, pytest.raises(GraphError, match=rf"Broken.*no idea.*{here(-1)}"):
        session.run(node)


def test_names_are_unique_and_scoped() -> None:
    a, b = tf.constant(1.0, name="c"), tf.constant(1.0, name="c")
    with tf.name_scope("layer"):
        c = tf.constant(1.0, name="c")
    assert (a.name, b.name, c.name) == ("c", "c_1", "layer/c")


def test_a_node_is_an_object_without_a_value() -> None:
    x = tf.placeholder(tf.float32, (2,), name="x")
    assert len({x, x, tf.constant(1.0)}) == 2
    for use in (bool, float, np.asarray):
        with pytest.raises(GraphError, match=r"x: used as"):
            use(x)
    with pytest.raises(GraphError, match="iterated"):
        list(tf.placeholder(tf.float32, (None,)))


def test_numbers_and_arrays_take_the_dtype_of_the_node_beside_them() -> None:
    x = tf.placeholder(tf.float32, (2,))
    for other in (2, 2.0, np.ones(2), [1.0, 2.0]):
        assert (x * other).dtype == tf.float32
        assert (other * x).dtype == tf.float32
    assert (tf.placeholder(tf.int32, ()) + 1).dtype == tf.int32
    assert tf.constant(1.0).dtype == tf.float32
    assert tf.constant(1).dtype == tf.int32


def test_a_tensor_cannot_become_part_of_a_graph_unseen() -> None:
    with pytest.raises(Exception, match="placeholder"):
        tf.constant([1.0, 2.0]) + tensor([1.0, 2.0])


# ── random, compile ─────────────────────────────────────────────────────────────────────────────


def test_random_nodes_draw_anew_each_run_and_repeat_with_a_seed() -> None:
    tf.set_random_seed(5)
    x, y = tf.random_uniform((4,)), tf.random_normal((4,))
    first, second = tf.Session(), tf.Session()
    a, b = first.run([x, y])
    c, _ = first.run([x, y])
    d, e = second.run([x, y])
    assert (a != c).all()
    np.testing.assert_array_equal(a, d)
    np.testing.assert_array_equal(b, e)


def test_random_numbers_have_the_moments_that_were_asked_for() -> None:
    n = 40_000
    uniform = tf.random_uniform((n,), -1.0, 3.0, seed=1)
    normal = tf.random_normal((n,), 2.0, 0.5, seed=1)
    cut = tf.truncated_normal((n,), 1.0, 0.5, seed=1)
    whole = tf.random_uniform((n,), 0, 7, dtype=tf.int32, seed=1)
    with tf.Session() as session:
        u, g, t, i = session.run([uniform, normal, cut, whole])
    assert u.min() >= -1
    assert u.max() < 3
    assert abs(u.mean() - 1.0) < 6 * 4 / 12**0.5 / n**0.5
    assert abs(g.mean() - 2.0) < 6 * 0.5 / n**0.5
    assert abs(g.std() - 0.5) < 0.02
    assert np.abs(t - 1.0).max() <= 1.0
    assert set(i) == set(range(7))


def test_compile_gives_a_function_of_named_arrays() -> None:
    a, b = tf.Variable("A"), tf.Variable("B")
    f = tf.compile(b * a + tf.Constant(1))
    np.testing.assert_array_equal(f(A=np.ones(10), B=np.ones(10) * 2), np.full(10, 3.0))
    np.testing.assert_array_equal(f(A=np.ones((2, 2)), B=3.0), np.full((2, 2), 4.0))


def test_what_has_no_shape_is_built_from_what_is_fed() -> None:
    a, b = tf.Variable("A"), tf.Variable("B")
    total = tf.reduce_sum(a @ b * 2.0, 1)
    by_a, by_b = tf.gradients(total, [a, b])
    (second,) = tf.gradients(tf.gradients(a * a * b, [a])[0], [a])
    f = tf.compile([total, by_a, by_b])
    rng = np.random.default_rng(0)
    for n, m, k in ((2, 3, 4), (5, 1, 2)):
        x, y = rng.normal(size=(n, m)).astype("f"), rng.normal(size=(m, k)).astype("f")
        got = f(A=x, B=y)
        ones = np.full((n, k), 2.0)
        for value, want in zip(got, [(x @ y * 2).sum(1), ones @ y.T, x.T @ ones], strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-5)
    np.testing.assert_allclose(tf.compile(second)(A=[1.0, 2.0], B=[3.0, 4.0]), [6.0, 8.0])
    bias = tf.gradients(a + b, [b])[0]
    assert tf.compile(bias)(A=np.ones((4, 3)), B=np.ones(3)).tolist() == [4.0, 4.0, 4.0]


def test_a_compiled_function_says_which_arguments_it_wants() -> None:
    f = tf.compile(tf.Variable("A") + tf.Variable("B"))
    with pytest.raises(GraphError, match=r"missing B.*inputs are"):
        f(A=1.0)
    with pytest.raises(GraphError, match="unknown C"):
        f(A=1.0, B=1.0, C=1.0)


def test_a_variable_with_a_value_is_an_optional_argument() -> None:
    w = tf.Variable(3.0, name="w")
    f = tf.compile(tf.Variable("x") * w)
    assert f(x=2.0) == 6.0
    assert f(x=2.0, w=5.0) == 10.0


def test_a_graph_nobody_holds_is_freed() -> None:
    import gc
    import weakref

    gc.disable()
    try:
        x = tf.placeholder(tf.float32, (3,))
        y = tf.reduce_sum(x * x)
        gone = weakref.ref(y)
        del x, y
        assert gone() is None
    finally:
        gc.enable()


def test_a_plan_is_made_once_for_each_set_of_feeds_and_fetches() -> None:
    """Each partial run has a plan of its own, which runs no more than it needs."""
    first, second = Counter(), Counter()
    x = tf.placeholder(tf.float32, (None,))
    h = first(x)
    y = second(h * 2.0)
    with tf.Session() as session:
        for n in (1, 2, 3):
            session.run(y, {x: np.ones(n)})
            session.run(h, {x: np.ones(n)})
            session.run(y, {h: np.ones(n)})
            session.run([h, y], {x: np.ones(n)})
        assert session.plans == 4
    assert (first.runs, second.runs) == (9, 9)


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens", "arena"])
def test_a_shape_error_inside_fused_operators_names_the_one_at_fault(executor: str) -> None:
    a, b = tf.placeholder(tf.float32, (None,), "a"), tf.placeholder(tf.float32, (None,), "b")
    line = here(1)
    product = tf.multiply(a, b, name="product")
    waves = tf.reduce_sum(tf.tanh(product + 1.0))
    many, more = np.ones(30_000, np.float32), np.ones(40_000, np.float32)
    session = tf.Session(optimize=True, executor=executor)
    with pytest.raises(ShapeError, match=rf"mul: .*'product' built at {line}"):
        session.run(waves, {a: many, b: more})


def test_an_error_of_the_first_run_is_told_alone() -> None:
    a = tf.placeholder(tf.float32, (2,), "a")
    with tf.Session() as session, pytest.raises(GraphError, match="does not fit") as raised:
        session.run(a + 1.0, {a: [1.0, 2.0, 3.0]})
    assert raised.value.__context__ is None


def test_fetches_come_back_in_the_mapping_they_came_in() -> None:
    one = tf.constant(1.0)
    with tf.Session() as session:
        ordered = session.run(OrderedDict(b=one, a=one))
        plain = session.run({"b": one})
    assert type(ordered) is OrderedDict
    assert list(ordered) == ["b", "a"]
    assert type(plain) is dict


def test_a_write_is_built_in_the_graph_of_its_variable() -> None:
    with tf.Graph().as_default() as graph:
        v = tf.Variable(1.0)
    set_to_two = v.assign(2.0)
    with tf.Session(graph=graph) as session:
        assert session.run(set_to_two) == 2.0
    with pytest.raises(GraphError, match="assign: nodes of two graphs"):
        v.assign(tf.placeholder(tf.float32, []))


def test_nobody_waits_for_a_node_of_another_graph() -> None:
    with tf.Graph().as_default():
        elsewhere = tf.placeholder(tf.float32, name="elsewhere")
    with (
        pytest.raises(
            GraphError, match=r"control_dependencies: 'elsewhere' \(built at .*one graph"
        ),
        tf.control_dependencies([elsewhere]),
    ):
        pass


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_a_node_that_waits_for_itself_is_named(executor: str) -> None:
    first = tf.placeholder(tf.float32, []) + 1.0
    last = tf.multiply(first, 2.0, name="last")
    first.inputs = (last, first.inputs[1])
    session = tf.Session(executor=executor)
    with pytest.raises(GraphError, match=r"the graph has a cycle.*Repeat by while_loop"):
        session.run(last)


def test_sizes_are_whole_numbers() -> None:
    for build in (
        lambda shape: tf.placeholder(tf.float32, shape),
        tf.zeros,
        tf.random_normal,
        lambda shape: tf.fill(shape, 1.0),
        lambda shape: tf.constant(0.0, shape=shape),
    ):
        assert build([64 / 2, 3]).shape == (32, 3)
        with pytest.raises(GraphError, match=r"shape: got \[2.5\], expected .* whole sizes"):
            build([2.5])
    with pytest.raises(GraphError, match="shape: got 'abc', expected a list"):
        tf.placeholder(tf.float32, "abc")
    with pytest.raises(GraphError, match=r"constant 'Const.*got shape \(None,\), expected every"):
        tf.constant(0.0, shape=[None])


def test_classes_are_one_for_each_row_and_not_repeated() -> None:
    logits = tf.placeholder(tf.float32, [None, 3])
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits
    with pytest.raises(ShapeError, match=r"labels of shape \(None, 1\).*\(None, 3\).*squeeze"):
        loss(logits=logits, labels=tf.placeholder(tf.int32, [None, 1]))
    labels = tf.placeholder(tf.int32, [None])
    with tf.Session() as session, pytest.raises(ShapeError, match=r"\(1,\).*expected \(4,\)"):
        session.run(loss(logits=logits, labels=labels), {logits: np.ones((4, 3)), labels: [1]})
