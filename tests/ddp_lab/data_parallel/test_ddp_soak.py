"""Many steps leave memory, live tensors, threads and descriptors where they were."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ddp_lab.data_parallel import DistributedDataParallel

WARMUP, STEPS = 200, 2000 if os.environ.get("WIDE") else 800
GROWTH_BYTES = 3 << 20  # an allocator takes 1 or 2 MiB more at times, without any DDP too


def held() -> dict[str, int]:
    """Count what this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "tensors": sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "bytes": pages * os.sysconf("SC_PAGE_SIZE"),
    }


def grown(comm: Any, over: str, keep: Callable[[nn.Module], Any] | None = None) -> dict[str, int]:
    """Train, and return what is held more at the end than after the warm-up."""
    group = comm if over == "communicator" else None
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    model = DistributedDataParallel(module, process_group=group, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    x = torch.ones(2, 4)
    kept = []
    before = {}
    for step in range(WARMUP + STEPS):
        if step == WARMUP:
            before = held()
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        if keep:
            kept.append(keep(module))
    return {name: count - before[name] for name, count in held().items()}


@pytest.mark.parametrize("over", ["gloo", "communicator"])
def test_many_steps_leave_nothing_behind(gloo: Callable[..., Any], over: str) -> None:
    for more in gloo(grown, 2, over):
        assert more.pop("bytes") < GROWTH_BYTES
        assert max(more.values()) <= 0, more


def test_a_leak_would_be_seen(gloo: Callable[..., Any]) -> None:
    """The specimen: a small tensor a step, twice what may be held at the end."""
    (more,) = gloo(grown, 1, "communicator", lambda module: torch.zeros(GROWTH_BYTES // STEPS // 2))
    assert more["tensors"] >= STEPS
    assert more["bytes"] > GROWTH_BYTES
