"""Formulas of elements: one operator on tensors, a kernel from some size on, against PyTorch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
from minitorch.errors import DTypeError
from minitorch.graph import Session, placeholder
from minitorch.ops.elementwise.formulas import Formula, at_once

torch = pytest.importorskip("torch")
TF = torch.nn.functional
SIZES = {"by rows": 5, "by a kernel": 67}

OF_ONE: dict[str, Callable[[Any, Any], Any]] = {
    "leaky_relu": lambda f, x: f.leaky_relu(x, 0.2),
    "hardtanh": lambda f, x: f.hardtanh(x, -0.5, 2.0),
    "relu6": lambda f, x: f.relu6(x * 4),
    "elu": lambda f, x: f.elu(x, 1.5),
    "selu": lambda f, x: f.selu(x),
    "softplus": lambda f, x: f.softplus(x, 2.0, 1.5),
    "hardsigmoid": lambda f, x: (  # torch differentiates its own only once
        F.hardsigmoid(x * 3) if f is F else TF.relu6(x * 3 + 3) / 6
    ),
    "hardswish": lambda f, x: f.hardswish(x * 3),
    "silu": lambda f, x: f.silu(x),
    "logsigmoid": lambda f, x: f.logsigmoid(x * 20),
    "gelu": lambda f, x: f.gelu(x, approximate="tanh"),
    "glu": lambda f, x: f.glu(x, 1),
    "where": lambda f, x: (x * 2.0).masked_fill(x > 0.3, -1.0),
    "clamp": lambda f, x: x.clamp(-0.5, 0.7),
    "x to the 3rd": lambda f, x: x**3,
    "x to the 4th": lambda f, x: x**4,
    "1 over x squared": lambda f, x: (x.abs() + 0.5) ** -2,
}
OF_TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mse_loss": lambda f, x, t: f.mse_loss(x, t, reduction="none"),
    "smooth_l1_loss": lambda f, x, t: f.smooth_l1_loss(x, t, reduction="none", beta=0.7),
    "huber_loss": lambda f, x, t: f.huber_loss(x, t, "none", 0.7),
    "binary_cross_entropy_with_logits": lambda f, x, t: f.binary_cross_entropy_with_logits(
        x * 3, t, reduction="none"
    ),
    "prelu": lambda f, x, t: f.prelu(x, t[0]),
    "lerp, nearer the start": lambda f, x, t: x.lerp(t, 0.3),
    "lerp, nearer the end": lambda f, x, t: x.lerp(t, 0.7),
    "addcmul": lambda f, x, t: x.addcmul(t, t + x, value=0.5),
    "addcdiv": lambda f, x, t: x.addcdiv(t, t * t + 1, value=2),
    "batch norm, evaluated": lambda f, x, t: f.batch_norm(
        x, t[0].detach(), t[1].detach() ** 2, t[2], t[3]
    ),
}


def _drawn(seed: int, n: int, dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((n, 2 * n)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
def test_value_and_both_gradients_are_those_of_torch(name: str, size: str, dtype: str) -> None:
    count = 2 if name in OF_TWO else 1
    arrays = [_drawn(seed, SIZES[size], dtype) for seed in range(count)]
    formula: Callable[..., Any] = OF_TWO[name] if count == 2 else OF_ONE[name]
    results = []
    for library, functional in ((minitorch, F), (torch, TF)):
        values = [library.tensor(a, requires_grad=True) for a in arrays]
        y = formula(functional, *values)
        grads = library.autograd.grad((y * y).sum(), values, create_graph=True)
        twice = library.autograd.grad(sum((g * g).sum() for g in grads), values)
        results.append([v.detach().numpy() for v in (y, *grads, *twice)])
    tolerance = 2e-5 if dtype == "float32" else 1e-12
    for ours, theirs in zip(*results, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance * np.abs(theirs).max())


@pytest.mark.parametrize(
    "name", sorted(OF_ONE.keys() - {"hardswish"})
)  # torch: NaN at -inf; here 0
def test_what_is_no_number_and_what_has_no_end_goes_through_as_in_torch(name: str) -> None:
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 0.5, -0.5, 1.0]
    for repeats in (1, 500):
        array = np.tile(np.asarray(special, "float32"), (2, 2 * repeats))
        ours, theirs = minitorch.tensor(array), torch.tensor(array)
        with np.errstate(all="ignore"):
            y = OF_ONE[name](F, ours).numpy()
        np.testing.assert_allclose(y, OF_ONE[name](TF, theirs).numpy(), rtol=2e-5, atol=1e-30)


def test_it_is_one_operator_that_keeps_its_input_alone() -> None:
    x = minitorch.randn(10, requires_grad=True)
    y = F.leaky_relu(x, 0.3)
    assert y.op is not None
    assert (y.op.name, y.op.attributes(), y.inputs) == ("leaky_relu", {"numbers": (0.3,)}, (x,))


def test_classes_that_are_no_integers_are_refused_by_name() -> None:
    with pytest.raises(DTypeError, match="expected integers"):
        F.nll_loss(minitorch.zeros(3, 4), minitorch.ones(3))


def test_on_nodes_it_is_the_rows_that_it_is_made_of() -> None:
    x = placeholder("float32", (3,))
    y = F.leaky_relu(x, 0.5)  # type: ignore[arg-type]
    assert y.op.name == "where"
    with Session() as session:
        assert session.run(y, {x: [-2.0, 0.0, 3.0]}).tolist() == [-1.0, 0.0, 3.0]


@pytest.mark.parametrize("turn", [(0, 2, 3, 1), (3, 1, 0, 2)])
def test_a_result_lies_in_memory_as_its_inputs_do(turn: tuple[int, ...]) -> None:
    array = np.random.default_rng(3).standard_normal((8, 9, 10, 11)).astype("float32")
    x = minitorch.tensor(array).permute(*turn)
    for y in (F.silu(x), minitorch.where(x > 0, x, 0.5), minitorch.where(x > 0, -1.0, x)):
        assert y.array.strides == x.array.strides
    want = np.where(x.numpy() > 0, -1.0, x.numpy())
    assert np.array_equal(y.numpy(), want)
    strided = minitorch.tensor(array)[:, ::2, :, 1:]
    assert np.array_equal(strided.clamp(0.0, 0.5).numpy(), strided.numpy().clip(0.0, 0.5))


def test_inputs_that_broadcast_get_gradients_of_their_own_shapes() -> None:
    x = minitorch.randn(80, 90, requires_grad=True)
    target = minitorch.randn(90, requires_grad=True)
    F.smooth_l1_loss(x, target, reduction="sum").backward()
    assert (x.grad.shape, target.grad.shape) == ((80, 90), (90,))  # type: ignore[union-attr]


def test_a_kernel_that_is_another_formula_would_be_seen() -> None:
    """The comparison above notices a slope that is wrong by a part in two thousand."""
    wrong = Formula("wrong", lambda x: x * 2.0, lambda g, x: g * 2.001)
    x = minitorch.randn(70, 70, requires_grad=True)
    wrong(x).sum().backward()
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(x.grad.numpy(), 2.0, rtol=2e-5)  # type: ignore[union-attr]


def test_rows_and_kernel_give_one_result_for_sums_products_and_choices() -> None:
    x = _drawn(5, 70, "float32")

    def formula(x: Any, low: float) -> Any:
        return -(x * x - low) / (x + 7.0)

    assert np.array_equal(at_once(formula, (x,), (0.25,)), formula(x, np.float32(0.25)))
