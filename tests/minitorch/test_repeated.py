"""Arithmetic of a large array and one that is repeated for it, and sums back, beside NumPy."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
from minitorch.ops.elementwise import compiled
from minitorch.ops.elementwise.rows import ROWS
from minitorch.ops.reducing.reduction import Mean, Sum, _sums_between

SHAPES = [
    ((300, 260), (260,)),
    ((300, 260), (300, 1)),
    ((260,), (300, 260)),
    ((300, 1), (1, 260)),
    ((3, 1, 260), (1, 170, 1)),
    ((2, 16, 50, 40), (16, 1, 1)),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("call", [operator.add, operator.sub, operator.mul, operator.truediv])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_a_repeated_row_or_column_gives_numpys_bits(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    call: Callable[[Any, Any], Any],
    dtype: str,
    threads: int,
) -> None:
    rng = np.random.default_rng(0)
    a, b = ((1 + 8 * rng.random(shape)).astype(dtype) for shape in shapes)
    before = minitorch.get_num_threads()
    minitorch.set_num_threads(threads)
    try:
        got = call(minitorch.tensor(a), minitorch.tensor(b)).numpy()
    finally:
        minitorch.set_num_threads(before)
    if dtype == "int64" and call is operator.truediv:
        a, b = a.astype("float32"), b.astype("float32")
    assert np.array_equal(got, call(a, b)) and got.dtype == call(a, b).dtype


def test_what_is_large_and_repeated_goes_to_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    kernel_of = compiled._kernel_of

    def note(name: str, arrays: Any) -> Any:
        found.append(name)
        return kernel_of(name, arrays)

    monkeypatch.setattr(compiled, "_kernel_of", note)
    x, row = minitorch.ones(300, 260), minitorch.ones(260)
    (x + row, row - x, x * row, x / row, x[:9, :100] * row[:100])
    assert found == ["add", "sub", "mul", "div"]


def samples_last(dtype: str) -> Any:
    rng = np.random.default_rng(0)
    return np.moveaxis(rng.standard_normal((6, 12, 11, 9)).astype(dtype), -1, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_relus_gradient_of_a_mean_lies_as_the_result_does(dtype: str) -> None:
    y = np.maximum(samples_last(dtype), 0)
    means = np.random.default_rng(1).standard_normal((9, 6, 1, 1)).astype(dtype)
    means[3, 2], means[4, 1] = np.nan, np.inf
    for part in (means, means[:, :1], means[:1], means[:1, :1]):
        g = np.broadcast_to(part, y.shape)
        got = ROWS["relu_grad"].compute(np, g, y)
        assert np.array_equal(got, np.where(y != 0, g, 0), equal_nan=True)
        assert got.strides == y.strides


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(2, 3), (1, 2, 3), (0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)])
def test_sums_along_axes_of_any_order_in_memory(
    dims: tuple[int, ...], keepdim: bool, dtype: str
) -> None:
    x = samples_last(dtype)
    x[2, 3, 4, 5], x[7, 1, 0, 0] = np.nan, np.inf
    for array in (x, x.copy(), x[:, :, ::2]):
        want = np.sum(array, dims, np.float64, keepdims=keepdim)
        close = {"rtol": 20 * np.finfo(dtype).eps, "atol": 200 * np.finfo(dtype).eps}
        got = Sum(dims, keepdim).compute(np, array)
        np.testing.assert_allclose(got, want, **close)
        assert got.dtype == dtype
        count = array.size // max(want.size, 1)
        np.testing.assert_allclose(Mean(dims, keepdim).compute(np, array), want / count, **close)


def test_sums_of_places_before_samples_are_a_product() -> None:
    assert _sums_between(samples_last("float32"), (2, 3)) is not None
    assert _sums_between(samples_last("float32"), (0, 1)) is None  # not side by side
