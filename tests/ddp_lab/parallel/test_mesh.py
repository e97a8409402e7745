"""Meshes: ranks by the names of axes."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

import ddp_lab
from ddp_lab.parallel import Mesh, Pipeline, ShardedOptimizer, parallelize

AXES = {"pp": 2, "dp": 1, "tp": 3}


def look(comm: Any) -> Any:
    mesh = Mesh(comm, AXES)
    along = {name: mesh[name].all_gather(np.array([comm.rank])).ravel().tolist() for name in AXES}
    ranks = {name: mesh[name].rank for name in AXES}
    return mesh.coordinates, ranks, along


def test_an_axis_joins_the_ranks_that_are_equal_on_all_others() -> None:
    places = np.arange(6).reshape(tuple(AXES.values()))  # NumPy's row-major order
    for rank, (coordinates, ranks, along) in enumerate(ddp_lab.launch(look, 6)):
        at = tuple(int(i) for i in np.argwhere(places == rank)[0])
        assert coordinates == ranks == dict(zip(AXES, at, strict=True))
        for axis, name in enumerate(AXES):
            line = [slice(None) if i == axis else n for i, n in enumerate(at)]
            assert along[name] == places[tuple(line)].tolist()


BAD: list[tuple[Any, str]] = [
    ({"dp": 2, "tp": 2}, r"rank 0: the axes .*'tp': 2}, expected .* product is 2"),
    ({"dp": 2, "tp": 0}, "sizes above 0"),
    ({}, "got {}, expected"),
    ({"dp": 2.0}, "got {'dp': 2.0}"),
    (2, "got 2, expected"),
]


def misuse(comm: Any) -> int:
    for axes, says in BAD:
        with pytest.raises(ddp_lab.InvalidArgument, match=says):
            Mesh(comm, axes)
    with pytest.raises(ddp_lab.Mismatch, match=r"axes: rank 0 has {'dp': 2}, rank 1 has {"):
        Mesh(comm, {"dp": 2} if comm.rank == 0 else {"tp": 2})
    with pytest.raises(ddp_lab.InvalidArgument, match=r"got 'tp' on rank ., expected one of dp"):
        Mesh(comm, {"dp": 2})["tp"]
    comm.barrier()
    return len(BAD)


def test_axes_that_do_not_fit_are_named_on_all_ranks() -> None:
    assert ddp_lab.launch(misuse, 2) == [len(BAD)] * 2


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc2(self.fc1(x).tanh())
        return y


def blocks() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Mlp(), Mlp()).double()


def data() -> tuple[Tensor, Tensor]:
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x, x.flip(0)


def train_in_three_dimensions(comm: Any) -> Any:
    """Layers over pp, matrices over tp, rows over dp, whose ranks share the state of Adam."""
    mesh = Mesh(comm, {"dp": 2, "pp": 2, "tp": 2})
    at = mesh.coordinates
    block = parallelize(blocks()[at["pp"]], mesh["tp"], {"fc1": "column", "fc2": "row"})
    pipeline = Pipeline(mesh["pp"], block, microbatches=2, loss_fn=mse_loss)
    params = list(block.parameters())
    optimizer = ShardedOptimizer(params, torch.optim.Adam, mesh["dp"], lr=0.05)
    x, target = (rows[at["dp"] :: 2] for rows in data())
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = pipeline.step(x, target)
        losses.append(mesh["dp"].all_reduce(loss, "avg").item())
        for param in params:
            param.grad = mesh["dp"].all_reduce(param.grad, "avg")
        optimizer.step()
    return at, losses, [p.detach() for p in params]


def test_data_tensor_and_pipeline_parallelism_on_one_mesh_train_as_one_process() -> None:
    alone, (x, target), losses = blocks(), data(), []
    optimizer = torch.optim.Adam(alone.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        loss = mse_loss(alone(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for at, theirs, params in ddp_lab.launch(train_in_three_dimensions, 8, timeout_s=200):
        np.testing.assert_allclose(theirs, losses, rtol=1e-10)
        tp, fc1, fc2 = at["tp"], alone[at["pp"]].fc1, alone[at["pp"]].fc2
        own = fc1.weight.chunk(2)[tp], fc1.bias.chunk(2)[tp], fc2.weight.chunk(2, 1)[tp], fc2.bias
        for got, expected in zip(params, own, strict=True):
            torch.testing.assert_close(got, expected.detach(), rtol=1e-9, atol=1e-11)
