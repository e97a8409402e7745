"""Operators as a learner writes them, in a notebook: one class, both ways of programming."""

from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch import graph
from minitorch.errors import DTypeError, GradientError, NoGradientRule, ShapeError


class Exp(minitorch.Op):
    def compute(self, xp: Any, x: Any) -> Any:
        return xp.exp(x)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        (x,) = node.inputs
        return out_grad * Exp()(x)


class ExpOfResult(Exp):
    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad * node


class Scale(minitorch.Op):
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def compute(self, xp: Any, x: Any) -> Any:
        return x * self.factor

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return (out_grad * self.factor,)


class NoGradient(minitorch.Op):
    def compute(self, xp: Any, x: Any) -> Any:
        return xp.floor(x)


class ForgetsToSum(minitorch.Op):
    def compute(self, xp: Any, a: Any, b: Any) -> Any:
        return a + b

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad, out_grad


def leaf(*numbers: float) -> minitorch.Tensor:
    return minitorch.tensor(list(numbers), dtype=minitorch.float64, requires_grad=True)


@pytest.mark.parametrize("op", [Exp(), ExpOfResult(), Scale(3.0)])
def test_a_learners_operator_has_a_right_gradient_of_both_orders(op: minitorch.Op) -> None:
    assert minitorch.gradcheck(op, leaf(0.3, -0.2))
    assert minitorch.gradgradcheck(op, leaf(0.3, -0.2))


@pytest.mark.parametrize("op", [Exp(), ExpOfResult()])
def test_the_same_operator_works_in_a_dataflow_graph(op: minitorch.Op) -> None:
    x = graph.placeholder("float64", (2,))
    y = op(x)
    (dx,) = graph.gradients(y, [x])
    with graph.Session() as session:
        value, slope = session.run([y, dx], {x: np.array([0.0, 1.0])})
    np.testing.assert_allclose(value, np.exp([0.0, 1.0]))
    np.testing.assert_allclose(slope, np.exp([0.0, 1.0]))


def test_the_node_shows_its_inputs() -> None:
    x = leaf(1.0)
    y = Exp()(x)
    assert y.inputs == (x,)
    assert y.op is not None
    assert y.op.name == "Exp"


def test_backward_through_an_operator_without_gradient_names_it() -> None:
    with pytest.raises(NoGradientRule, match="NoGradient: backward"):
        NoGradient()(leaf(1.0)).sum().backward()


def test_a_gradient_of_the_wrong_shape_names_operator_input_and_shapes() -> None:
    y = ForgetsToSum()(
        minitorch.ones(2, 3, requires_grad=True), minitorch.ones(3, requires_grad=True)
    )
    with pytest.raises(ShapeError, match=r"ForgetsToSum.gradient: input 1 has shape \(3,\)"):
        y.sum().backward()


def test_too_few_gradients_are_an_error() -> None:
    class One(ForgetsToSum):
        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad

    with pytest.raises(GradientError, match="got 1 gradients, expected 2"):
        One()(leaf(1.0), leaf(2.0)).sum().backward()


def test_a_learners_own_error_in_compute_arrives_as_it_is() -> None:
    class Broken(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Broken()(leaf(1.0))


@pytest.mark.parametrize("result", [None, 1.0, [1.0], (np.ones(1), np.ones(1)), leaf(1.0)])
def test_what_compute_returns_is_one_array(result: object) -> None:
    class Odd(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return result

    expected = rf"Odd.compute: got {type(result).__name__} as its result"
    for x in (leaf(1.0), graph.placeholder("float64", (1,))):
        with pytest.raises(DTypeError, match=expected):
            Odd()(x)
    with pytest.raises(DTypeError, match=expected):
        graph.jit(Odd())(leaf(1.0))


def test_a_gradient_that_hands_on_one_tensor_twice_gives_separate_gradients() -> None:
    class Both(ForgetsToSum):
        def gradient(self, out_grad: Any, node: Any) -> Any:
            twice = out_grad * 2
            return twice, twice

    a, b = leaf(1.0), leaf(2.0)
    Both()(a, b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    assert not np.shares_memory(a.grad.array, b.grad.array)


def test_operators_compute_on_plain_arrays_too() -> None:
    assert Exp()(np.zeros(2)).tolist() == [1.0, 1.0]


def test_a_number_beside_a_tensor_is_wrapped() -> None:
    class Add(minitorch.Op):
        def compute(self, xp: Any, a: Any, b: Any) -> Any:
            return a + b

        def gradient(self, out_grad: Any, node: Any) -> Any:
            assert all(isinstance(value, minitorch.Tensor) for value in node.inputs)
            return out_grad, None

    x = leaf(1.0)
    Add()(x, 2.0).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 1.0


def test_operators_without_a_tensor_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a tensor"):
        minitorch.exp(1.0)
