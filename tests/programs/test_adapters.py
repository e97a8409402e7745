"""Data parallelism as a course's own tests take it: any class, through an adapter of a few lines.

Two ranks train on disjoint halves of a batch, and have the parameters of one process that trains
on all of it. The ranks are those of a Communicator, or of a torch group over our backend.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import ddp_lab
from ddp_lab.data_parallel.ladder import Bucketed, Hooked, Overlapped, Replica
from ddp_lab.parallel import ShardedOptimizer, fully_shard, gather_full_params
from ddp_lab.parallel.groups import communicator_of

STEPS, BATCH = 5, 12
SMALL_MB = 0.0005  # 65 numbers of 8 bytes: a bucket for each layer
RTOL, ATOL = 1e-11, 1e-13  # float64, and sums in another order
RANKS = ("communicator", "torch group")
Weights = dict[str, Tensor]


class Toy(nn.Module):
    """One layer is used twice, one has no bias, and one parameter is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 10, bias=False)
        self.twice = nn.Linear(10, 10)
        self.frozen = nn.Parameter(torch.full((10,), 0.5), requires_grad=False)
        self.last = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.twice(self.first(x).relu()) * self.frozen
        return self.last(self.twice(h).tanh())


def toy(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return Toy().double()


def plain(model: Any, _ranks: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def sharded(model: Any, ranks: Any) -> Any:
    options = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    return ShardedOptimizer(model.parameters(), torch.optim.SGD, ranks, **options)


def inner_weights(model: Any) -> Weights:
    return {name: param.detach() for name, param in model.module.named_parameters()}


@dataclass(frozen=True)
class Adapter:
    """What a test needs of a class: how to wrap, end backward, step, and see the weights."""

    wrap: Callable[[nn.Module, Any], Any]
    after_backward: Callable[[Any], object] = id
    optimizer: Callable[[Any, Any], Any] = plain
    weights: Callable[[Any], Weights] = inner_weights
    seeds: tuple[int, int] = 0, 1  # rank 1 has to be given rank 0's weights


def ddp(bucket_cap_mb: float, **more: Any) -> Adapter:
    def wrap(module: nn.Module, ranks: Any) -> Any:
        ddp = ddp_lab.DistributedDataParallel
        return ddp(module, process_group=ranks, bucket_cap_mb=bucket_cap_mb)

    return Adapter(wrap, **more)


def rung(kind: Any, *options: float) -> Adapter:
    def wrap(module: nn.Module, ranks: Any) -> Any:
        return kind(module, communicator_of("rung", ranks), *options)

    return Adapter(wrap, kind.finish)


ADAPTERS = {
    "individual parameters": rung(Hooked),
    "buckets": rung(Bucketed, SMALL_MB),
    "overlapped buckets": rung(Overlapped, SMALL_MB),
    "DDP, a bucket a parameter": ddp(1e-9),
    "DDP, small buckets": ddp(SMALL_MB),
    "DDP, one bucket": ddp(25.0),
    "sharded optimizer": ddp(25.0, optimizer=sharded),
    "fully sharded": Adapter(fully_shard, weights=gather_full_params, seeds=(0, 0)),
}


def finish_and_scale(model: Any) -> None:
    model.finish()
    for param in model.params:
        param.grad *= 1.0005


WRONG = {
    "never averaged": Adapter(rung(Replica).wrap),
    "scaled by 1.0005": Adapter(rung(Hooked).wrap, finish_and_scale),
}


def batches() -> list[tuple[Tensor, Tensor]]:
    rng = torch.Generator().manual_seed(5)
    sizes = [(BATCH, 6), (BATCH, 3)] * STEPS
    drawn = [torch.randn(size, generator=rng, dtype=torch.float64) for size in sizes]
    return list(zip(drawn[::2], drawn[1::2], strict=True))


def step(model: Any, optimizer: Any, x: Tensor, y: Tensor, end: Callable[[Any], object]) -> None:
    optimizer.zero_grad()
    (model(x) - y).square().mean().backward()
    end(model)
    optimizer.step()


def weights_of_one_process() -> list[Weights]:
    """Return the weights after each step on whole batches."""
    model = toy(0)
    optimizer, after_steps = plain(model, None), []
    for x, y in batches():
        step(model, optimizer, x, y, id)
        after_steps.append({name: p.detach().clone() for name, p in model.named_parameters()})
    return after_steps


def weights_of_a_rank(adapter: Adapter, ranks: Any, rank: int) -> list[Weights]:
    """Return the weights after each step on this rank's half of each batch."""
    model = adapter.wrap(toy(adapter.seeds[rank]), ranks)
    optimizer, after_steps = adapter.optimizer(model, ranks), []
    for x, y in batches():
        step(model, optimizer, x.chunk(2)[rank], y.chunk(2)[rank], adapter.after_backward)
        after_steps.append({name: w.clone() for name, w in adapter.weights(model).items()})
    return after_steps


def train_all(comm: Any, folder: str) -> dict[tuple[str, str], list[Weights]]:
    """Train by every adapter, over the communicator and over a group of our torch backend."""
    import_module("ddp_lab.torch_backend")  # registers the backend, in each rank
    store = f"file://{folder}/store"
    dist.init_process_group("ddp_lab", store, rank=comm.rank, world_size=comm.size)
    trained = {
        (kind, name): weights_of_a_rank(adapter, ranks, comm.rank)
        for kind, ranks in zip(RANKS, (comm, dist.group.WORLD), strict=True)
        for name, adapter in (ADAPTERS | WRONG).items()
    }
    dist.destroy_process_group()
    return trained


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return, for each rank, the weights after each step, by kind of ranks and adapter."""
    return ddp_lab.launch(train_all, 2, str(tmp_path_factory.mktemp("ranks")), timeout_s=200)


@pytest.mark.parametrize("kind", RANKS)
@pytest.mark.parametrize("name", ADAPTERS)
def test_two_ranks_on_halves_have_the_weights_of_one_process(
    trained: Any, kind: str, name: str
) -> None:
    expected = weights_of_one_process()
    for by_adapter in trained:
        torch.testing.assert_close(by_adapter[kind, name], expected, rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("kind", RANKS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_class_is_told_at_the_first_step(trained: Any, kind: str, name: str) -> None:
    expected = weights_of_one_process()[0]
    for by_adapter in trained:
        with pytest.raises(AssertionError, match="not close"):
            torch.testing.assert_close(by_adapter[kind, name][0], expected, rtol=RTOL, atol=ATOL)
