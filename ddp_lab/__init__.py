"""Messages, collectives, and data-parallel training.

A script that trains on any number of ranks, started by `python -m ddp_lab run train.py --ranks 2`
or by `torchrun --nproc-per-node 2 train.py`, on several machines too:

    import torch
    import ddp_lab

    comm = ddp_lab.init()
    torch.manual_seed(0)
    x = torch.randn(64, 8)
    y = x.sum(dim=1, keepdim=True)
    model = ddp_lab.DistributedDataParallel(torch.nn.Linear(8, 1), process_group=comm)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        loss = (model(x[comm.rank :: comm.size]) - y[comm.rank :: comm.size]).square().mean()
        loss.backward()
        optimizer.step()
    print(f"rank {comm.rank} of {comm.size}: loss {comm.all_reduce(loss, 'avg').item():.6f}")

`ddp_lab.data_parallel.checkpoint` adds what such a script needs to survive its ranks.
"""

from ddp_lab import cost, simulate
from ddp_lab.collectives.registry import algorithms, register_algorithm
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.errors import (
    DdpLabError,
    Deadlock,
    InvalidArgument,
    Mismatch,
    OutOfSharedMemory,
    RankFailed,
    RankLost,
    RankTimeout,
    UnknownAlgorithm,
)
from ddp_lab.launch.launcher import launch
from ddp_lab.launch.world import init
from ddp_lab.transport.links.link import Link

__all__ = [
    "Communicator",
    "DdpLabError",
    "Deadlock",
    "DistributedDataParallel",
    "InvalidArgument",
    "Link",
    "Mismatch",
    "OutOfSharedMemory",
    "RankFailed",
    "RankLost",
    "RankTimeout",
    "UnknownAlgorithm",
    "algorithms",
    "cost",
    "init",
    "launch",
    "register_algorithm",
    "simulate",
]

__version__ = "0.1.0"
