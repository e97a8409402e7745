"""Models, batches and ranks that the tests of data parallelism share."""

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ddp_lab


@pytest.fixture(scope="session", autouse=True)
def compiler_of_torch() -> None:
    """Import it before the first ranks start, which then need not, each for its optimizer."""
    importlib.import_module("torch._dynamo")


def mlp(seed: int) -> nn.Module:
    generator_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(10, 30), nn.ReLU(), nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 3)
    )
    torch.random.set_rng_state(generator_state)
    return model


def batches(count: int, size: int = 16) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 10, generator=generator), torch.randn(size, 3, generator=generator))
        for _ in range(count)
    ]


def share(x: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    n = len(x) // size
    return x[rank * n : (rank + 1) * n]


class Training:
    """One process trains on whole batches, ranks on their shares: the parameters must agree."""

    steps = 6

    def alone(self) -> list[torch.Tensor]:
        model = mlp(0)
        self._train(model, model, 0, 1)
        return [p.detach() for p in model.parameters()]

    def apart(
        self, wrap: Callable[[nn.Module, Any], Any], world_size: int = 2
    ) -> list[list[torch.Tensor]]:
        models = [mlp(rank) for rank in range(world_size)]  # made here: seeds are global

        def run(comm: Any) -> list[torch.Tensor]:
            model = models[comm.rank]
            self._train(model, wrap(model, comm), comm.rank, comm.size)
            return [p.detach() for p in model.parameters()]

        return ddp_lab.launch(run, world_size, transport="threads", timeout_s=60)

    def _train(self, module: nn.Module, model: Any, rank: int, size: int) -> None:
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for x, y in batches(self.steps):
            optimizer.zero_grad()
            error = model(share(x, rank, size)) - share(y, rank, size)
            error.square().mean().backward()
            if hasattr(model, "finish"):
                model.finish()
            optimizer.step()


def _with_gloo(comm: Any, fn: Callable[..., Any], folder: str, args: tuple[Any, ...]) -> Any:
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/init", rank=comm.rank, world_size=comm.size)
    try:
        return fn(comm, *args)
    finally:
        dist.destroy_process_group()


@pytest.fixture
def gloo(tmp_path: Path) -> Callable[..., Any]:
    """`gloo(fn, world_size, *args)` calls fn(comm, *args) on processes with a gloo group, too."""

    def run(fn: Callable[..., Any], world_size: int, *args: Any) -> Any:
        folder = tempfile.mkdtemp(dir=tmp_path)
        return ddp_lab.launch(_with_gloo, world_size, fn, folder, args, timeout_s=240)

    return run


@pytest.fixture
def training() -> Training:
    return Training()
