"""Views and updates in place, drawn at random: a trace computes what eager code does.

All are linear, so that no gradient reads what was overwritten, which eager code refuses.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch as mt
from minitorch import Tensor
from minitorch.tracing import jit

STEPS, KEPT = 14, 24

VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x[0], lambda x: x[-1:], lambda x: x[::2], lambda x: x[..., 1:],
    lambda x: x[None], lambda x: x.mT if x.ndim > 1 else x[:], lambda x: x.unsqueeze(-1).squeeze(0),
    lambda x: x.movedim(0, -1), lambda x: x.diagonal() if x.ndim > 1 else x[1:],
    lambda x: x.unflatten(0, (1, -1)), lambda x: x.chunk(2)[-1], lambda x: x.unbind(0)[0],
    lambda x: x.narrow(0, 0, 1), lambda x: x.select(0, 0), lambda x: x.detach(),
]  # fmt: skip
UPDATES: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, y: x.add_(2), lambda x, y: x.mul_(0.5), lambda x, y: x.sub_(y.sum()),
    lambda x, y: x.fill_(3), lambda x, y: x.copy_(y.mean()), lambda x, y: x.neg_(),
    lambda x, y: x.masked_fill_(mt.ones_like(x, dtype=mt.bool), 4), lambda x, y: x.zero_(),
    lambda x, y: x.__setitem__(0, y.sum()) if x.ndim else x.add_(y.mean()),
    lambda x, y: x.__setitem__(..., x * 3), lambda x, y: x.data.mul_(2),
]  # fmt: skip


def program(seed: int) -> Callable[[Tensor], list[Tensor]]:
    """Return a function of a tensor that makes views and updates; some of it without gradients."""
    choices = [[random.Random(f"{seed} {i}").random() for _ in range(5)] for i in range(STEPS)]

    def run(x: Tensor) -> list[Tensor]:
        values = [x * 2, x + 1]
        for kind, first, second, what, mode in choices:
            a, b = (values[int(place * len(values))] for place in (first, second))
            with mt.set_grad_enabled(mode > 0.2 or not a.requires_grad):
                if kind < 0.5 and a.ndim and min(a.shape):
                    values.append(VIEWS[int(what * len(VIEWS))](a))
                elif kind < 0.8 and min(a.shape, default=1):
                    UPDATES[int(what * len(UPDATES))](a, b)
                else:
                    values.append(a * 1.5 + b.sum())
        return values

    return run


@pytest.mark.parametrize("seed", range(KEPT))
def test_drawn_views_show_drawn_updates(seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=(4, 3))
    found = []
    for function in (program(seed), jit(program(seed))):
        x = mt.tensor(numbers, requires_grad=True)
        values = function(x)
        sum((value * (value.detach() + 1)).sum() for value in values).backward()
        assert x.grad is not None
        found.append([*(value.detach().numpy() for value in values), x.grad.numpy()])
    eager, traced = found
    for expected, got in zip(eager, traced, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9)
