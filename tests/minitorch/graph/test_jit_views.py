"""Views and updates in place: a trace computes what eager code does.

What is drawn is linear, so that no gradient reads what was overwritten, which eager code refuses.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch as mt
from minitorch import Tensor
from minitorch.errors import GraphError
from minitorch.tracing import jit

STEPS, KEPT = 14, 24

VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x[0], lambda x: x[-1:], lambda x: x[::2], lambda x: x[..., 1:],
    lambda x: x[None], lambda x: x.mT if x.ndim > 1 else x[:], lambda x: x.unsqueeze(-1).squeeze(0),
    lambda x: x.movedim(0, -1), lambda x: x.diagonal() if x.ndim > 1 else x[1:],
    lambda x: x.unflatten(0, (1, -1)), lambda x: x.chunk(2)[-1], lambda x: x.unbind(0)[0],
    lambda x: x.narrow(0, 0, 1), lambda x: x.select(0, 0), lambda x: x.detach(),
    lambda x: x.unfold(-1, min(2, x.shape[-1]), 2),
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


def test_a_grid_outside_is_relaxed_through_its_views_by_one_trace() -> None:
    def relaxed(grid: Tensor) -> Callable[[Tensor], Tensor]:
        def step(edge: Tensor) -> Tensor:
            inner = grid[1:-1, 1:-1]
            grid[0].copy_(edge)
            around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
            inner.copy_(around / 4)
            grid[-1] += inner.sum()
            return inner.mean()

        return step

    grids = [mt.zeros(6, 8) for _ in range(2)]
    eager, compiled = relaxed(grids[0]), jit(relaxed(grids[1]))
    for seed in range(4):
        edge = mt.tensor(np.random.default_rng(seed).normal(size=8).astype(np.float32))
        np.testing.assert_allclose(compiled(edge).item(), eager(edge).item(), rtol=1e-5)
        np.testing.assert_allclose(grids[1].numpy(), grids[0].numpy(), rtol=1e-5)
    assert len(compiled.traces) == 1


def test_a_reshaped_tensor_outside_is_a_view_or_a_copy_as_it_lies() -> None:
    rows, columns = mt.zeros(2, 3), mt.zeros(3, 2).mT

    def step(x: Tensor) -> list[Tensor]:
        for matrix in (rows, columns):
            flat = matrix.reshape(-1)
            flat += x
            flat[0] *= 2
        return [rows * 1, columns + flat[:3]]

    compiled = jit(step)
    for x in (mt.arange(6.0), mt.ones(6)):
        found = []
        for function in (compiled, step):
            before = rows.clone(), columns.clone()
            found.append([result.tolist() for result in function(x)])
            after = [matrix.tolist() for matrix in (rows, columns)]
            rows.copy_(before[0])
            columns.copy_(before[1])
            assert after[1] == before[1].tolist()
            found[-1].append(after)
        assert found[0] == found[1]
        columns.add_(1)


def test_a_number_that_is_read_of_a_view_is_the_present_one() -> None:
    table = mt.tensor([1.0, 2.0])

    def scaled(x: Tensor) -> Tensor:
        return x * table[1].item() + table.detach()[:1].numpy()[0]

    compiled = jit(scaled)
    for number in (2.0, 5.0):
        table[1] = number
        assert compiled(mt.ones(1)).item() == number + 1

    def read_too_late(x: Tensor) -> Tensor:
        last = table[1]
        table.add_(x)
        return x * last.item()

    with pytest.raises(GraphError, match="not known while tracing"):
        jit(read_too_late)(mt.ones(1))


def test_numbers_of_the_functions_own_may_become_others() -> None:
    weights, shift = mt.ones(3), mt.tensor([1.0, 2.0, 3.0])

    def mixed(x: Tensor) -> list[Tensor]:
        table, copied = mt.tensor([[0.0] * 3] * 2), shift.clone()
        row, last = table[1], table.detach()[-1]
        copied.copy_(weights)  # as they are in this call
        copied[0] += shift[2]
        row.add_(x * copied)
        table[0] = last
        return [table, row, copied, last.sum(), mt.eye(3).mul_(x), table[0] + mt.arange(3)]

    compiled = jit(mixed)
    for number in (1.0, 4.0):
        weights.fill_(number)
        for got, expected in zip(compiled(shift), mixed(shift), strict=True):
            np.testing.assert_allclose(got.numpy(), expected.numpy())
    assert len(compiled.traces) == 1
