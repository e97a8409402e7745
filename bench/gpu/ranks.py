"""ddp_lab on one device: virtual ranks beside PyTorch's sum of as many tensors, and DDP alone."""

import copy
import itertools
import statistics
import tempfile
import time
from typing import Any

import torch
import torch.distributed as dist
from measuring import DEVICE, WARM_UP, Step, attempt, compare, medians, record, synchronize
from torch import nn

RANKS, ROUNDS = 2, 30
MIB = (1, 4) if DEVICE == "cpu" else (1, 25, 100)


def reduced(comm: Any, count: int) -> list[float]:
    """Return this rank's milliseconds of each all-reduce."""
    x, found = torch.ones(count, device=DEVICE), []
    for _ in range(WARM_UP + ROUNDS):
        comm.barrier()
        synchronize()
        began = time.perf_counter()
        comm.all_reduce(x)
        synchronize()
        found.append(1e3 * (time.perf_counter() - began))
    return found[WARM_UP:]


def virtual_ranks(mib: int) -> None:
    import ddp_lab
    from ddp_lab.transport.device import DeviceWorld

    count = mib << 18
    world = DeviceWorld(RANKS, DEVICE)
    took = ddp_lab.launch(reduced, RANKS, count, transport=world, timeout_s=60)
    ours = statistics.median(map(max, zip(*took, strict=True)))
    tensors = torch.ones(RANKS, count, device=DEVICE)
    theirs, _ = medians(lambda: tensors.sum(0), lambda: None)
    name = f"all-reduce of {mib} MiB over {RANKS} virtual ranks; torch sums as many"
    record(name, "measured", ours_ms=ours, torch_ms=theirs)


def ddp_steps() -> tuple[Step, Step]:
    """Return a training step of each DistributedDataParallel, at world size 1."""
    from torch.nn.parallel import DistributedDataParallel as TorchDdp

    from ddp_lab import DistributedDataParallel

    widths = (64,) * 5 if DEVICE == "cpu" else (1024,) * 5
    net = nn.Sequential(*(nn.Linear(a, b) for a, b in itertools.pairwise(widths)))
    x = torch.randn(16, widths[0], device=DEVICE)

    def step(model: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

        def run() -> None:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

        return run

    net = net.to(DEVICE)
    return step(DistributedDataParallel(copy.deepcopy(net))), step(TorchDdp(copy.deepcopy(net)))


def main() -> None:
    for mib in MIB:
        with attempt(f"all-reduce of {mib} MiB over virtual ranks"):
            virtual_ranks(mib)
    backend = "gloo" if DEVICE == "cpu" else "nccl"
    with attempt("DDP at world size 1"), tempfile.TemporaryDirectory() as folder:
        dist.init_process_group(backend, f"file://{folder}/init", rank=0, world_size=1)
        compare(f"DDP step of four layers at world size 1, {backend}", ddp_steps)
        dist.destroy_process_group()


if __name__ == "__main__":
    with attempt("ranks"):
        main()
