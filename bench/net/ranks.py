"""What one rank of a job of `table.py` does on its host.

    python ranks.py JOB FOLDER ROUNDS

with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. It leaves a JSON list of rounds in
FOLDER/RANK.json; a round is a dict of name to seconds, or of name to bytes.
"""

import datetime
import itertools
import json
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import ddp_lab
import ddp_lab.torch_backend  # registers the backend
from ddp_lab.parallel import Pipeline, ShardedOptimizer, fully_shard, parallelize

KIB, MIB = 1 << 10, 1 << 20
SIZES = {"1 KiB": KIB, "64 KiB": 64 * KIB, "4 MiB": 4 * MIB, "25 MiB": 25 * MIB}
WARM_UP = 2  # rounds not counted
WIDTHS, BATCH, BUCKET_MB = [512] * 7, 256, 1  # of the MLP: 6.3 MB of gradients
FRAME_BYTES = 1514  # of a full packet, as the interface counts it
SIDE = 1024  # of the layers whose bytes are counted: 4 MiB each
JOBS: dict[str, Callable[[int], Any]] = {}

Rounds = list[dict[str, float]]
Call = Callable[[], Any]


def job(fn: Callable[[int], Any]) -> Callable[[int], Any]:
    JOBS[fn.__name__] = fn
    return fn


def main() -> None:
    name, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    result = JOBS[name](rounds)
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def our_group() -> Any:
    return dist.new_group(backend="ddp_lab")


def interleaved(calls: dict[str, Call], rounds: int, barrier: Call, repeat: int = 1) -> Rounds:
    """Return the seconds of each call by rounds, in an order that is drawn anew for each."""
    table: Rounds = []
    for number in range(WARM_UP + rounds):
        order, row = list(calls), {}
        random.Random(number).shuffle(order)
        for name in order:
            barrier()
            began_at = time.perf_counter()
            for _ in range(repeat):
                calls[name]()
            row[name] = (time.perf_counter() - began_at) / repeat
        table.append(row)
    return table[WARM_UP:]


class Wire:
    """Plain sockets between each rank of a host and one of the other, both ways at once."""

    def __init__(self) -> None:
        rank, self._here = dist.get_rank(), dist.get_world_size() // 2
        listener = socket.create_server(("", 0)) if rank < self._here else None
        ports: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(ports, listener.getsockname()[1] if listener else 0)
        if listener:
            self._link, _ = listener.accept()
        else:
            address = os.environ["MASTER_ADDR"], ports[rank - self._here]
            self._link = socket.create_connection(address)
        self._link.setblocking(False)

    def exchange(self, n_bytes: int) -> None:
        """Send and receive this rank's share of so many bytes, in each direction."""
        out, into, poll = memoryview(bytes(MIB)), bytearray(MIB), select.poll()
        to_send = to_take = -(-n_bytes // self._here)
        while to_send or to_take:
            wanted = (select.POLLOUT if to_send else 0) | (select.POLLIN if to_take else 0)
            poll.register(self._link, wanted)
            ((_, event),) = poll.poll()
            if event & select.POLLOUT and to_send:
                to_send -= self._link.send(out[: min(to_send, MIB)])
            if event & select.POLLIN and to_take:
                to_take -= self._link.recv_into(into, min(to_take, MIB))


@job
def all_reduce(rounds: int) -> Rounds:
    """All-reduce by size: gloo's, the backend's, and plain sockets that carry as many bytes."""
    group, wire, table = our_group(), Wire(), [{} for _ in range(rounds)]
    for size, n_bytes in SIZES.items():
        ours, theirs = torch.zeros(n_bytes // 4), torch.zeros(n_bytes // 4)

        def by_us(ours: Any = ours) -> None:
            dist.all_reduce(ours, group=group)

        def by_gloo(theirs: Any = theirs) -> None:
            dist.all_reduce(theirs)

        def by_sockets(n_bytes: int = n_bytes) -> None:
            wire.exchange(n_bytes)

        calls: dict[str, Call] = {f"{size} gloo": by_gloo, f"{size} ours": by_us}
        if n_bytes >= MIB:
            calls[f"{size} sockets"] = by_sockets
        repeat = max(1, min(100, MIB // n_bytes))
        for row, more in zip(table, interleaved(calls, rounds, dist.barrier, repeat), strict=True):
            row.update(more)
    return table


def mlp() -> nn.Module:
    torch.manual_seed(0)
    pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(WIDTHS)]
    return nn.Sequential(*itertools.chain.from_iterable(pairs))


def stepper(model: Any, finish: Call = lambda: None) -> Call:
    """Return what takes a step of training; `finish` is called before the optimizer steps."""
    optimizer, x = torch.optim.SGD(model.parameters(), lr=1e-3), torch.randn(BATCH, WIDTHS[0])

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        finish()
        optimizer.step()

    return step


def beside_sockets(wire: Wire) -> Call:
    """Return a step beside which plain sockets carry as many bytes, from the first gradients on.

    Nothing is added up and nothing copied: what the cores leave of the link.
    """
    model = mlp()
    n_bytes = sum(p.numel() * p.element_size() for p in model.parameters())
    pool, carried = ThreadPoolExecutor(1), []
    last: Any = model[-2].weight  # the first whose gradient is there
    last.register_post_accumulate_grad_hook(
        lambda _: carried.append(pool.submit(wire.exchange, n_bytes))
    )
    return stepper(model, lambda: carried.pop().result())


@job
def ddp(rounds: int) -> Rounds:
    """A step of the MLP, alone and in each wrapper, and its forward pass."""
    from torch.nn.parallel import DistributedDataParallel as TorchDdp

    alone, group = mlp(), our_group()
    options: dict[str, Any] = {"bucket_cap_mb": BUCKET_MB, "gradient_as_bucket_view": True}
    ours = {"process_group": group, **options}
    models = {
        "alone": alone,
        "torch's class, gloo": TorchDdp(mlp(), **options),
        "torch's class, backend": TorchDdp(mlp(), **ours),
        "ours, backend": ddp_lab.DistributedDataParallel(mlp(), **ours),
    }
    calls = {name: stepper(model) for name, model in models.items()}
    calls["plain sockets"] = beside_sockets(Wire())
    x = torch.randn(BATCH, WIDTHS[0])
    calls["forward"] = lambda: alone(x)
    n_bytes = sum(p.numel() * p.element_size() for p in alone.parameters())
    return [{**row, "bytes": n_bytes} for row in interleaved(calls, rounds, dist.barrier)]


def sent() -> int:
    """Return the bytes that this host has sent, headers included, each packet once."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    all_bytes = int(next(line for line in lines if "eth0" in line).split()[9])
    tcp = [line for line in Path("/proc/self/net/snmp").read_text().splitlines() if "Tcp:" in line]
    counters = dict(zip(*(line.split() for line in tcp), strict=True))
    return all_bytes - int(counters["RetransSegs"]) * FRAME_BYTES


def layers() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(4)))


@job
def counted(_rounds: int) -> Rounds:
    """Bytes that this rank's host sends in a step, and the least that the method needs."""
    comm, whole, x = our_group().comm, 4 * 4 * SIDE * SIDE, torch.randn(BATCH, SIDE)
    activations = x.numel() * x.element_size()
    model, sharded, split = layers(), layers(), layers()
    optimizer = ShardedOptimizer(model.parameters(), torch.optim.SGD, comm, lr=1e-3)
    fully_shard(sharded, comm)
    parallelize(split, comm, {"0": "column", "1": "row"})
    stage = Pipeline(comm, layers()[comm.rank], microbatches=4, loss_fn=nn.functional.mse_loss)
    model(x).square().mean().backward()

    def of_pipeline() -> None:
        stage.step(x if comm.rank == 0 else None, x if comm.rank == comm.size - 1 else None)

    inputs = x.clone().requires_grad_()
    steps: dict[str, tuple[Call, float]] = {
        "ShardedOptimizer": (optimizer.step, whole / 2),  # the other host's half of parameters
        # parameters for the forward and the backward pass, and gradients: half of each
        "fully_shard": (lambda: sharded(x).square().mean().backward(), 3 * whole / 2),
        "pipeline": (of_pipeline, activations),  # or as many gradients, the other way
        # an all-reduce of the output, and one of the input's gradient
        "tensor layers": (
            lambda: split[1](split[0](inputs)).square().mean().backward(),
            2 * activations,
        ),
    }
    row: dict[str, float] = {}
    for name, (step, least) in steps.items():
        step()  # the first step also agrees on what is sent
        dist.barrier()
        before = sent()
        dist.barrier()
        step()
        dist.barrier()
        row[name] = (sent() - before) / least
        dist.barrier()  # nobody begins the next step before all have read
    return [row]


def messages(comm: Any, rounds: int) -> Rounds:
    """One message, and eight at once, from the first rank to the last."""
    first, last = comm.rank == 0, comm.rank == comm.size - 1
    one, eight = np.zeros(MIB, np.uint8), np.zeros(MIB // 8, np.uint8)

    def carry(array: Any, count: int) -> None:
        if first:
            for _ in range(count):
                comm.isend(array, comm.size - 1)
            comm.recv(comm.size - 1)
        elif last:
            for work in [comm.irecv(0) for _ in range(count)]:
                work.wait()
            comm.send(np.zeros(1, np.uint8), 0)

    calls: dict[str, Call] = {
        "one message": lambda: carry(one, 1),
        "8 messages at once": lambda: carry(eight, 8),
    }
    if comm.size == 4:
        x = np.zeros(MIB, np.float32)
        calls = {"ring of 4": lambda: comm.all_reduce(x, algorithm="ring")}
    else:
        torch.set_num_threads(1)
        model = ddp_lab.DistributedDataParallel(mlp(), process_group=comm, bucket_cap_mb=BUCKET_MB)
        calls["DDP step"] = stepper(model)
    return interleaved(calls, rounds, comm.barrier)


@job
def on_a_link(rounds: int) -> Rounds:
    """What an emulated link is held against; also what the link's latency was measured as."""
    comm = our_group().comm
    return [{**row, "alpha": comm.link.alpha} for row in messages(comm, rounds)]


if __name__ == "__main__":
    main()
