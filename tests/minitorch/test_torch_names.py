"""Names and meanings that someone who knows PyTorch tries without looking them up."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch
from minitorch import nn
from minitorch.errors import ArgumentError, AxisError, DeviceError, GradientError, ShapeError
from minitorch.nn import functional as F


@pytest.mark.parametrize("name", ["float", "double", "half", "long", "int", "short", "bool"])
def test_a_dtype_goes_by_its_short_name_too(name: str) -> None:
    ours = minitorch.zeros(1, dtype=getattr(minitorch, name)).dtype
    assert f"torch.{ours}" == str(torch.zeros(1, dtype=getattr(torch, name)).dtype)
    assert isinstance(ours, minitorch.dtype)


def test_autograd_has_torchs_names() -> None:
    x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64, requires_grad=True)
    minitorch.autograd.backward([(x * x).sum(), x.sum()])
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 5.0]
    assert minitorch.autograd.gradcheck(lambda v: v.sin(), (x,), eps=1e-6, atol=1e-5, rtol=1e-3)
    rows = minitorch.autograd.functional.jacobian(lambda v: v * v, x)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_an_absolute_tolerance_lets_a_wrong_gradient_of_that_size_pass() -> None:
    class Wrong(minitorch.Op):
        def compute(self, xp: Any, x: Any) -> Any:
            return x * 2

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * 2.001

    x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64, requires_grad=True)
    assert not minitorch.gradcheck(Wrong(), (x,), raise_exception=False)
    assert minitorch.gradcheck(Wrong(), (x,), atol=0.1)


def test_results_that_are_not_floating_require_no_gradient() -> None:
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    for result in (x.argmax(), x > 1, x.long(), x.sort()[1], x.isnan(), x == x):
        assert not result.requires_grad
    with pytest.raises(GradientError, match="does not require a gradient"):
        x.argmax().backward()


def test_a_rule_that_gives_no_gradient_for_an_input_that_requires_one_is_an_error() -> None:
    class Forgetful(minitorch.Op):
        def compute(self, xp: Any, a: Any, b: Any) -> Any:
            return a * b

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * node.inputs[1], None

    x = minitorch.tensor([1.0], requires_grad=True)
    Forgetful()(x, minitorch.ones(1)).sum().backward()
    with pytest.raises(GradientError, match=r"Forgetful\.gradient: got None for input 1"):
        Forgetful()(x, x).sum().backward()


def test_the_counters_of_cpu_memory_are_there_to_read() -> None:
    before = minitorch.cpu.memory_stats()
    x = minitorch.ones(300, 1000)
    y = x * 2
    held = minitorch.cpu.memory_stats()
    assert held["allocated"] - before["allocated"] >= 1_200_000
    del y
    again = x * 3
    after = minitorch.cpu.memory_stats()
    assert again.shape == x.shape
    assert after["hits"] > held["hits"]
    assert after["peak_allocated"] >= 1_200_000
    assert after["reserved"] >= after["allocated"]


def test_without_a_gpu_cuda_says_so() -> None:
    assert minitorch.cuda.is_available() == (minitorch.cuda.device_count() > 0)
    if not minitorch.cuda.is_available():
        with pytest.raises(DeviceError, match="0 CUDA devices"):
            minitorch.cuda.memory_stats()


@pytest.mark.parametrize(("number", "dtype"), [(300, "int64"), (-1, "int64"), (-1, "int8")])
def test_an_embedding_of_a_number_without_row_is_an_error(number: int, dtype: str) -> None:
    table = nn.Embedding(300, 3)
    with pytest.raises(AxisError, match=f"embedding: got number {number}"):
        table(minitorch.tensor([0, number], dtype=dtype))


def test_instance_norm_moves_running_statistics_as_torch_does() -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 4, 5))
    mine, theirs = ([lib.zeros(2).double(), lib.ones(2).double()] for lib in (minitorch, torch))
    F.instance_norm(minitorch.tensor(x), *mine, momentum=0.3)
    torch.nn.functional.instance_norm(torch.tensor(x), *theirs, momentum=0.3)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_a_norm_of_another_number_of_channels_says_so_and_moves_nothing() -> None:
    norm = nn.BatchNorm2d(4)
    with pytest.raises(ShapeError, match=r"batch_norm: got shape .* 3 channels on axis 1"):
        norm(minitorch.ones(2, 3, 2, 2))
    assert norm.running_var.tolist() == [1.0] * 4


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "silu", "hardtanh", "selu", "mish"])
def test_an_activation_overwrites_its_input_when_told(name: str) -> None:
    x = minitorch.tensor([-1.0, 2.0], requires_grad=True)
    y = x * 1
    result = getattr(F, name)(y, inplace=True)
    assert result is y
    assert y.tolist() == getattr(F, name)(x).tolist()
    y.sum().backward()
    (want,) = minitorch.grad(getattr(F, name)(x).sum(), x)
    assert x.grad is not None
    assert x.grad.tolist() == want.tolist()


@pytest.mark.parametrize(
    "name",
    ["ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish",
     "Hardtanh", "Dropout", "Dropout2d"],
)  # fmt: skip
def test_a_module_that_is_told_to_overwrites_its_input_as_torchs(name: str) -> None:
    numbers = np.array([[[[-7.0, -1.0, 0.5, 8.0]]]])
    ours, theirs = minitorch.tensor(numbers), torch.tensor(numbers)
    options = {"p": 1.0} if "Dropout" in name else {}
    mine, reference = (m(inplace=True, **options) for m in (vars(nn)[name], vars(torch.nn)[name]))
    assert "inplace=True" in repr(mine)
    assert mine(ours) is ours
    reference(theirs)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy())


def test_nothing_equals_none() -> None:
    x = minitorch.ones(2)
    assert (x == None) is False  # noqa: E711  (what is tested)
    assert (x != None) is True  # noqa: E711
    assert None not in [x]


def test_what_cannot_be_a_class_a_probability_or_a_size_is_an_error() -> None:
    with pytest.raises(AxisError, match="one_hot: got class -2"):
        F.one_hot(minitorch.tensor([0, -2]))
    with pytest.raises(ArgumentError, match="expected 0 to 1"):
        F.binary_cross_entropy(minitorch.tensor([1.5]), minitorch.ones(1))
    for make in (minitorch.randn, minitorch.rand, minitorch.zeros):
        with pytest.raises(ArgumentError, match="no negative size"):
            make(2, -1)
