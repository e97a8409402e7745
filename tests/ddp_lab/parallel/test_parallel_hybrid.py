"""Data, tensor and pipeline parallelism on one grid of ranks train as one process does."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ddp_lab import launch
from ddp_lab.parallel import Pipeline, parallelize, split

PLAN = {"*.fc1": "column", "*.fc2": "row"}
STEPS, ROWS = 3, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc2(torch.tanh(self.fc1(self.norm(x))))


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return tuple(torch.randn(ROWS, 6, generator=generator).double() for _ in range(2))


def on_a_grid(comm, whole: nn.Sequential, schedule: str, axes: dict[str, int]) -> list[float]:
    grid = comm.grid(**axes)
    stage = split(copy.deepcopy(whole), grid["pp"].size)[grid["pp"].rank]
    stage = parallelize(stage, grid["tp"], PLAN)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.1, momentum=0.9)
    pipeline = Pipeline(grid["pp"], stage, schedule=schedule, microbatches=2, loss_fn=mse_loss)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, target = (t.chunk(grid["dp"].size)[grid["dp"].rank] for t in batch(step))
        losses.append(grid["dp"].all_reduce(pipeline.step(x, target), "avg").item())
        for param in stage.parameters():
            param.grad = grid["dp"].all_reduce(param.grad, "avg")
        optimizer.step()
    return losses


def in_one_process(whole: nn.Sequential) -> list[float]:
    whole = copy.deepcopy(whole)
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        x, target = batch(step)
        loss = mse_loss(whole(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("schedule", "axes"),
    [
        ("1f1b", {"dp": 2, "pp": 2, "tp": 2}),
        ("zero_bubble", {"tp": 2, "dp": 1, "pp": 3}),
    ],
)
def test_three_ways_at_once_train_as_one_process_does(schedule: str, axes: dict[str, int]) -> None:
    torch.manual_seed(0)
    whole = nn.Sequential(*[Block() for _ in range(3)]).double()
    ranks = axes["dp"] * axes["tp"] * axes["pp"]
    results = launch(on_a_grid, ranks, whole, schedule, axes, transport="threads")
    expected = in_one_process(whole)
    for losses in results:
        assert losses == pytest.approx(expected, rel=1e-10)
