"""NumPy's numbers as arguments: what `argmax`, `prod` and `len` of arrays give is a number too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import graph

X = np.random.default_rng(0).standard_normal((4, 6))
IMAGE = np.random.default_rng(1).standard_normal((2, 4, 6, 6))
PLACES = np.array([[0], [1], [2], [1]])

Call = Callable[[Any, Any, Callable[[int], Any]], Any]

WHOLE: dict[str, Call] = {
    "sum along axis 0": lambda lib, x, n: x.sum(n(0)),
    "sum along axis 1": lambda lib, x, n: x.sum(n(1)),
    "mean": lambda lib, x, n: x.mean(n(-1)),
    "variance along axis 0": lambda lib, x, n: x.var(n(0)),
    "deviation": lambda lib, x, n: x.std(n(1), correction=n(0)),
    "largest along an axis": lambda lib, x, n: x.max(n(1))[0],
    "least along an axis": lambda lib, x, n: x.min(n(0))[1],
    "amax": lambda lib, x, n: x.amax(n(1)),
    "logsumexp": lambda lib, x, n: x.logsumexp(n(0)),
    "norm": lambda lib, x, n: x.norm(n(2), n(1)),
    "norm of columns": lambda lib, x, n: lib.linalg.norm(x, n(2), n(0)),
    "count_nonzero": lambda lib, x, n: x.count_nonzero(n(0)),
    "squeeze": lambda lib, x, n: x.unsqueeze(n(0)).squeeze(n(0)),
    "roll": lambda lib, x, n: x.roll(n(1), n(0)),
    "roll of all": lambda lib, x, n: x.roll(n(1)),
    "split": lambda lib, x, n: x.split(n(4), n(1))[1],
    "arange": lambda lib, x, n: lib.arange(n(5)) + lib.arange(n(1), n(11), n(2)),
    "scatter a number": lambda lib, x, n: x.scatter(n(1), lib.tensor(PLACES), n(3)),
    "power": lambda lib, x, n: x ** n(2) + x.pow(n(3)),
    "normalize": lambda lib, x, n: lib.nn.functional.normalize(x, n(2), n(0)),
    "steps of windows": lambda lib, x, n: lib.nn.functional.max_pool2d(
        lib.tensor(IMAGE), n(2), n(1), n(1)
    ),
    "sizes of a convolution": lambda lib, x, n: lib.zeros(
        lib.nn.Conv2d(n(4), n(2), n(3), n(1), n(1))(lib.ones(1, 4, 5, 5)).shape
    ),
    "sizes of a norm": lambda lib, x, n: lib.nn.LayerNorm(n(6), dtype=lib.float64)(x),
}


@pytest.mark.parametrize("what", WHOLE)
def test_numpys_integers_mean_what_pythons_do(what: str) -> None:
    ours = WHOLE[what](minitorch, minitorch.tensor(X), np.int64)
    expected = WHOLE[what](torch, torch.tensor(X), int)
    assert str(ours.dtype) == str(expected.dtype).removeprefix("torch.")
    np.testing.assert_allclose(ours.detach().numpy(), expected.detach().numpy(), 1e-12)


@pytest.mark.parametrize("number", [np.float64, np.float32])
def test_a_power_by_a_number_of_numpys_keeps_the_dtype(number: Any) -> None:
    x = X.astype(np.float32)
    ours, expected = minitorch.tensor(x) ** number(2), torch.tensor(x) ** 2.0
    assert ours.dtype == minitorch.float32
    np.testing.assert_array_equal(ours.numpy(), expected.numpy())


@pytest.mark.parametrize("axis", [np.int64(0), np.int32(1)], ids=repr)
def test_graphs_take_numpys_integers_as_axes_and_sizes(axis: Any) -> None:
    x = graph.constant(X)
    reduced = graph.reduce_sum(x, axis), graph.reduce_max(x, axis), graph.reduce_prod(x, axis)
    lone = graph.squeeze(graph.expand_dims(x, axis), axis)
    pieces = graph.split(x, np.int64(2), axis)
    joined = graph.concat([x, x], axis)
    *sums, same, parts, twice = graph.Session().run((*reduced, lone, pieces, joined))
    for total, reduce in zip(sums, (np.sum, np.max, np.prod), strict=True):
        np.testing.assert_allclose(total, reduce(X, axis), 1e-12)
    np.testing.assert_array_equal(same, X)
    np.testing.assert_array_equal(parts[1], np.split(X, 2, axis)[1])
    np.testing.assert_array_equal(twice, np.concatenate([X, X], axis))
