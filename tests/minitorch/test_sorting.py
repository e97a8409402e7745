"""Sorting, the first few of long rows, and medians, beside PyTorch: ties, NaN, -0, all dtypes."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as graph
from minitorch.errors import ShapeError

NUMBERS = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]


def drawn(dtype: str, shape: tuple[int, ...]) -> Any:
    """Return numbers of which many are equal; of floats some are special."""
    rng = np.random.default_rng(len(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        numbers = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.3, numbers.flat[0], numbers)
    numbers = np.round(rng.normal(size=shape), 1).astype(dtype)
    for special in (-0.0, np.inf, -np.inf, np.nan, -np.nan):
        numbers[rng.random(shape) < 0.01] = special
    return numbers


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(5000,), (3, 2000), (70, 80), (2, 30, 90), (5, 4)])
def test_orders_are_torchs_stable_ones(dtype: str, shape: tuple[int, ...]) -> None:
    numbers = drawn(dtype, shape)
    ours, theirs = minitorch.tensor(numbers), torch.tensor(numbers)
    for dim, size in enumerate(shape):
        for descending in (False, True):
            places = torch.argsort(theirs, dim=dim, descending=descending, stable=True).numpy()
            found = minitorch.argsort(ours, dim, descending)
            np.testing.assert_array_equal(found.numpy(), places)
            for count in {0, 1, min(3, size), size // 9, size // 2, size}:
                first = minitorch.topk(ours, count, dim, largest=descending)
                right = places.take(range(count), dim)
                np.testing.assert_array_equal(first.indices.numpy(), right)
                values = np.take_along_axis(numbers, right, dim)
                np.testing.assert_array_equal(first.values.numpy(), values)


@pytest.mark.parametrize("row", [[1.0, np.nan, 3.0], [np.nan] * 2, [2.0, 1.0, 4.0, 3.0], [1, 5, 3]])
def test_the_median_of_what_is_no_number_is_none(row: list[float]) -> None:
    ours, theirs = minitorch.tensor([row]), torch.tensor([row])
    np.testing.assert_array_equal(ours.median().numpy(), theirs.median().numpy())
    for found, right in zip(ours.median(1), theirs.median(1), strict=True):
        if np.isfinite(row).all():
            np.testing.assert_array_equal(found.numpy(), right.numpy())
    np.testing.assert_array_equal(ours.median(1).values.numpy(), theirs.median(1).values.numpy())


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["max", "min", "median"])
def test_one_element_of_each_line_and_its_gradient_are_torchs(name: str, keepdim: bool) -> None:
    rng = np.random.default_rng(1)
    for shape in ((), (5,), (4, 6), (3, 1, 4), (30, 20, 9)):
        numbers = rng.permutation(int(np.prod(shape))).reshape(shape) / 7
        for dim in range(-1, max(len(shape), 1)):
            sides = []
            for lib in (minitorch, torch):
                x = lib.tensor(numbers, requires_grad=True)
                values, places = getattr(x, name)(dim, keepdim)
                (values * values).sum().backward()
                sides.append([v.numpy() for v in (values.detach(), places, x.grad)])
                assert lib is torch or np.ndarray in {type(places.array)}
            for ours, theirs in zip(*sides, strict=True):
                np.testing.assert_array_equal(ours, theirs, strict=True)


def test_what_cannot_be_chosen_is_refused() -> None:
    for count in (-1, 5, 1.5):
        with pytest.raises(ValueError, match=f"got k = {count}, expected 0 to 4"):
            minitorch.topk(minitorch.zeros(3, 4), count)
    for numbers, dim in ((minitorch.zeros(0), None), (minitorch.zeros(2, 0), 1)):
        with pytest.raises(IndexError, match="median: no element"):
            minitorch.median(numbers, dim)
    with pytest.raises(ShapeError, match="out of bounds for axis 0 with size 0"):
        minitorch.zeros(0, 3)[minitorch.tensor([0])]


def test_the_first_few_in_a_graph_are_those_outside() -> None:
    numbers = drawn("float32", (64, 100))
    compiled = graph.jit(lambda x: minitorch.topk(x * 2, 3).values)
    right = torch.topk(torch.tensor(numbers) * 2, 3).values.numpy()
    np.testing.assert_array_equal(compiled(minitorch.tensor(numbers)).numpy(), right)
