"""The checker is checked: every rule of the library, a little wrong, must be caught."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch.errors import GradcheckError
from minitorch.ops.elementwise.rows import ROWS


class Wrong(minitorch.Op):
    """Another operator with its gradient multiplied; by 0: dropped."""

    on_arrays = True

    def __init__(self, op: minitorch.Op, factor: float) -> None:
        self.op, self.factor = op, factor

    def gradient(self, out_grad: Any, node: Any) -> Any:
        shares = self.op.gradient(out_grad, node)
        return [None if share is None else share * self.factor for share in shares]


def tampered(results: list[minitorch.Tensor], x: minitorch.Tensor, factor: float) -> Any:
    """Return the results, after every operator that took `x` was given a wrong gradient."""
    waiting, seen = list(results), set()
    while waiting:
        value = waiting.pop()
        if value.op is None or value in seen:
            continue
        seen.add(value)
        if any(source is x for source in value.inputs):
            value.op = Wrong(value.op, factor)
        waiting += value.inputs
    return results


SHARES = 12  # of the rules: a test for each would read PyTorch's table to be collected


@pytest.fixture(scope="session")
def rules(op_db: list[Any]) -> list[Any]:
    """Each differentiable OpInfo, by name, once."""
    return list({op.name: op for op in reversed(op_db) if op.supports_autograd}.values())


POINTS: dict[str, Any] = {}


def _point(op: Any, agreement: Any) -> Any:
    """Return an input whose gradient is not small, and the function of it; else None."""
    if op.name not in POINTS:
        POINTS[op.name] = _searched(op, agreement)
    return POINTS[op.name]


# torch's samples of these cross a pole, or a step, between the points of the finite difference
OWN_POINTS = {"tan": minitorch.tan, "frac": minitorch.frac}


def _searched(op: Any, agreement: Any) -> Any:
    if op.name in OWN_POINTS:
        x = minitorch.tensor([0.1, -0.4], dtype=minitorch.float64, requires_grad=True)
        return lambda x: [OWN_POINTS[op.name](x)], x
    function = agreement.ARGUMENT_ORDER.get(op.name) or agreement.find(op.name)
    skipped = op.name in agreement.RANDOM | agreement.NOT_OPERATORS
    if function is None or skipped or torch.float64 not in op.dtypes:
        return None
    torch.default_generator.manual_seed(0)
    samples = list(agreement.samples_of(op, torch.float64, True))
    for sample in samples[:5]:
        first, *rest = agreement.to_ours([sample.input, list(sample.args), sample.kwargs])
        if not isinstance(first, minitorch.Tensor) or not first.numel():
            continue

        def result(x: Any, rest: Any = rest) -> Any:
            return function(x, *rest[0], **rest[1])

        def sums(x: Any, result: Any = result) -> Any:
            ys = [y for y in agreement.leaves(result(x), minitorch.Tensor) if y.requires_grad]
            return [y * 1.0 for y in ys]

        outs = sums(first)
        if not outs or any(y.dtype != minitorch.float64 for y in outs):
            continue
        slopes = minitorch.grad(outs, first, [minitorch.ones_like(y) for y in outs])
        away_from_kinks = minitorch.gradcheck(sums, first, raise_exception=False)
        if away_from_kinks and float(np.abs(slopes[0].numpy()).max()) > 1e-3:
            return sums, first
    return None


@pytest.mark.parametrize("share", range(SHARES))
def test_every_rule_passes_and_fails_when_scaled_flipped_or_dropped(
    share: int, rules: list[Any], agreement: Any
) -> None:
    points = {op.name: _point(op, agreement) for op in rules[share::SHARES]}
    passed = [
        (name, factor)
        for name, point in points.items()
        if point is not None
        for factor in (1.0005, -1.0, 0.0)
        if _passes(*point, factor)
    ]
    assert any(points.values())
    assert passed == []


def _passes(function: Any, x: minitorch.Tensor, factor: float) -> bool:
    """Tell whether a rule that was made wrong by `factor` passes; another error is one of ours."""
    try:
        minitorch.gradcheck(lambda x: tampered(function(x), x, factor), x)
    except GradcheckError as error:
        assert "disagrees" in str(error)
        return False
    return True


def test_a_rule_that_is_right_passes() -> None:
    x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64, requires_grad=True)
    assert _passes(lambda x: [minitorch.sin(x)], x, 1.0)
    assert not _passes(lambda x: [minitorch.sin(x)], x, 1.0005)


def test_every_operator_of_the_table_is_among_those_checked(
    rules: list[Any], agreement: Any
) -> None:
    """But for those whose gradient is 0 everywhere, and parts of other rules."""
    checked = {op.name.split(".")[-1] for op in rules if _point(op, agreement)}
    flat = {"zeros_like", "ones_like", "sign", "floor", "ceil", "trunc", "rint", "floor_divide"}
    parts = {"trunc_divide", "relu_grad", "gelu_grad", "root", "positive"}
    rows = {name for name, row in ROWS.items() if row.partials} - flat - parts
    assert not rows - checked


def test_a_flipped_sign_of_a_tiny_gradient_is_caught() -> None:
    x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64, requires_grad=True)
    assert minitorch.gradcheck(lambda x: x * 1e-9, x)
    with pytest.raises(GradcheckError):
        minitorch.gradcheck(lambda x: tampered([x * 1e-9], x, -1.0), x)


def test_a_wrong_second_gradient_is_caught_at_order_two_only() -> None:
    class Cube(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return x**3

        def gradient(self, out_grad: Any, node: Any) -> Any:
            (x,) = node.inputs
            return out_grad * (x.detach() ** 2) * 3.0

    x = minitorch.tensor([0.5, -1.5], dtype=minitorch.float64, requires_grad=True)
    assert minitorch.gradcheck(Cube(), x)
    with pytest.raises(GradcheckError):
        minitorch.gradgradcheck(Cube(), x)
    assert not minitorch.gradgradcheck(Cube(), x, raise_exception=False)


def test_one_wrong_element_of_a_large_jacobian_is_caught() -> None:
    class OneWrong(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return xp.sin(x)

        def gradient(self, out_grad: Any, node: Any) -> Any:
            (x,) = node.inputs
            wrong = minitorch.ones(x.shape, dtype=minitorch.float64)
            wrong[57] = 1.001
            return out_grad * x.cos() * wrong

    x = minitorch.tensor(np.linspace(-1, 1, 200)).requires_grad_()
    with pytest.raises(GradcheckError):
        minitorch.gradcheck(OneWrong(), x)


def test_single_precision_is_refused() -> None:
    with pytest.raises(GradcheckError, match="float64"):
        minitorch.gradcheck(minitorch.exp, minitorch.ones(1, requires_grad=True))


def test_values_of_any_size_are_stepped_in_proportion() -> None:
    for size in (1e-6, 1.0, 1e6):
        x = minitorch.tensor([size, -size / 3], dtype=minitorch.float64, requires_grad=True)
        assert minitorch.gradcheck(lambda x: x * x * math.pi, x)
