"""Cross-entropy of classes for rows and for images, weighted, ignored and smoothed, by PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.nn.functional as F
from minitorch.errors import ShapeError
from minitorch.graph import jit


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("ignore_index", [-100, 1])
@pytest.mark.parametrize("shape", [(7, 3), (40, 21), (2, 33, 18), (2, 3, 4, 5)], ids=str)
def test_losses_and_gradients_of_both_orders_are_torchs(
    shape: tuple[int, ...], ignore_index: int, is_weighted: bool, reduction: str, smoothing: float,
    dtype: str,
) -> None:  # fmt: skip
    rng = np.random.default_rng(len(shape))
    logits = (3 * rng.standard_normal(shape)).astype(dtype)
    classes = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    classes.flat[:2] = ignore_index
    weight = (rng.random(shape[1]) + 0.1).astype(dtype)
    flow = rng.standard_normal(classes.shape if reduction == "none" else ()).astype(dtype)

    def loss(lib: Any, x: Any) -> Any:
        return lib.nn.functional.cross_entropy(
            x, lib.tensor(classes), lib.tensor(weight) if is_weighted else None,
            ignore_index=ignore_index, reduction=reduction, label_smoothing=smoothing,
        )  # fmt: skip

    def results(lib: Any) -> list[Any]:
        x = lib.tensor(logits, requires_grad=True)
        (first,) = lib.autograd.grad(loss(lib, x), x, lib.tensor(flow), create_graph=True)
        (second,) = lib.autograd.grad((first**3).sum(), x)
        (plain,) = lib.autograd.grad(loss(lib, x), x, lib.tensor(flow))
        return [v.detach().numpy() for v in (loss(lib, x), first, second, plain)]

    tolerance = 2e-4 if dtype == "float32" else 1e-9
    expected = results(torch)
    for ours, theirs in zip(results(minitorch), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance)
    compiled = jit(lambda x: loss(minitorch, x))(minitorch.tensor(logits))
    np.testing.assert_allclose(compiled.numpy(), expected[0], tolerance, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("shape", [(5,), (7, 3), (4, 6, 9), (2, 3, 4, 5)], ids=str)
def test_losses_by_log_probabilities_are_torchs(
    shape: tuple[int, ...], is_weighted: bool, reduction: str, dtype: str
) -> None:
    rng = np.random.default_rng(len(shape))
    logs = rng.standard_normal(shape).astype(dtype)
    rest = shape[:-1] if len(shape) == 1 else (shape[0], *shape[2:])
    count = shape[min(len(shape) - 1, 1)]
    classes, weight = rng.integers(0, count, rest), (rng.random(count) + 0.1).astype(dtype)
    if rest:
        classes.flat[:2] = 1  # ignored

    def results(lib: Any) -> list[Any]:
        x = lib.tensor(logs, requires_grad=True)
        loss = lib.nn.functional.nll_loss(
            x, lib.tensor(classes), lib.tensor(weight) if is_weighted else None,
            ignore_index=1, reduction=reduction,
        )  # fmt: skip
        (first,) = lib.autograd.grad((loss**2).sum(), x, create_graph=True)
        (second,) = lib.autograd.grad((first**3).sum(), x)
        return [v.detach().numpy() for v in (loss, first, second)]

    for ours, theirs in zip(results(minitorch), results(torch), strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_have_gradients_of_both_orders(name: str, reduction: str) -> None:
    rng = np.random.default_rng(0)
    x = minitorch.tensor(rng.standard_normal((5, 3)), requires_grad=True)
    weight = minitorch.tensor(rng.random(3) + 0.5, requires_grad=True)
    classes = minitorch.tensor([0, 2, 1, 2, 0])

    def loss(x: Any, weight: Any) -> Any:
        how: dict[str, Any] = {"reduction": reduction, "ignore_index": 1}
        return getattr(F, name)(x, classes, weight, **how)

    def slope(x: Any, weight: Any) -> Any:
        return minitorch.autograd.grad((loss(x, weight) ** 2).sum(), weight, create_graph=True)[0]

    assert minitorch.gradcheck(loss, [x, weight])
    assert minitorch.gradcheck(slope, [x, weight])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((4, 21, 300), 1), ((30, 17), 0), ((3, 5, 8), 1), ((9, 10, 3), 1), ((20, 7, 1), 1)],
    ids=str,
)
def test_softmax_along_any_axis_is_torchs(
    shape: tuple[int, ...], dim: int, name: str, dtype: str
) -> None:
    rng = np.random.default_rng(0)
    array = (30 * rng.standard_normal(shape)).astype(dtype)
    array.flat[[3, 70]], array.flat[100] = [np.nan, np.inf], -np.inf
    for each in (array, np.asfortranarray(array)):
        results = []
        for lib in (minitorch, torch):
            x = lib.tensor(each, requires_grad=True)
            y = getattr(lib, name)(x, dim)
            weight = lib.tensor(np.arange(y.detach().numpy().size).reshape(shape) / y.numel())
            (slope,) = lib.autograd.grad((y * weight.to(y.dtype)).sum(), x)
            results.append((y.detach().numpy(), slope.numpy()))
        exact = 64 * np.finfo(dtype).eps
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(ours, theirs, exact, exact)


@pytest.mark.parametrize("options", [{}, {"reduction": "none"}, {"weight": minitorch.ones(4)}])
def test_what_does_not_fit_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(IndexError, match="got label 4"):
        F.cross_entropy(minitorch.randn(3, 4), minitorch.tensor([0, 1, 4]), **options)
    for logits, classes in (((3, 4), [0, 1]), ((1, 4, 2), [[0, 1, 2]])):
        with pytest.raises(ShapeError, match=r"expected \(n, classes, \.\.\.\)"):
            F.cross_entropy(minitorch.randn(*logits), minitorch.tensor(classes), **options)
    with pytest.raises(ShapeError, match=r"weights \(3,\), expected \(4,\)"):
        F.cross_entropy(minitorch.randn(1, 4), minitorch.tensor([0]), minitorch.ones(3))


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss", "probabilities"])
def test_a_mean_of_no_losses_is_no_number(name: str, is_weighted: bool) -> None:
    for lib in (minitorch, torch):
        F, none = lib.nn.functional, lib.zeros(0, 3)
        loss = F.nll_loss if name == "nll_loss" else F.cross_entropy
        target = none if name == "probabilities" else lib.zeros(0, dtype=lib.int64)
        assert np.isnan(loss(none, target, weight=lib.ones(3) if is_weighted else None).item())
