"""What programs do with torch.distributed, one function a feature, on two ranks.

    python distributed_features.py gloo|ddp_lab STORE RANK RESULT

Writes {feature: (what it computed, "") or (None, the error)} to the file RESULT.
"""

import contextlib
import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
import torch.distributed.nn.functional as differentiable
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

FEATURES: dict[str, Callable[[int], Any]] = {}
TIMEOUT = timedelta(seconds=60)


def feature(name: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    def add(fn: Callable[[int], Any]) -> Callable[[int], Any]:
        FEATURES[name] = fn
        return fn

    return add


def mine(rank: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(*shape, generator=generator)


def reduced(rank: int, *ops: Any, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    found = []
    for op in ops:
        tensor = (mine(rank, 5) * 4).to(dtype)
        dist.all_reduce(tensor, op)
        found.append(tensor)
    return found


Op = dist.ReduceOp
FEATURES["all_reduce: sum, product, min, max"] = lambda rank: reduced(
    rank, Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX
)
FEATURES["all_reduce: average"] = lambda rank: reduced(rank, Op.AVG)
FEATURES["all_reduce: and, or, xor"] = lambda rank: reduced(
    rank, Op.BAND, Op.BOR, Op.BXOR, dtype=torch.int64
)
for _dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.complex64):
    FEATURES[f"all_reduce: {str(_dtype).removeprefix('torch.')}"] = lambda rank, d=_dtype: reduced(
        rank, Op.SUM, dtype=d
    )


@feature("all_reduce: strided tensor")
def _(rank: int) -> Any:
    whole = mine(rank, 4, 6)
    dist.all_reduce(whole.t())
    return whole


@feature("tensors without elements")
def _(rank: int) -> Any:
    reduced = [torch.zeros(0, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)]
    for tensor in reduced:
        dist.all_reduce(tensor)
    dist.broadcast(empty := torch.zeros(3, 0), 1)
    gathered = [torch.ones(0, 2) for _ in range(2)]
    dist.all_gather(gathered, torch.zeros(0, 2))
    return [*reduced, empty, *gathered]


@feature("all_reduce: sparse tensor")
def _(rank: int) -> Any:
    tensor = torch.sparse_coo_tensor([[rank, 2]], [1.0, 2.0], (4,))
    dist.all_reduce(tensor)
    return tensor.to_dense()


@feature("all_reduce_coalesced")
def _(rank: int) -> Any:
    tensors = [mine(rank, 3), mine(rank, 2, 2)]
    dist.all_reduce_coalesced(tensors)
    return tensors


@feature("_coalescing_manager")
def _(rank: int) -> Any:
    tensors = [mine(rank, 3), mine(rank, 2, 2)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    return tensors


@feature("broadcast")
def _(rank: int) -> Any:
    tensor = mine(rank, 3)
    dist.broadcast(tensor, 1)
    return tensor


@feature("reduce")
def _(rank: int) -> Any:
    tensor = mine(rank, 3)
    dist.reduce(tensor, 1)
    return tensor if rank == 1 else None


@feature("all_gather")
def _(rank: int) -> Any:
    found = [torch.empty(3) for _ in range(2)]
    dist.all_gather(found, mine(rank, 3))
    return found


@feature("all_gather_into_tensor")
def _(rank: int) -> Any:
    found = torch.empty(6)
    dist.all_gather_into_tensor(found, mine(rank, 3))
    return found


@feature("reduce_scatter")
def _(rank: int) -> Any:
    found = torch.empty(3)
    dist.reduce_scatter(found, list(mine(rank, 2, 3)))
    return found


@feature("reduce_scatter_tensor")
def _(rank: int) -> Any:
    found = torch.empty(3)
    dist.reduce_scatter_tensor(found, mine(rank, 6))
    return found


@feature("gather")
def _(rank: int) -> Any:
    found = [torch.empty(3) for _ in range(2)] if rank == 0 else None
    dist.gather(mine(rank, 3), found, 0)
    return found


@feature("scatter")
def _(rank: int) -> Any:
    found = torch.empty(3)
    dist.scatter(found, list(mine(7, 2, 3)) if rank == 0 else None, 0)
    return found


@feature("all_to_all")
def _(rank: int) -> Any:
    found = [torch.empty(2) for _ in range(2)]
    dist.all_to_all(found, list(mine(rank, 2, 2)))
    return found


@feature("all_to_all_single, uneven")
def _(rank: int) -> Any:
    sent = [1, 3] if rank == 0 else [2, 1]
    got = [1, 2] if rank == 0 else [3, 1]
    found = torch.empty(sum(got))
    dist.all_to_all_single(found, mine(rank, sum(sent)), got, sent)
    return found


@feature("barrier")
def _(rank: int) -> Any:
    dist.barrier()
    work = dist.barrier(async_op=True)
    return work.wait()


@feature("monitored_barrier")
def _(rank: int) -> Any:
    return dist.monitored_barrier()


@feature("send, recv")
def _(rank: int) -> Any:
    tensor = mine(rank, 3)
    if rank == 0:
        dist.send(tensor, 1)
        return None
    return dist.recv(tensor, 0), tensor


@feature("isend, irecv with tags, out of order")
def _(rank: int) -> Any:
    if rank == 0:
        works = [dist.isend(mine(tag, 3), 1, tag=tag) for tag in (1, 2)]
        return [work.wait() is not False for work in works]
    found = {tag: torch.empty(3) for tag in (2, 1)}
    for tag, tensor in found.items():
        dist.irecv(tensor, 0, tag=tag).wait()
    return [found[1], found[2]]


@feature("recv from any rank")
def _(rank: int) -> Any:
    tensor = mine(rank, 3)
    if rank == 0:
        dist.send(tensor, 1)
        return None
    return dist.recv(tensor), tensor


@feature("batch_isend_irecv")
def _(rank: int) -> Any:
    found, other = torch.empty(3), 1 - rank
    operations = [dist.P2POp(dist.isend, mine(rank, 3), other)]
    operations.append(dist.P2POp(dist.irecv, found, other))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return found


@feature("objects: all_gather, broadcast, gather, scatter")
def _(rank: int) -> Any:
    gathered: list[Any] = [None, None]
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * rank})
    told: list[Any] = [("of", rank), None]
    dist.broadcast_object_list(told, 1)
    at_root: list[Any] | None = [None, None] if rank == 0 else None
    dist.gather_object([rank] * 3, at_root, 0)
    own: list[Any] = [None]
    dist.scatter_object_list(own, ["a", {"b": 2}] if rank == 0 else None, 0)
    return gathered, told, at_root, own


@feature("objects: send, recv")
def _(rank: int) -> Any:
    things: list[Any] = [{"a": 1}, "text"] if rank == 0 else [None, None]
    dist.send_object_list(things, 1) if rank == 0 else dist.recv_object_list(things, 0)
    return things


@feature("new_group, new_subgroups")
def _(rank: int) -> Any:
    pair, alone = dist.new_group([1, 0]), dist.new_subgroups(1)[0]
    found = []
    for group in (pair, alone):
        tensor = mine(rank, 3)
        dist.all_reduce(tensor, group=group)
        found.append((tensor, dist.get_world_size(group), dist.get_rank(group)))
    return found


@feature("destroy_process_group lets go of threads")
def _(rank: int) -> Any:
    before = set(threading.enumerate())
    group = dist.new_group([0, 1])
    work: Any = dist.all_reduce(mine(rank, 3), group=group, async_op=True)
    if dist.get_backend() == "ddp_lab":  # gloo's have no future
        work.get_future().then(lambda _: None).wait()
    work.wait()
    dist.destroy_process_group(group)
    del group, work
    gc.collect()
    after = set(threading.enumerate()) - before
    for thread in after:
        thread.join(60)
    return any(thread.is_alive() for thread in after)


@feature("a profile shows collectives")
def _(rank: int) -> Any:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        dist.all_reduce(mine(rank, 3))
        dist.all_to_all_single(mine(rank, 2), mine(rank, 2))
    names = {event.name for event in profile.events()}
    backend = dist.get_backend()
    return [f"{backend}:{operation}" in names for operation in ("all_reduce", "all_to_all")]


@feature("futures, callbacks that wait for collectives")
def _(rank: int) -> Any:
    def nested(future: Any) -> Any:
        tensor = future.value()[0] * 2
        work: Any = dist.all_reduce(tensor, async_op=True)
        return work.get_future().wait()[0]

    first: Any = dist.all_reduce(mine(rank, 3), async_op=True)
    return first.get_future().then(nested).wait()


@feature("functional collectives")
def _(rank: int) -> Any:
    group = dist.group.WORLD
    summed = functional.all_reduce(mine(rank, 4), "sum", group)
    gathered = functional.all_gather_tensor(mine(rank, 2), 0, group)
    scattered = functional.reduce_scatter_tensor(mine(rank, 4), "sum", 0, group)
    return [functional.wait_tensor(t) for t in (summed, gathered, scattered)]


@feature("differentiable collectives")
def _(rank: int) -> Any:
    x = mine(rank, 3).requires_grad_()
    loss = differentiable.all_reduce(x * 2).square().sum()
    loss = loss + torch.cat(differentiable.all_gather(x)).prod()
    loss.backward()
    return loss.detach(), x.grad


@feature("torch.compile of a collective")
def _(rank: int) -> Any:
    @torch.compile(backend="eager")
    def fn(x: Tensor) -> Tensor:
        dist.all_reduce(x)
        return x + 1

    return fn(mine(rank, 3))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))


def train(model: Any, optimizer: Any, rank: int, steps: int = 4) -> list[float]:
    generator = torch.Generator().manual_seed(10 + rank)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        x, y = torch.randn(8, 6, generator=generator), torch.randn(8, 4, generator=generator)
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def sgd(model: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def in_parallel(rank: int, set_up: Callable[[Any], object] | None = None, **options: Any) -> Any:
    net = network()
    model = DistributedDataParallel(net, **options)
    if set_up is not None:
        set_up(model)
    return train(model, sgd(net), rank), list(net.parameters())


def power_sgd(model: DistributedDataParallel) -> None:
    state = powerSGD_hook.PowerSGDState(
        dist.group.WORLD, start_powerSGD_iter=2, min_compression_rate=1
    )
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


FEATURES["DistributedDataParallel"] = in_parallel
FEATURES["DDP: static graph, views of buckets"] = lambda rank: in_parallel(
    rank, static_graph=True, gradient_as_bucket_view=True
)
FEATURES["DDP: fp16 hook"] = lambda rank: in_parallel(
    rank, lambda model: model.register_comm_hook(None, default_hooks.fp16_compress_hook)
)
FEATURES["DDP: PowerSGD hook"] = lambda rank: in_parallel(rank, power_sgd)
FEATURES["DDP: built-in C++ fp16 hook"] = lambda rank: in_parallel(
    rank, lambda model: model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
)


@feature("DDP: no_sync")
def _(rank: int) -> Any:
    model = DistributedDataParallel(network())
    for context in (model.no_sync(), contextlib.nullcontext()):
        with context:
            model(mine(rank, 8, 6)).square().mean().backward()
    return [p.grad for p in model.parameters()]


@feature("DDP: join with uneven inputs")
def _(rank: int) -> Any:
    net = network()
    model = DistributedDataParallel(net)
    with Join([model]):
        train(model, sgd(net), rank, steps=2 + rank)
    return list(net.parameters())


@feature("DDP: join that divides by the ranks that still have inputs")
def _(rank: int) -> Any:
    net = network()
    model = DistributedDataParallel(net)
    with model.join(divide_by_initial_world_size=False):
        train(model, sgd(net), rank, steps=2 + rank)
    return list(net.parameters())


@feature("ZeroRedundancyOptimizer")
def _(rank: int) -> Any:
    net = network()
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01)
    return train(DistributedDataParallel(net), optimizer, rank), list(net.parameters())


@feature("FullyShardedDataParallel")
def _(rank: int) -> Any:
    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=True)
    losses = train(model, sgd(model), rank)
    with FullyShardedDataParallel.summon_full_params(model):
        return losses, [p.detach().clone() for p in model.parameters()]


def sharded(rank: int) -> tuple[nn.Sequential, torch.optim.Optimizer]:
    net, mesh = network(), init_device_mesh("cpu", (2,))
    for part in (net[0], net[2], net):
        fully_shard(part, mesh=mesh)
    return net, sgd(net)


@feature("fully_shard")
def _(rank: int) -> Any:
    net, optimizer = sharded(rank)
    return train(net, optimizer, rank), [p.full_tensor() for p in net.parameters()]


@feature("distributed checkpoint of fully_shard")
def _(rank: int) -> Any:
    folder: list[Any] = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, 0)
    net, optimizer = sharded(rank)
    train(net, optimizer, rank)
    dcp.save({"model": net.state_dict()}, checkpoint_id=folder[0])
    again, _ = sharded(rank)
    state = {"model": again.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    again.load_state_dict(state["model"])
    dist.barrier()
    files = len(list(Path(folder[0]).iterdir()))
    return files, [p.full_tensor() for p in again.parameters()]


@feature("DTensor: shard, replicate, matmul, redistribute")
def _(rank: int) -> Any:
    mesh = init_device_mesh("cpu", (2,))
    a = distribute_tensor(mine(0, 4, 6), mesh, [Shard(0)])
    b = distribute_tensor(mine(1, 6, 2), mesh, [Replicate()])
    product = a @ b
    other = product.redistribute(mesh, [Shard(1)])
    return product.to_local(), other.to_local(), product.full_tensor(), a.sum().full_tensor()


@feature("tensor parallel")
def _(rank: int) -> Any:
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    net = parallelize_module(network(), init_device_mesh("cpu", (2,)), plan)
    losses = train(net, sgd(net), 0)
    return losses, [p.full_tensor() for p in net.parameters()]


def pipelined(rank: int, schedule: Any) -> Any:
    net = network()
    part = nn.Sequential(net[0], net[1]) if rank == 0 else net[2]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    run = schedule(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer, losses = sgd(part), []
    for step in range(3):
        optimizer.zero_grad()
        found: list[Tensor] = []
        if rank == 0:
            run.step(mine(step, 8, 6))
        else:
            run.step(target=mine(50 + step, 8, 4), losses=found)
        optimizer.step()
        losses.append([loss.item() for loss in found])
    return losses, list(part.parameters())


FEATURES["pipelining: GPipe"] = lambda rank: pipelined(rank, ScheduleGPipe)
FEATURES["pipelining: 1F1B"] = lambda rank: pipelined(rank, Schedule1F1B)


def plain(value: Any) -> Any:
    """Return the value without what ties it to a process group."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def main() -> None:
    import ddp_lab.torch_backend  # noqa: F401

    backend, store, rank_text, result = sys.argv[1:]
    rank, found = int(rank_text), {}
    torch.set_num_threads(1)
    dist.init_process_group(backend, f"file://{store}", rank=rank, world_size=2, timeout=TIMEOUT)
    for name, run in FEATURES.items():
        try:
            found[name] = (plain(run(rank)), "")
        except Exception as error:
            found[name] = (None, f"{type(error).__name__}: {error}".partition("\n")[0])
        dist.barrier()
    torch.save(found, result)
    dist.barrier()
    os._exit(0)  # a group of gloo's waits for itself if the last to let go of it is its own thread


if __name__ == "__main__":
    main()
