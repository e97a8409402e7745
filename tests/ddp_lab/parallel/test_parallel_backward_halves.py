"""A backward in two halves gives the gradients of a whole one, and computes nothing twice."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ddp_lab.parallel.pipeline.stage import input_half


class Counted(torch.autograd.Function):
    """The identity, which counts how often a gradient comes by."""

    passed = 0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        Counted.passed += 1
        return grad


class Net(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(5, 5) for _ in range(3))
        self.norm = nn.LayerNorm(5)
        self.scale = nn.Parameter(torch.ones(5))
        self.kind = kind
        if kind == "tied":
            self.layers[2] = self.layers[0]
        if kind == "frozen":
            self.layers[1].requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + torch.tanh(Counted.apply(layer(self.norm(x) if layer is self.layers[1] else x)))
        if self.kind == "constant":
            x = x.detach() * 1.0
        return x * torch.exp(self.scale)  # a weight that is computed before it is used


@pytest.mark.parametrize("kind", ["plain", "frozen", "tied", "constant"])
def test_two_halves_are_a_whole_backward(kind: str) -> None:
    torch.manual_seed(0)
    net = Net(kind).double()
    x = torch.randn(4, 5).double().requires_grad_()
    grad = torch.randn(4, 5).double()
    net(x).backward(grad)
    whole = {name: p.grad for name, p in net.named_parameters()}
    x_whole, x.grad = x.grad, None
    net.zero_grad()
    Counted.passed = 0
    x_half, weight_half = input_half(net(x), x, grad)
    assert all(p.grad is None for p in net.parameters())
    assert x.grad is None
    weight_half()
    torch.testing.assert_close(x_half, torch.zeros_like(x) if x_whole is None else x_whole)
    for name, param in net.named_parameters():
        assert (param.grad is None) == (whole[name] is None), name
        if param.grad is not None:
            torch.testing.assert_close(param.grad, whole[name], rtol=1e-12, atol=1e-14)
    # the way is gone once; only a weight that is met twice needs it again
    assert Counted.passed == {"plain": 3, "frozen": 3, "tied": 6, "constant": 0}[kind]
