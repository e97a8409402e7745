"""Every operator against PyTorch's own samples; all of these in one wide test."""

import os
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

import minitorch
from tests.minitorch.opinfo_agreement import ours, refusing

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    INFOS = [pytest.param(op, id=f"{op.name}-{op.variant_test_name or 'plain'}") for op in op_db]
OPS = [info for info in INFOS if ours(info.values[0])]

WIDE = os.environ.get("MINITORCH_WIDE") == "1"


@pytest.mark.parametrize("op", OPS)
def test_operator_agrees_with_torch_in_value_gradient_and_second_gradient(
    op: Any, agreement: Any
) -> None:
    assert not agreement.run(op, limit=2).failures


@pytest.mark.wide
@pytest.mark.parametrize("op", OPS)
def test_operator_agrees_over_torch_arrays(op: Any, agreement: Any, torch_arrays: None) -> None:
    """All samples; one of each operator takes the same way in test_late_device.py."""
    assert not agreement.run(op).failures


@pytest.mark.gpu
@pytest.mark.timeout(3000)
def test_operators_agree_on_cuda(agreement: Any, on_cuda: None) -> None:
    names, total = agreement.table(op_db, None if WIDE else 2)
    assert len(names) >= 130
    assert not total.failures, total.failures[:10]


def test_at_least_130_operators_take_part(agreement: Any) -> None:
    assert len({op.name for op in op_db if agreement.ours(op)}) >= 130


@pytest.mark.wide
@pytest.mark.timeout(3000)
def test_nearly_all_samples_of_all_operators_agree(agreement: Any) -> None:
    _, total = agreement.table(op_db)
    assert total.value >= 0.99 * total.samples
    assert total.gradient >= 0.99 * total.gradients
    assert total.second >= 0.97 * total.seconds


@pytest.mark.parametrize("factor", [1.0005, -1.0])
def test_the_judge_notices_a_wrong_gradient(agreement: Any, factor: float) -> None:
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


@pytest.mark.parametrize("op", [info for info in INFOS if refusing(info.values[0])])
def test_wrong_inputs_raise_an_error(op: Any, agreement: Any) -> None:
    """Except where torch wants a tensor and a number will do."""
    function = refusing(op)
    for error in list(agreement.errors_of(op)):
        sample = error.sample_input
        if error.error_type is Exception or agreement.lenient(op.name, str(error.error_regex)):
            continue
        if isinstance(sample.input, torch.Tensor) and sample.input.ndim > 64:
            continue  # NumPy ends there
        with pytest.raises(Exception) as caught:
            mine = agreement.to_ours([sample.input, sample.args, sample.kwargs])
            function(mine[0], *mine[1], **mine[2])
        kinds = (error.error_type, minitorch.errors.MinitorchError, TypeError)
        assert isinstance(caught.value, kinds)
