"""Batch, instance and group norm of arrays that lie in memory in any order, against PyTorch."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
from minitorch.errors import ShapeError
from minitorch.graph import jit

torch = pytest.importorskip("torch")
TF = torch.nn.functional

SHAPES = {"a table": (40, 6), "signals": (9, 6, 33), "images": (8, 6, 15, 17), "few": (2, 6, 2, 2)}
ORDERS: dict[str, Callable[[int], tuple[int, ...]]] = {
    "in rows": lambda rank: tuple(range(rank)),
    "samples last": lambda rank: (*range(1, rank), 0),
    "channels last": lambda rank: (0, *range(2, rank), 1),
    "turned": lambda rank: tuple(reversed(range(rank))),
}
NORMS: dict[str, Callable[..., Any]] = {
    "batch": lambda f, x, w, b, m, v: f.batch_norm(x, m, v, w, b, True, 0.3, 1e-3),
    "batch, nothing followed": lambda f, x, w, b, m, v: f.batch_norm(x, None, None, w, b, True),
    "batch without scale": lambda f, x, w, b, m, v: f.batch_norm(x, m, v, None, None, True) * w[0],
    "instance": lambda f, x, w, b, m, v: f.instance_norm(x, m, v, w, b, True, 0.3, 1e-3),
    "group": lambda f, x, w, b, m, v: f.group_norm(x, 3, w, b, 1e-3),
}


def _laid(array: np.ndarray[Any, Any], order: tuple[int, ...]) -> Any:
    """Return a tensor of the same numbers whose axes lie in memory in this order."""
    back = sorted(range(array.ndim), key=order.__getitem__)
    return minitorch.tensor(np.ascontiguousarray(array.transpose(order))).permute(*back)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "shape"),
    [(n, s) for n in NORMS for s in SHAPES if (n, s) != ("instance", "a table")],
)
def test_values_gradients_and_statistics_are_those_of_torch(
    name: str, shape: str, order: str, dtype: str
) -> None:
    sizes = SHAPES[shape]
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(sizes) * 3 + 5).astype(dtype)
    vectors = [rng.standard_normal(6).astype(dtype) for _ in range(3)]
    vectors.append(rng.random(6).astype(dtype))
    results: list[list[Any]] = []
    for library, functional in ((minitorch, F), (torch, TF)):
        image = _laid(x, ORDERS[order](x.ndim)) if library is minitorch else torch.tensor(x)
        weight, bias, mean, spread = (library.tensor(v.copy()) for v in vectors)
        inputs = [image.detach(), weight, bias]
        for value in inputs:
            value.requires_grad_(True)
        y = NORMS[name](functional, *inputs, mean, spread)
        once = library.autograd.grad((y * y * y).sum(), inputs[:2], create_graph=True)
        twice = library.autograd.grad(sum((g * g).sum() for g in once), inputs[:2])
        plain = library.autograd.grad(
            (NORMS[name](functional, *inputs, None, None) ** 3).sum(), inputs, allow_unused=True
        )
        used = [share for share in plain if share is not None]
        values = (y, *once, *twice, *used, mean, spread)
        results.append([value.detach().numpy() for value in values])
    tolerance = 3e-4 if dtype == "float32" else 1e-9
    for ours, theirs in zip(*results, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance * np.abs(theirs).max())


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_norm_keeps_the_order_of_large_images(order: str) -> None:
    x = _laid(np.random.default_rng(2).standard_normal((8, 6, 20, 20)), ORDERS[order](4))
    y = F.batch_norm(x, None, None, minitorch.ones(6), minitorch.zeros(6), training=True)
    if order in ("in rows", "samples last"):
        assert y.array.strides == x.array.strides


@pytest.mark.parametrize("shape", [(8, 6, 20, 20), (64, 6, 1, 1)], ids=str)
@pytest.mark.parametrize("order", ORDERS)
def test_channels_far_from_0_have_their_variance(order: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).standard_normal(shape).astype("float32")
    x += 300 * np.arange(6, dtype="float32").reshape(1, 6, 1, 1)
    spread = minitorch.zeros(6)
    F.batch_norm(_laid(x, ORDERS[order](4)), minitorch.zeros(6), spread, None, None, True, 1.0)
    want = x.var((0, 2, 3), dtype="float64", ddof=1)
    np.testing.assert_allclose(spread.numpy(), want, rtol=1e-5)


def test_a_batch_norm_of_no_samples_is_empty_as_in_torch() -> None:
    for lib, functional in ((minitorch, F), (torch, TF)):
        one = lib.ones(3)
        y = functional.batch_norm(lib.ones(0, 3, 2), None, None, one, one, True)
        assert tuple(y.shape) == (0, 3, 2)


@pytest.mark.parametrize("shape", [(0, 6, 3), (2, 6, 0)])
def test_a_group_norm_of_nothing_is_empty_as_in_torch(shape: tuple[int, ...]) -> None:
    for lib, functional in ((minitorch, F), (torch, TF)):
        y = functional.group_norm(lib.ones(*shape), 3, lib.ones(6), lib.ones(6))
        assert tuple(y.shape) == shape


def test_a_batch_norm_is_one_operator_and_refuses_a_single_value() -> None:
    x = minitorch.randn(5, 3, 4, requires_grad=True)
    y = F.batch_norm(x, None, None, minitorch.ones(3), minitorch.zeros(3), training=True)
    assert y.op is not None
    assert y.op.name == "batch_norm"
    assert y.inputs[0] is x
    with pytest.raises(ShapeError, match="more than one value a channel"):
        F.batch_norm(x[:1, :, :1], None, None, training=True)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 5), (3, 2, 4, 4)], ids=str)
def test_the_gradient_of_a_batch_norms_gradient_is_torchs_by_jit_too(
    shape: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in (shape, shape[1], shape[1], shape)]

    def second(lib: Any, x: Any, weight: Any, bias: Any, scale: Any) -> Any:
        y = lib.nn.functional.batch_norm(x, None, None, weight, bias, training=True)
        first = lib.autograd.grad(((y * scale) ** 3).sum(), (x, weight, bias), create_graph=True)
        return lib.autograd.grad(sum((g * g).sum() for g in first), (x, weight, bias))

    def values(lib: Any) -> list[Any]:
        return [lib.tensor(a, requires_grad=i < 3) for i, a in enumerate(arrays)]

    expected = second(torch, *values(torch))
    compiled = jit(functools.partial(second, minitorch))
    for got in (second(minitorch, *values(minitorch)), compiled(*values(minitorch))):
        for ours, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-9, atol=1e-9)
