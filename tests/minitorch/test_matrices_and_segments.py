"""Decompositions: values against torch and NumPy, gradients against differences."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as tf
from minitorch.errors import ShapeError
from minitorch.ops import decompositions
from minitorch.ops.linalg import mT

RNG = np.random.default_rng(7)
SQUARE = RNG.normal(size=(2, 4, 4)) + 4 * np.eye(4)
SYMMETRIC = SQUARE @ SQUARE.transpose(0, 2, 1)


@pytest.mark.parametrize(
    ("ours", "theirs", "x"),
    [
        (decompositions.inverse, torch.linalg.inv, SQUARE),
        (decompositions.det, torch.linalg.det, SQUARE),
        (
            lambda a: decompositions.cholesky((a + mT(a)) * 0.5),
            lambda a: torch.linalg.cholesky((a + a.mT) * 0.5),
            SYMMETRIC,
        ),
    ],
)
def test_decompositions_and_their_gradients_are_torchs(ours: Any, theirs: Any, x: Any) -> None:
    mine, other = minitorch.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    weight = RNG.normal(size=tuple(theirs(other).shape))
    a, b = (ours(mine) * weight).sum(), (theirs(other) * torch.tensor(weight)).sum()
    np.testing.assert_allclose(a.item(), b.item(), rtol=1e-9)
    a.backward()
    b.backward()
    np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-7, atol=1e-10)
    assert minitorch.gradcheck(ours, [minitorch.tensor(x[0], requires_grad=True)], order=2)


def test_solutions_and_their_gradients_are_torchs() -> None:
    right = RNG.normal(size=(2, 4, 3))
    a, b = (minitorch.tensor(x, requires_grad=True) for x in (SQUARE, right))
    c, d = (torch.tensor(x, requires_grad=True) for x in (SQUARE, right))
    x, y = decompositions.solve(a, b), torch.linalg.solve(c, d)
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-9)
    (x * x).sum().backward()
    (y * y).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), c.grad.numpy(), rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(b.grad.numpy(), d.grad.numpy(), rtol=1e-7, atol=1e-10)


def test_they_are_the_same_eager_symbolic_and_compiled() -> None:
    x = tf.placeholder(tf.float64, (4, 4), name="x")
    y = tf.reduce_sum(decompositions.inverse(x) * decompositions.det(x)[None, None])
    by_x = tf.gradients(y, x)[0]
    eager = minitorch.tensor(SQUARE[0], requires_grad=True)
    z = (decompositions.inverse(eager) * decompositions.det(eager)).sum()
    z.backward()
    for options in ({"executor": "interpreter"}, {"optimize": True}, {"executor": "tokens"}):
        with tf.Session(**options) as session:
            got, grad = session.run([y, by_x], {x: SQUARE[0]})
        np.testing.assert_allclose(got, z.item(), rtol=1e-9)
        np.testing.assert_allclose(grad, eager.grad.numpy(), rtol=1e-9)


def test_what_is_not_square_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"inverse: got shape \(5, 3\), expected square"):
        decompositions.inverse(tf.placeholder(tf.float32, (5, 3)))


def test_an_inverse_with_a_wrong_sign_in_its_gradient_is_found_out() -> None:
    class Wrong(decompositions.Inverse):
        def gradient(self, out_grad: Any, node: Any) -> Any:
            return (-super().gradient(out_grad, node)[0],)

    x = minitorch.tensor(SQUARE[0], requires_grad=True)
    with pytest.raises(AssertionError):
        minitorch.gradcheck(Wrong(), [x])
