"""Optimizers against PyTorch's own table of options, `optim_db`."""

from typing import Any

import numpy as np
import pytest
import torch

from minitorch import optim
from minitorch.tensor.tensor import tensor

OURS = ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop")
# options about how PyTorch runs a step, not about which step it is
HOW = {"foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay"}
NOT_HERE = {"maximize"}


def options(name: str) -> list[dict[str, Any]]:
    from torch.testing._internal.common_optimizers import optim_db  # a test reads it: it takes long

    (info,) = [info for info in optim_db if info.name == name]
    found = [
        {key: value for key, value in case.kwargs.items() if key not in HOW | NOT_HERE}
        for case in info.optim_inputs_func(device="cpu")
        if not any(isinstance(value, torch.Tensor) for value in case.kwargs.values())
    ]
    return [case for i, case in enumerate(found) if case not in found[:i]]


@pytest.mark.parametrize("name", OURS)
def test_steps_equal_pytorchs(name: str) -> None:
    cases = options(name)
    assert cases
    for case in cases:
        compare_steps(name, case)


def compare_steps(name: str, case: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=shape) for shape in ((4, 3), (3,))]
    ours = [tensor(a).requires_grad_() for a in starts]
    theirs = [torch.tensor(a, requires_grad=True) for a in starts]
    mine = getattr(optim, name)(ours, **case)
    reference = getattr(torch.optim, name)(theirs, **case)
    for _ in range(8):
        for p, q in zip(ours, theirs, strict=True):
            g = rng.normal(size=tuple(q.shape))
            p.grad, q.grad = tensor(g), torch.tensor(g)
        mine.step()
        reference.step()
    for p, q in zip(ours, theirs, strict=True):
        want = q.detach().numpy()
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-11, atol=1e-13)


def test_the_table_has_what_we_think() -> None:
    assert sum(len(options(name)) for name in OURS) > 25
