"""The cross-entropy gradient's kernel against its formula in double, and where it declines."""

from typing import Any

import array_api_compat.torch
import numpy as np
import pytest
import torch

from minitorch.compile.class_cross_entropy import class_gradient, class_loss
from minitorch.ops.networks.row_losses import SparseCrossEntropy, SparseCrossEntropyGrad

SIZES = ((1, 1), (3, 2), (64, 10), (7, 16), (5, 17), (4, 64), (3, 700), (0, 5))


def expected(g: Any, labels: Any, x: Any) -> Any:
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
    hot = labels[:, None] == np.arange(x.shape[1])
    return g[:, None] * (powers / powers.sum(axis=1, keepdims=True) - hot)


@pytest.mark.parametrize("labels", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_rows_of_any_length_have_the_gradient_of_the_formula(
    shape: tuple[int, int], dtype: Any, labels: Any
) -> None:
    rng = np.random.default_rng(0)
    x = (30 * rng.normal(size=shape)).astype(dtype)
    y = rng.integers(-1, shape[1] + 1, shape[0]).astype(labels)  # some are no class
    close: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-7}
    if dtype == np.float64:
        close = {"rtol": 1e-12, "atol": 1e-16}
    for g in (rng.normal(size=shape[0]).astype(dtype), np.broadcast_to(dtype(0.1), shape[:1])):
        got = class_gradient(g, y, x)
        assert got is not None
        assert got.dtype == dtype
        np.testing.assert_allclose(got, expected(g, y, x), **close)


@pytest.mark.parametrize("labels", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_rows_of_any_length_have_the_loss_of_the_formula(
    shape: tuple[int, int], dtype: Any, labels: Any
) -> None:
    rng = np.random.default_rng(1)
    x = (30 * rng.normal(size=shape)).astype(dtype)
    y = rng.integers(0, shape[1], shape[0]).astype(labels)
    found = class_loss(y, x)
    assert found is not None
    got, some_ignored = found
    assert got.dtype == dtype and not some_ignored
    wide = x.astype(np.longdouble)
    largest = wide.max(axis=1, keepdims=True, initial=-np.inf)
    want = np.log(np.exp(wide - largest).sum(axis=1)) + (largest - wide)[np.arange(len(y)), y]
    exact = np.finfo(dtype).eps  # of the sum, whose logarithm may be next to 0
    np.testing.assert_allclose(got, want.astype(dtype), rtol=8 * exact, atol=2 * exact)


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
def test_the_loss_of_a_label_that_is_no_class_is_left_to_numpy(wrong: int) -> None:
    x, y = np.zeros((64, 10), np.float32), np.zeros(64, np.int64)
    assert class_loss(y, x) is not None
    y[63] = wrong
    assert class_loss(y, x) is None


@pytest.mark.parametrize("ignore", [-100, 3])
def test_rows_of_the_ignored_label_are_zeros(ignore: int) -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(64, 10)).astype(np.float32), rng.integers(0, 10, 64)
    x[::7], y[::7] = np.nan, ignore
    counts = y != ignore
    full, part = class_loss(y[counts], x[counts]), class_loss(y, x, ignore)
    assert full is not None and part is not None and part[1]
    np.testing.assert_array_equal(part[0][counts], full[0])
    assert not part[0][~counts].any()
    g = rng.normal(size=64).astype(np.float32)
    slope, slopes = class_gradient(g[counts], y[counts], x[counts]), class_gradient(g, y, x, ignore)
    assert slope is not None and slopes is not None
    np.testing.assert_array_equal(slopes[counts], slope)
    assert not slopes[~counts].any()
    assert class_loss(y, x, ignore=-5) is None or ignore == 3


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(3, 40, 300), (2, 5, 256), (1, 1, 3), (2, 3, 1), (0, 5, 4), (2, 7, 0)], ids=str
)
def test_planes_have_the_losses_and_gradients_of_their_rows(
    shape: tuple[int, ...], dtype: Any, smoothing: float
) -> None:
    rng = np.random.default_rng(3)
    x = (20 * rng.normal(size=shape)).astype(dtype)
    y = rng.integers(0, shape[1], (shape[0], shape[2]))
    y[:, ::7], x[:, :, ::7] = -100, np.nan  # ignored
    x[:, :, 1::7], y[:, 2::7] = np.inf, 0
    rows, labels = x.swapaxes(1, 2).reshape(-1, shape[1]), y.reshape(-1)
    exact: dict[str, Any] = {"rtol": 32 * np.finfo(dtype).eps, "atol": 32 * np.finfo(dtype).eps}
    how = (-100, smoothing)
    lined_up = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    g = rng.normal(size=y.shape).astype(dtype)
    for planes in (x, lined_up):
        got, want = class_loss(y, planes, *how), class_loss(labels, rows, *how)
        assert got is not None and want is not None
        assert got[1] == want[1]
        np.testing.assert_allclose(got[0].reshape(-1), want[0], **exact)
        for each in (g, np.asarray(dtype(0.3)), np.asfortranarray(g)):
            flat = each.reshape(-1) if each.ndim else each
            slope, slopes = (
                class_gradient(each, y, planes, *how),
                class_gradient(flat, labels, rows, *how),
            )
            assert slope is not None and slopes is not None
            np.testing.assert_allclose(slope.swapaxes(1, 2).reshape(rows.shape), slopes, **exact)


def test_a_plane_with_a_label_that_is_no_class_is_left_to_numpy() -> None:
    x, y = np.zeros((2, 3, 300), np.float32), np.zeros((2, 300), np.int64)
    y[1, 299] = 3
    assert class_loss(y, x) is None
    got = class_gradient(np.ones_like(y, np.float32), y, x)
    assert got is not None
    np.testing.assert_allclose(got[1, :, 299], 1 / 3)


def test_losses_of_a_graph_have_their_classes_last_whatever_the_sizes() -> None:
    rng = np.random.default_rng(4)
    x, labels = rng.normal(size=(3, 5, 5)), rng.integers(0, 5, (3, 5))
    want = torch.nn.functional.cross_entropy(
        torch.tensor(x.reshape(15, 5)), torch.tensor(labels.reshape(15)), reduction="none"
    )
    np.testing.assert_allclose(SparseCrossEntropy().compute(np, x, labels).reshape(15), want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_losses_of_a_graph_on_a_device_count_every_label(dtype: torch.dtype) -> None:
    x, labels = torch.randn(2, 2, 3), torch.tensor([[0, 2], [1, 0]], dtype=dtype)
    losses = SparseCrossEntropy().compute(array_api_compat.torch, x, labels)
    slope = SparseCrossEntropyGrad().compute(array_api_compat.torch, x, labels, torch.ones(2, 2))
    rows = x.reshape(4, 3).requires_grad_()
    want = torch.nn.functional.cross_entropy(rows, labels.reshape(4).long(), reduction="none")
    (by_rows,) = torch.autograd.grad(want.sum(), rows)
    torch.testing.assert_close(losses.reshape(4), want.detach())
    torch.testing.assert_close(slope.reshape(4, 3), by_rows)


def test_what_is_not_a_number_stays_in_its_row() -> None:
    x = np.zeros((3, 10), np.float32)
    x[1, 4] = np.nan
    got = class_gradient(np.ones(3, np.float32), np.zeros(3, np.int64), x)
    assert got is not None
    np.testing.assert_array_equal(np.isnan(got).all(axis=1), [False, True, False])
    np.testing.assert_array_equal(np.isnan(got).any(axis=1), [False, True, False])


def test_what_does_not_fit_is_left_to_numpy() -> None:
    g, y, x = np.ones(4, np.float32), np.zeros(4, np.int64), np.zeros((4, 10), np.float32)
    assert class_gradient(g, y, x) is not None
    for other in (
        (g.astype(np.float64), y, x),
        (g, y.astype(np.float32), x),
        (g, y, np.zeros((4, 0), np.float32)),
        (g, y, x.astype(np.float16)),
        (g[:3], y, x),
        (g[:, None], y[:, None], np.zeros((4, 1, 10), np.float32)),
    ):
        assert class_gradient(*other) is None
