"""Convolution and pooling beside PyTorch, with few samples and with so many that they lie last."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch as mt

WAYS = [(1, 1, 1, 1), (2, 1, 1, 2), (1, 0, 2, 1), (3, 2, 1, 1), (2, 0, 1, 1)]
"""Stride, padding, dilation, groups."""


def beside(work: Any, *arrays: Any) -> None:
    """Compare the result and each input's gradient with PyTorch's."""
    found = []
    for lib in (mt, torch):
        inputs = [lib.tensor(a, requires_grad=True) for a in arrays]
        y = work(lib.nn.functional, *inputs)
        (y * y).sum().backward()
        found.append([np.asarray(v.detach()) for v in (y, *(t.grad for t in inputs))])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-10, 1e-10)


@pytest.mark.parametrize("samples", [1, 3, 9])
@pytest.mark.parametrize("way", WAYS)
def test_convolution_and_its_transpose(samples: int, way: tuple[int, ...]) -> None:
    rng, (stride, padding, dilation, groups) = np.random.default_rng(0), way
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, b = rng.normal(size=(samples, 4, 9, 7)), rng.normal(size=6)
    w, turned = rng.normal(size=(6, 4 // groups, 3, 2)), rng.normal(size=(4, 6 // groups, 3, 2))

    def pooled(f: Any, x: Any, w: Any, b: Any) -> Any:
        return f.max_pool2d(f.relu(f.conv2d(x, w, b, **how)), 2, 1).reshape(samples, -1)

    beside(pooled, x, w, b)
    beside(lambda f, x, w, b: f.conv_transpose2d(x, w, b, **how), x, turned, b)
    beside(lambda f, x, w: f.conv1d(x, w, **how), x[:, :, 0], w[:, :, 0])


@pytest.mark.parametrize("samples", [2, 10])
def test_pooling_of_windows_apart_and_overlapping(samples: int) -> None:
    x = np.random.default_rng(0).integers(0, 3, (samples, 2, 8, 8)).astype(float)  # many equal
    beside(lambda f, x: f.max_pool2d(f.relu(x), 2), x)
    beside(lambda f, x: f.max_pool2d(x, 3, 2, padding=1), x)
    last = np.ascontiguousarray(x.transpose(1, 2, 3, 0)).transpose(3, 0, 1, 2)
    beside(lambda f, x: f.max_pool2d(x, 2), last)


def test_second_derivatives_of_many_samples() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(9, 2, 5, 5)), rng.normal(size=(3, 2, 3, 3))

    def slope(lib: Any) -> Any:
        a, b = (lib.tensor(v, requires_grad=True) for v in (x, w))
        y = lib.nn.functional.conv2d(a, b, stride=2, padding=1).tanh().sum()
        (grad,) = lib.autograd.grad(y, [a], create_graph=True)
        (grad * grad).sum().backward()
        return np.asarray(b.grad)

    np.testing.assert_allclose(slope(mt), slope(torch), 1e-10, 1e-10)
