"""Tensors and operations by their names, as programs of the time ask for them."""

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


def _model() -> tuple[tf.Node, tf.Node]:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.variable_scope("layer"):
        w = tf.get_variable("w", [2, 3], initializer=tf.ones_initializer())
        y = tf.nn.relu(tf.matmul(x, w, name="product"), name="y")
    return x, y


def test_a_tensor_is_found_with_and_without_its_number() -> None:
    x, y = _model()
    graph = tf.get_default_graph()
    assert graph.get_tensor_by_name("x:0") is x
    assert graph.get_operation_by_name("layer/y") is y
    assert graph.get_operation_by_name("layer/y").outputs[0] is y
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run("layer/y:0", {"x:0": [[1, 2]]}).tolist() == [[3, 3, 3]]


def test_a_variable_has_the_operation_that_programs_name_summaries_by() -> None:
    _model()
    (v,) = tf.trainable_variables()
    assert v.op.name == "layer/w" == v.name
    assert v.op.type == "VariableV2"
    summary = tf.summary.histogram(v.op.name, v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(summary)["layer/w_1"]["count"] == 6
        assert list(session.run({v.op.name: v})) == ["layer/w"]


def test_operations_tell_their_kind_and_inputs() -> None:
    x, y = _model()
    product = y.inputs[0]
    assert (x.type, y.type, product.type) == ("Placeholder", "Relu", "MatMul")
    assert [source.name for source in product.inputs] == ["x", "layer/w"]
    assert product.outputs == [product]
    assert product.node_def.input == ["x", "layer/w"]


@pytest.mark.parametrize("name", ["inputs", "outputs", "type"])
def test_an_operator_says_that_its_node_is_the_operation(name: str) -> None:
    x = tf.placeholder(tf.float32, [2])
    y = tf.exp(x)
    with pytest.raises(AttributeError, match=f"operator 'Unary' .*use node.{name}"):
        getattr(y.op, name)
    assert (y.type, list(y.inputs), y.outputs) == ("Exp", [x], [y])


def test_a_graph_lists_its_operations_in_the_order_they_were_built() -> None:
    keep = _model()
    names = [n.name for n in tf.get_default_graph().as_graph_def().node]
    wanted = ["x", "layer/w", "layer/product", "layer/y"]
    assert [n for n in names if n in wanted] == wanted
    kinds = {n.name: n.op for n in tf.get_default_graph().as_graph_def().node}
    assert kinds["layer/w"] == "VariableV2"
    assert keep[1].name in names


def test_what_only_runs_before_is_marked_in_the_description() -> None:
    first = tf.no_op(name="first")
    with tf.control_dependencies([first]):
        second = tf.identity(tf.constant(1.0), name="second")
    assert "^first" in second.node_def.input


def test_a_name_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(GraphError, match="'nowhere:0'"):
        tf.get_default_graph().get_tensor_by_name("nowhere:0")


def test_variables_are_restored_by_the_names_of_their_operations(tmp_path: object) -> None:
    _model()
    by_name = {v.op.name: v for v in tf.global_variables()}
    saver = tf.train.Saver(by_name)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, f"{tmp_path}/model")
        session.run(tf.assign(by_name["layer/w"], np.zeros((2, 3), np.float32)))
        saver.restore(session, path)
        assert session.run(by_name["layer/w"]).sum() == 6
