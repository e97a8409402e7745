"""Functions of nodes that a traced function calls with its tensors: TensorFlow's names, traced."""

import numpy as np
import pytest

from minitorch import Tensor, tensor
from minitorch.errors import GraphError
from minitorch.graph import (
    Graph,
    Session,
    Variable,
    constant,
    float32,
    get_default_graph,
    gradients,
    initialize_all_variables,
    jit,
    matmul,
    nn,
    placeholder,
    reduce_sum,
    trace,
    trainable_variables,
)
from minitorch.graph.core.node import Node


def over_time(x: Node) -> Node:
    outputs, _ = nn.dynamic_rnn(nn.rnn_cell.BasicLSTMCell(4), x, dtype=float32)
    return outputs


def sequences() -> Tensor:
    return tensor(np.random.default_rng(0).normal(size=(2, 5, 3)).astype(np.float32))


def test_a_traced_dynamic_rnn_gives_what_the_graph_gives() -> None:
    x = sequences()
    traced = trace(over_time)(x)
    with traced.graph.as_default(), Session() as session:
        session.run(initialize_all_variables())
        found = session.run(traced.outputs, traced.feed(x))
        variables = {v.name: session.run(v) for v in trainable_variables()}
        grads = gradients(reduce_sum(traced.outputs), trainable_variables())
        shapes = [grad.shape for grad in session.run(grads, traced.feed(x))]
    assert shapes == [value.shape for value in variables.values()]
    with Graph().as_default(), Session() as session:
        fed = placeholder(float32, (2, 5, 3))
        outputs = over_time(fed)
        for variable in get_default_graph().variables:
            session.load(variable, variables[variable.name])
        np.testing.assert_array_equal(session.run(outputs, {fed: x.numpy()}), found)


def test_nodes_and_traced_tensors_mix_and_let_gradients_through() -> None:
    weights = np.arange(6, dtype=np.float32).reshape(3, 2)

    def function(x: Tensor) -> Tensor:
        return matmul(x[0], constant(weights)) * x[0, :, :2] + nn.relu(x[0, :, 1:])

    x = sequences()
    x.requires_grad = True
    found = jit(function)(x)
    assert isinstance(found, Tensor)
    found.sum().backward()
    y = sequences()
    y.requires_grad = True
    want = (y[0] @ tensor(weights)) * y[0, :, :2] + y[0, :, 1:].relu()
    want.sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), want.detach().numpy(), rtol=1e-6)
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-6)


def test_jit_refuses_a_function_that_makes_variables() -> None:
    def function(x: Tensor) -> Tensor:
        return x * Variable(np.ones(3, np.float32), name="scale")

    with pytest.raises(GraphError, match=r"jit: the function makes variable 'scale'.*module"):
        jit(function)(sequences())


def test_a_tensor_from_outside_the_trace_is_still_refused_by_functions_of_nodes() -> None:
    outside = sequences()
    with pytest.raises(GraphError, match="got a Tensor, expected nodes"):
        jit(lambda x: matmul(x, outside))(sequences())
