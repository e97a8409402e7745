"""Step time of DistributedDataParallel against torch's over gloo, interleaved; two ranks, or more.

    python bench/ddp_lab_ddp.py [steps [ranks]]

Ratios of medians; every contender takes a step in turn, in shuffled order, so that a busy machine
hurts all alike. Beside the steps stand that of the model alone, and what each wrapper adds to it.
The last line counts the overhead a parameter at world size 1.
"""

import copy
import itertools
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ddp_lab

WARMUP = 5
MODELS = {
    "MLP, 4 M parameters": ([1024] * 5, 16),
    "200 layers of 32 x 32": ([32] * 201, 8),
}
TORCH, ALONE = "torch, gloo", "model alone"
OURS = ("ours, gloo", "ours, backend", "ours, shm")


def mlp(widths: list[int]) -> Any:
    from torch import nn

    return nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))


def contenders(comm: Any, module: Any) -> dict[str, Any]:
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as TorchDdp

    import ddp_lab.torch_backend  # registers the backend, in each rank

    ours, groups = ddp_lab.DistributedDataParallel, (None, dist.new_group(backend="ddp_lab"), comm)
    return {
        ALONE: copy.deepcopy(module),
        TORCH: TorchDdp(copy.deepcopy(module)),
        **{
            name: ours(copy.deepcopy(module), process_group=group)
            for name, group in zip(OURS, groups, strict=True)
        },
    }


def step_times(comm: Any, widths: list[int], batch: int, steps: int, folder: str) -> Any:
    """Return each contender's seconds a step, on this rank."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/init", rank=comm.rank, world_size=comm.size)
    models = contenders(comm, mlp(widths))
    clock = time.perf_counter
    if comm.size == 1:  # nobody to wait for: CPU time, which other programs leave alone
        clock = time.thread_time
    optimizers = {name: torch.optim.SGD(m.parameters(), lr=1e-3) for name, m in models.items()}
    x = torch.randn(batch, widths[0])
    times: dict[str, list[float]] = {name: [] for name in models}
    order = list(models)
    for step in range(WARMUP + steps):
        random.Random(step).shuffle(order)
        for name in order:
            comm.barrier()
            began = clock()
            optimizers[name].zero_grad()
            models[name](x).square().mean().backward()
            optimizers[name].step()
            if step >= WARMUP:
                times[name].append(clock() - began)
    dist.destroy_process_group()
    return times


def run(world_size: int, widths: list[int], batch: int, steps: int) -> dict[str, float]:
    """Return the median seconds of a step; a step is over when the slower rank is done."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = ddp_lab.launch(
            step_times, world_size, widths, batch, steps, str(Path(folder)), timeout_s=600
        )
    return {
        name: statistics.median(map(max, zip(*(times[name] for times in ranks), strict=True)))
        for name in ranks[0]
    }


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    ranks = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    print(f"{'torch over gloo = 1':<40}", *(f"{name:>14}" for name in (ALONE, *OURS)))
    for name, (widths, batch) in MODELS.items():
        took = run(ranks, widths, batch, steps)
        print_row(f"{name}: step", {key: t / took[TORCH] for key, t in took.items()})
        print_row(f"{name}: added", added(took))
    widths, batch = MODELS["200 layers of 32 x 32"]
    print_row("added at world size 1", added(run(1, widths, batch, steps)))


def added(took: dict[str, float]) -> dict[str, float]:
    """Return what each wrapper adds to the model alone, in units of what torch's adds."""
    alone = took[ALONE]
    return {name: (took[name] - alone) / (took[TORCH] - alone) for name in OURS}


def print_row(label: str, ratios: dict[str, float]) -> None:
    cells = (f"{ratios[name]:14.2f}" if name in ratios else " " * 14 for name in (ALONE, *OURS))
    print(f"{label:<40}", *cells)


if __name__ == "__main__":
    main()
