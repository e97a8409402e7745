"""Every operator against PyTorch's own samples; all of these in one wide test."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import minitorch

WIDE = os.environ.get("MINITORCH_WIDE") == "1"
SHARES = 12  # of the operators: a test for each operator would read PyTorch's table to be collected


@pytest.mark.parametrize("share", range(SHARES))
def test_operators_agree_with_torch_in_value_gradient_and_second_gradient(
    share: int, op_db: list[Any], agreement: Any
) -> None:
    names, total = agreement.table(op_db[share::SHARES], limit=2)
    assert names
    assert not total.failures


@pytest.mark.wide
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("share", range(SHARES))
def test_operators_agree_over_torch_arrays(
    share: int, op_db: list[Any], agreement: Any, torch_arrays: None
) -> None:
    """All samples; one of each operator takes the same way in test_late_device.py."""
    names, total = agreement.table(op_db[share::SHARES])
    assert names
    assert not total.failures


@pytest.mark.gpu
@pytest.mark.timeout(3000)
def test_operators_agree_on_cuda(op_db: list[Any], agreement: Any, on_cuda: None) -> None:
    names, total = agreement.table(op_db, None if WIDE else 2)
    assert len(names) >= 130
    assert not total.failures, total.failures[:10]


def test_at_least_130_operators_take_part(op_db: list[Any], agreement: Any) -> None:
    assert len({op.name for op in op_db if agreement.ours(op)}) >= 130


@pytest.mark.wide
@pytest.mark.timeout(3000)
def test_nearly_all_samples_of_all_operators_agree(op_db: list[Any], agreement: Any) -> None:
    _, total = agreement.table(op_db)
    assert total.value >= 0.99 * total.samples
    assert total.gradient >= 0.99 * total.gradients
    assert total.second >= 0.97 * total.seconds


@pytest.mark.parametrize("factor", [1.0005, -1.0])
def test_the_judge_notices_a_wrong_gradient(
    op_db: list[Any], agreement: Any, factor: float
) -> None:
    op = next(op for op in op_db if op.name == "exp")
    score = agreement.Score()

    class Wrong(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return xp.exp(x)

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * node * factor

    for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True):
        agreement.judge(op, Wrong(), sample, score)
    assert score.value == score.samples
    assert score.gradient < score.gradients


def test_wrong_inputs_raise_an_error(op_db: list[Any], agreement: Any) -> None:
    """Except where torch wants a tensor and a number will do."""
    refusing = [op for op in op_db if agreement.refusing(op)]
    assert len(refusing) >= 70
    assert [problem for op in refusing for problem in taken_errors(op, agreement)] == []


def taken_errors(op: Any, agreement: Any) -> Iterator[str]:
    """Yield each wrong input of an operator that does not raise what it should."""
    function = agreement.refusing(op)
    for error in list(agreement.errors_of(op)):
        sample = error.sample_input
        if error.error_type is Exception or agreement.lenient(op.name, str(error.error_regex)):
            continue
        if isinstance(sample.input, torch.Tensor) and sample.input.ndim > 64:
            continue  # NumPy ends there
        try:
            mine = agreement.to_ours([sample.input, sample.args, sample.kwargs])
            result = function(mine[0], *mine[1], **mine[2])
        except (error.error_type, minitorch.errors.MinitorchError, TypeError):
            continue
        except Exception as raised:
            result = raised
        yield f"{op.name}: {result!r} for {agreement.summary(sample)}"


def test_a_wrong_input_that_is_taken_is_noticed(agreement: Any) -> None:
    right = SimpleNamespace(input=torch.ones(2), args=(), kwargs={})
    error = SimpleNamespace(sample_input=right, error_type=ValueError, error_regex="")
    op = SimpleNamespace(name="exp", error_inputs_func=lambda *_: [error])
    (problem,) = taken_errors(op, agreement)
    assert problem.startswith("exp: tensor([2.7183, 2.7183])")
