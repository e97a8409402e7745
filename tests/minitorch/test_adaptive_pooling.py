"""Adaptive average pooling with gradients of both orders, by PyTorch, with and without a kernel."""

from typing import Any

import array_api_compat.torch
import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import ShapeError
from minitorch.nn import functional as F
from minitorch.ops.networks.pooling import AdaptiveMeans

CASES: list[tuple[tuple[int, ...], Any]] = [
    ((2, 3, 13, 18), (5, 7)),
    ((2, 3, 13, 18), (5, None)),
    ((2, 3, 6, 4), (8, 7)),
    ((3, 8, 8), 4),
    ((2, 1, 2, 2), (3, 1)),
    ((0, 3, 13, 18), (5, 7)),
]


def results(lib: Any, name: str, x: Any, size: Any) -> list[Any]:
    pool = getattr(lib.nn.functional, name)
    x = x.requires_grad_(True)
    y = pool(x, size)
    (first,) = lib.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = lib.autograd.grad((first * first).sum(), x)
    return [v.detach().to(lib.float64).numpy() for v in (y, first, second)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("last", [False, True], ids=["rows", "samples last"])
@pytest.mark.parametrize(("shape", "size"), CASES, ids=str)
def test_means_and_gradients_are_torchs(
    shape: tuple[int, ...], size: Any, last: bool, dtype: str
) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    tolerance = {"float16": 3e-3, "bfloat16": 3e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    x = minitorch.tensor(array).to(getattr(minitorch, dtype))
    if last:
        x = x.permute(*range(1, x.ndim), 0).contiguous().permute(-1, *range(x.ndim - 1))
    theirs = results(torch, "adaptive_avg_pool2d", torch.tensor(x.double().numpy()), size)
    ours = results(minitorch, "adaptive_avg_pool2d", x.detach(), size)
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, want, tolerance, tolerance)


def test_an_infinite_or_missing_number_is_only_in_its_own_windows() -> None:
    x = np.ones((2, 5, 33), np.float32)
    x[0, 1, 3], x[1, 2, 30] = np.inf, np.nan
    want = torch.nn.functional.adaptive_avg_pool1d(torch.tensor(x), 4).numpy()
    np.testing.assert_array_equal(F.adaptive_avg_pool1d(minitorch.tensor(x), 4), want)


def test_large_float16_numbers_are_added_up_in_float32() -> None:
    x = torch.full((1, 1, 40, 41), 1000.0, dtype=torch.float16)
    got = F.adaptive_avg_pool2d(minitorch.tensor(x.numpy()), 3)
    np.testing.assert_array_equal(got, torch.nn.functional.adaptive_avg_pool2d(x, 3).numpy())


@pytest.mark.parametrize("turned", [False, True])
def test_a_kernel_gives_what_sums_of_slices_give(turned: bool) -> None:
    op = AdaptiveMeans(((13, 5), (6, 9)), turned)
    x = np.random.default_rng(0).standard_normal((2, 4, 5, 9) if turned else (2, 4, 13, 6))
    plain = op.compute(array_api_compat.torch, torch.tensor(x)).numpy()
    np.testing.assert_allclose(op.compute(np, x), plain, 1e-13)
    assert op.infer(*[minitorch.op.Spec(x.shape, x.dtype)]).shape == plain.shape


def test_no_windows_are_refused() -> None:
    for shape, size in (((1, 1, 4), 0), ((1, 1, 0), 2)):
        with pytest.raises(ShapeError, match="adaptive_avg_pool1d: got sizes"):
            F.adaptive_avg_pool1d(minitorch.zeros(shape), size)
