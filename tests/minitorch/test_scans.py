"""Products, running ones and sums, with gradients of both orders, by PyTorch; recurrences."""

from typing import Any

import array_api_compat.torch
import numpy as np
import pytest
import torch

import minitorch
from minitorch.graph import jit
from minitorch.ops.reducing.scans import Recurrence

SHAPES = [((19, 21), 0), ((19, 21), 1), ((5, 9, 33), 1), ((3, 4), 0), ((0, 3), 0), ((3, 0), 0),
          ((1, 80), 0), ((7,), 0), ((), 0)]  # fmt: skip


def results(lib: Any, name: str, array: Any, dim: int, dtype: str) -> list[Any]:
    x = lib.tensor(array).to(getattr(lib, dtype)).requires_grad_(True)
    y = getattr(lib, name)(x, dim)
    (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad((first * first).sum(), x)
    (plain,) = lib.autograd.grad(getattr(lib, name)(x, dim).sum(), x)
    return [v.detach().to(lib.float64).numpy() for v in (y, first, second, plain)]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "prod"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_values_and_gradients_of_both_orders_are_torchs(
    shape: tuple[int, ...], dim: int, name: str, dtype: str, zeros: bool
) -> None:
    rng = np.random.default_rng(len(shape))
    array = np.asarray(rng.uniform(0.7, 1.3, shape) * rng.choice([-1, 1], shape), dtype)
    if zeros:
        array = np.where(rng.random(shape) < 0.1, 0, array).astype(dtype)
    tolerance = 2e-4 if dtype == "float32" else 1e-10
    theirs = results(torch, name, array, dim, dtype)
    for ours, other in zip(results(minitorch, name, array, dim, dtype), theirs, strict=True):
        largest = np.abs(other).max(initial=1.0)
        np.testing.assert_allclose(ours, other, tolerance, tolerance * largest)
    compiled = jit(lambda x: getattr(minitorch, name)(x, dim))(minitorch.tensor(array))
    np.testing.assert_allclose(compiled.numpy(), theirs[0], tolerance, tolerance)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "int32", "bool"])
def test_what_goes_on_is_wider_than_half_precision_and_integers_are_int64(
    name: str, dtype: str
) -> None:
    array = np.ones((3000, 2)) if name == "cumsum" else np.full((300, 2), 1.001)
    for dim, each in ((0, array), (1, array.T)):
        for lib_array in (each, np.ascontiguousarray(each)):
            x = torch.tensor(lib_array).to(getattr(torch, dtype))
            want = getattr(torch, name)(x, dim)
            got = getattr(minitorch, name)(
                minitorch.tensor(lib_array).to(getattr(minitorch, dtype)), dim
            )
            assert str(got.dtype) == str(want.dtype).removeprefix("torch.")
            np.testing.assert_allclose(got.double().numpy(), want.double().numpy(), 1e-6)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_nothing_that_comes_later_is_in_a_running_value(name: str) -> None:
    x = np.ones((20, 20), np.float32)
    x[3, 4], x[7, 8] = np.nan, np.inf
    for dim in (0, 1):
        want = getattr(torch, name)(torch.tensor(x), dim).numpy()
        np.testing.assert_array_equal(getattr(minitorch, name)(minitorch.tensor(x), dim), want)


@pytest.mark.parametrize("dim", [0, 1])
def test_a_product_past_the_range_of_its_dtype_has_the_gradient_of_the_others(dim: int) -> None:
    x = np.array([[1e-30, 1e-20, 2], [1e30, 1e20, 2], [3, 5, 7]], np.float32)
    others = x[:, [1, 0, 0]].astype(float) * x[:, [2, 2, 1]]
    tensor = minitorch.tensor(x if dim else x.T, requires_grad=True)
    tensor.prod(dim).sum().backward()
    with np.errstate(over="ignore"):
        expected = others.astype(np.float32)
    np.testing.assert_allclose(tensor.grad.numpy(), expected if dim else expected.T, 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize(("shape", "dim"), [*SHAPES, ((3, 200), 1), ((90, 40), 0)], ids=str)
def test_extremes_so_far_are_torchs_and_of_equal_ones_the_last(
    shape: tuple[int, ...], dim: int, name: str, dtype: str
) -> None:
    rng = np.random.default_rng(len(shape))
    array = np.asarray(rng.integers(-3, 4, shape), dtype)
    arrays = [array]
    if dtype != "int64":
        odd = rng.choice([0.0, -0.0, np.inf, -np.inf, 5e-324, 1.5, np.nan], shape)
        arrays += [np.asarray(rng.normal(size=shape), dtype), np.asarray(odd, dtype)]
        arrays += [np.asarray(rng.choice([-0.0, 0.0, -1.0, np.inf, -np.inf], shape), dtype)]
    for each in arrays:
        want = getattr(torch, name)(torch.tensor(each), dim)
        for lib_array in (each, np.asfortranarray(each)):
            got = getattr(minitorch, name)(minitorch.tensor(lib_array), dim)
            np.testing.assert_array_equal(got.indices, want.indices.numpy())
            np.testing.assert_array_equal(got.values, want.values.numpy())


@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize("by_last", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_a_recurrence_is_its_steps_with_and_without_a_kernel(
    dim: int, by_last: bool, from_end: bool
) -> None:
    op, rng = Recurrence(dim, from_end, by_last), np.random.default_rng(dim)
    a, b = rng.uniform(-1, 1, (2, 5, 6, 18))
    way = -1 if from_end else 1
    factors, terms = (np.moveaxis(v, dim, 0)[::way] for v in (a, b))
    steps = [terms[0]]
    for i in range(1, len(terms)):
        steps.append(factors[i - by_last] * steps[-1] + terms[i])
    want = np.moveaxis(np.array(steps[::way]), 0, dim)
    plain = op.compute(array_api_compat.torch, *map(torch.tensor, (a, b))).numpy()
    strided = op.compute(np, np.asfortranarray(a), np.asfortranarray(b))
    for got in (op.compute(np, a, b), plain, strided):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    values = [minitorch.tensor(v[:2, :2, :3].copy(), requires_grad=True) for v in (a, b)]
    assert minitorch.gradcheck(op, values)
