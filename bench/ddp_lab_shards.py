"""Step time of ShardedOptimizer and fully_shard against torch's over gloo, interleaved; two ranks.

    python bench/ddp_lab_shards.py [steps]

Ratios of medians; every contender takes a step in turn, in shuffled order, so that a busy machine
hurts all alike. torch's fully_shard is applied to each layer and to the whole, as its users do.
"""

import copy
import itertools
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import ddp_lab

WARMUP = 3
MODELS = {
    "MLP, 4 M parameters": ([1024] * 5, 16),
    "50 layers of 64 x 64": ([64] * 51, 8),
}
GLOO, BACKEND, SHM = "torch, gloo", "ours, gloo", "ours, shm"
Step = Callable[[], Any]


def mlp(widths: list[int]) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))


def optimizer_steps(comm: Any, widths: list[int], batch: int) -> dict[str, Step]:
    """Return one step of each contender's Adam, with gradients that are there already."""
    import torch
    import torch.distributed as dist
    from torch.distributed.optim import ZeroRedundancyOptimizer

    from ddp_lab.parallel import ShardedOptimizer

    adam, models = torch.optim.Adam, [mlp(widths) for _ in range(3)]
    for model in models:
        model(torch.ones(batch, widths[0])).square().mean().backward()
    optimizers = {
        GLOO: ZeroRedundancyOptimizer(models[0].parameters(), adam, lr=1e-3),
        BACKEND: ShardedOptimizer(models[1].parameters(), adam, dist.group.WORLD, lr=1e-3),
        SHM: ShardedOptimizer(models[2].parameters(), adam, comm, lr=1e-3),
    }
    return {name: optimizer.step for name, optimizer in optimizers.items()}


def sharded_steps(comm: Any, widths: list[int], batch: int) -> dict[str, Step]:
    """Return a whole training step of each contender."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as torch_fully_shard

    from ddp_lab.parallel import fully_shard

    theirs, mesh = mlp(widths), init_device_mesh("cpu", (comm.size,))
    for part in (*theirs, theirs):
        torch_fully_shard(part, mesh=mesh)
    models = {
        GLOO: theirs,
        BACKEND: fully_shard(mlp(widths), dist.group.WORLD),
        SHM: fully_shard(mlp(widths), comm),
    }
    x = torch.randn(batch, widths[0])

    def step(model: Any, optimizer: Any) -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    steps = {}
    for name, model in models.items():
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        steps[name] = lambda model=model, optimizer=optimizer: step(model, optimizer)
    return steps


KINDS = {"optimizer step": optimizer_steps, "fully_shard": sharded_steps}


def step_times(comm: Any, folder: str, kind: str, model: str, steps: int) -> Any:
    """Return each contender's seconds a step, on this rank."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/init", rank=comm.rank, world_size=comm.size)
    contenders = KINDS[kind](comm, *copy.deepcopy(MODELS[model]))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for step in range(WARMUP + steps):
        random.Random(step).shuffle(order)
        for name in order:
            comm.barrier()
            began = time.perf_counter()
            contenders[name]()
            if step >= WARMUP:
                times[name].append(time.perf_counter() - began)
    dist.destroy_process_group()
    return times


def run(kind: str, model: str, steps: int) -> dict[str, float]:
    """Return the median seconds of a step; a step is over when the slower rank is done."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = ddp_lab.launch(step_times, 2, folder, kind, model, steps, timeout_s=600)
    return {
        name: statistics.median(map(max, zip(*(times[name] for times in ranks), strict=True)))
        for name in ranks[0]
    }


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print(f"{'torch over gloo = 1':<44}{'torch, ms':>12}{BACKEND:>14}{SHM:>14}")
    for kind, model in itertools.product(KINDS, MODELS):
        took = run(kind, model, steps)
        ratios = "".join(f"{took[name] / took[GLOO]:14.2f}" for name in (BACKEND, SHM))
        print(f"{kind + ': ' + model:<44}{1e3 * took[GLOO]:12.1f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
