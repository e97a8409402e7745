"""A small model trained on two ranks, its gradients sent in one of several ways."""

from collections.abc import Callable, Iterator

import numpy as np

import minitorch
from ddp_lab import DistributedDataParallel, launch
from ddp_lab.data_parallel.hooks.comm_hooks import (
    PowerSGDState,
    TopKState,
    allreduce_hook,
    fp16_compress_hook,
    power_sgd_hook,
    top_k_hook,
)

HOOKS = {
    "all-reduce": lambda group: (group, allreduce_hook),
    "half precision": lambda group: (group, fp16_compress_hook),
    "top 2 %, error feedback": lambda group: (TopKState(group, 0.02), top_k_hook),
    "PowerSGD, rank 1": lambda group: (PowerSGDState(group, rank=1), power_sgd_hook),
}
STEPS = 200


def data(rank: int, size: int) -> tuple:
    """Return this rank's rows of a regression problem: the sine of random projections."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 8))
    y = np.sin(x @ rng.normal(size=(8, 4)))
    rows = slice(rank, None, size)
    return minitorch.tensor(x[rows].astype("f4")), minitorch.tensor(y[rows].astype("f4"))


def model() -> minitorch.nn.Module:
    """Return the same two layers every time."""
    rng = np.random.default_rng(1)
    net = minitorch.nn.Sequential(
        minitorch.nn.Linear(8, 64), minitorch.nn.Tanh(), minitorch.nn.Linear(64, 4)
    )
    for param in net.parameters():
        param.detach().numpy()[...] = rng.normal(size=param.shape, scale=0.3)
    return net


def train(comm, name: str) -> Iterator[float]:
    """Yield the loss of each step, averaged over the ranks."""
    ddp = DistributedDataParallel(model(), process_group=comm)
    ddp.register_comm_hook(*HOOKS[name](ddp.group))
    optimizer = minitorch.optim.SGD(ddp.parameters(), lr=0.1)
    x, y = data(comm.rank, comm.size)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = ((ddp(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        yield float(comm.all_reduce(np.array([loss.item()]), op="avg")[0])


def losses(name: str, say: Callable[[float], None] | None = None) -> tuple[list[float], str]:
    """Return the losses of a run on two threads, and what a rank sent; `say` hears each loss."""

    def run(comm) -> list[float]:
        seen = []
        for loss in train(comm, name):
            seen.append(loss)
            if say is not None and comm.rank == 0:
                say(loss)
        return seen

    ended = launch(run, 2, transport="threads", record=True)
    # Rank 0 also sends its weights once. Eight of the bytes are the loss.
    sent = ended.traffic[1].bytes_sent / STEPS
    return ended[0], f"{sent / 1024:.2f} KiB a step"
