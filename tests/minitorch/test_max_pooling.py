"""Max pooling with its gradient, by PyTorch: ties, NaN, zeros of both signs, both layouts."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.ops.networks.pooling import MaxPool
from minitorch.ops.networks.windows import Windows

CASES: list[tuple[tuple[int, ...], Any, Any, int]] = [
    ((16, 4, 8, 8), 2, 2, 0),
    ((9, 3, 17, 23), 3, 2, 1),
    ((2, 3, 17, 23), 3, 1, 1),
    ((2, 3, 33, 23), (2, 3), (4, 2), 0),
    ((2, 3, 33, 23), (2, 2), (1, 4), 0),
    ((2, 2, 64, 64), 8, 4, 4),
    ((2, 2, 64, 64), 9, 5, 0),
    ((1, 2, 5, 5), 2, 2, 0),
]


def images(shape: tuple[int, ...], dtype: str) -> Any:
    """Return whole numbers, many of them equal, some of them missing."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(dtype)
    x[rng.random(shape) < 0.05] = np.nan
    x[(x == 0) & (rng.random(shape) < 0.5)] = -0.0
    return x


def with_samples_last(x: Any) -> Any:
    axes = range(x.ndim)
    return np.ascontiguousarray(x.transpose(*axes[1:], 0)).transpose(-1, *axes[:-1])


def results(lib: Any, x: Any, g: Any, count: int, *how: Any, **options: Any) -> list[Any]:
    x = lib.tensor(x).requires_grad_(True)
    y = getattr(lib.nn.functional, f"max_pool{count}d")(x, *how, **options)
    y.backward(lib.tensor(g))
    return [y.detach().numpy(), x.grad.numpy()]


def assert_as_torchs(x: Any, g: Any, count: int, *how: Any, **options: Any) -> None:
    ours = results(minitorch, x, g, count, *how, **options)
    theirs = results(torch, x, g, count, *how, **options)
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("last", [False, True], ids=["rows", "samples last"])
@pytest.mark.parametrize("ceil", [False, True], ids=["whole", "cut"])
@pytest.mark.parametrize(("shape", "size", "step", "border"), CASES, ids=str)
def test_largest_and_their_gradients_are_torchs(
    shape: tuple[int, ...], size: Any, step: Any, border: int, ceil: bool, last: bool, dtype: str
) -> None:
    x = images(shape, dtype)
    how, options = (size, step, border), {"ceil_mode": ceil}
    y = torch.nn.functional.max_pool2d(torch.tensor(x), *how, ceil_mode=ceil)
    g = np.random.default_rng(1).standard_normal(y.shape).astype(dtype)
    for gradient in (g, with_samples_last(g)):
        assert_as_torchs(with_samples_last(x) if last else x, gradient, 2, *how, **options)


def test_lines_and_single_images_are_torchs() -> None:
    x = images((16, 4, 65), "float32")
    assert_as_torchs(x, np.ones((16, 4, 32), "float32"), 1, 3, 2)
    assert_as_torchs(x[:, :, :64], np.ones((16, 2, 32), "float32"), 2, 2)


@pytest.mark.parametrize("step", [np.int64(2), [2, 1], (), [], None], ids=repr)
def test_a_step_may_be_one_of_numpys_integers_or_nothing(step: Any) -> None:
    x = torch.arange(36.0).reshape(1, 6, 6)
    ours = minitorch.nn.functional.max_pool2d(minitorch.tensor(x.numpy()), 2, step)
    expected = torch.nn.functional.max_pool2d(
        x, 2, int(step) if step is not None and np.ndim(step) == 0 else step
    )
    np.testing.assert_array_equal(ours.numpy(), expected.numpy())


@pytest.mark.parametrize("dilation", [1, 2])
def test_an_infinite_gradient_reaches_the_largest_element_alone(dilation: int) -> None:
    x = images((2, 8, 32, 32), "float32")
    y = torch.nn.functional.max_pool2d(torch.tensor(x), 2, dilation=dilation)
    g = np.full(y.shape, np.inf, "float32")
    assert_as_torchs(x, g, 2, 2, dilation=dilation)


def test_kernels_keep_the_first_of_equal_zeros_as_torch_does() -> None:
    x = np.where(np.random.default_rng(0).random((1, 8, 32, 32)) < 0.5, 0.0, -0.0)
    how = Windows((2, 2), (2, 2), (1, 1), (16, 16))
    want = torch.nn.functional.max_pool2d(torch.tensor(x), 2).numpy()
    np.testing.assert_array_equal(np.signbit(MaxPool(how).compute(np, x)), np.signbit(want))
