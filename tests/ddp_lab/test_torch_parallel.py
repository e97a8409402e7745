"""torch's own ways to train in parallel over the backend: they compute what they do over gloo."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import ddp_lab

Found = list[Any]
PROGRAMS: dict[str, Callable[[str, bool], Found]] = {}


def program(fn: Callable[[str, bool], Found]) -> Callable[[str, bool], Found]:
    """Have `fn(folder, wide)` run over both backends; the tensors that it returns are compared."""
    PROGRAMS[fn.__name__] = fn
    return fn


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))


def batch() -> Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


def train(model: nn.Module, optimizer: Any, x: Tensor) -> None:
    for _ in range(3):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def whole(params: Any) -> list[Tensor]:
    return [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in params]


@program
def fully_shard(folder: str, wide: bool) -> Found:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.distributed.fsdp import fully_shard as shard

    size, found = dist.get_world_size(), []
    meshes: list[Any] = [init_device_mesh("cpu", (size,))]
    if wide:  # replicas of shards
        meshes.append(init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "fsdp")))
    for mesh in meshes:
        for policy in (MixedPrecisionPolicy(), MixedPrecisionPolicy(torch.bfloat16)):
            model = mlp()
            for part in (model[0], model[2], model):
                shard(part, mesh=mesh, mp_policy=policy)
            x = batch()[dist.get_rank() :: size]
            train(model, torch.optim.Adam(model.parameters(), lr=0.01), x)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            dtype = policy.param_dtype or torch.float32  # to compare as exactly as it computes
            found += [x.to(dtype) for x in whole([norm, *model.parameters()])]
    return found


@program
def tensors(folder: str, wide: bool) -> Found:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    x = torch.arange(30.0).reshape(5, 6)  # no multiple of the ranks
    rows: Any = distribute_tensor(x, mesh, [Shard(0)])
    found = [rows.redistribute(mesh, [p]).to_local() for p in (Replicate(), Shard(1), Shard(0))]
    found += [(rows @ rows.T).full_tensor(), rows.sum().full_tensor(), rows.std().full_tensor()]
    partial = DTensor.from_local(x, mesh, [import_module("torch.distributed.tensor").Partial()])
    found += [partial.redistribute(mesh, [Shard(1)]).full_tensor()]
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(mlp(), mesh, plan)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), batch())
    found += whole(model.parameters())
    if wide:
        grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
        both = distribute_tensor(x, grid, [Shard(0), Shard(1)])
        found += [both.full_tensor(), both.redistribute(grid, [Shard(1), Replicate()]).to_local()]
        norm = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8))
        norm = parallelize_module(norm, grid["tp"], {"0": SequenceParallel()})
        found += [norm[0](batch().reshape(2, 4, 8)).full_tensor()]
    return found


@program
def pipelining(folder: str, wide: bool) -> Found:
    from torch.distributed import pipelining

    rank, size = dist.get_rank(), dist.get_world_size()
    names = ["ScheduleGPipe", "Schedule1F1B"]
    several = ["ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble"] if wide else []
    found = []
    for name in names + several:
        torch.manual_seed(0)
        chunks = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(2 * size)]
        mine = [chunks[rank], chunks[size + rank]] if name in several else [chunks[rank]]
        stages = [
            pipelining.PipelineStage(chunk, rank + i * size, size * len(mine), torch.device("cpu"))
            for i, chunk in enumerate(mine)
        ]
        kind = getattr(pipelining, name)
        schedule = kind(
            stages if name in several else stages[0],
            n_microbatches=4,
            loss_fn=lambda out, target: (out - target).square().mean(),
        )
        x = batch()
        is_last, losses = rank == size - 1, []
        args = (x,) if rank == 0 else ()
        schedule.step(*args, **({"target": x.flip(0), "losses": losses} if is_last else {}))
        found += [*losses, *(p.grad for chunk in mine for p in chunk.parameters())]
    return found


@program
def zero_redundancy(folder: str, wide: bool) -> Found:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    found = []
    for as_views in (False, True):
        model = mlp()
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), torch.optim.Adam, parameters_as_bucket_view=as_views, lr=0.01
        )
        train(nn.parallel.DistributedDataParallel(model), optimizer, batch())
        optimizer.consolidate_state_dict(to=0)
        if dist.get_rank() == 0:
            state = optimizer.state_dict()["state"]
            found += [state[key]["exp_avg"] for key in sorted(state)]
        found += whole(model.parameters())
    return found


@program
def checkpoint(folder: str, wide: bool) -> Found:
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint import state_dict as states
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def sharded() -> tuple[nn.Module, Any]:
        model = mlp()
        shard(model, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.01)

    model, optimizer = sharded()
    train(model, optimizer, batch())
    saved = dict(zip(("model", "optim"), states.get_state_dict(model, optimizer), strict=True))
    dcp.save(saved, checkpoint_id=f"{folder}/checkpoint")
    train(model, optimizer, batch())
    again, its_optimizer = sharded()
    loaded = dict(zip(("model", "optim"), states.get_state_dict(again, its_optimizer), strict=True))
    dcp.load(loaded, checkpoint_id=f"{folder}/checkpoint")
    states.set_state_dict(
        again, its_optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optim"]
    )
    train(again, its_optimizer, batch())
    options = states.StateDictOptions(full_state_dict=True)
    full = states.get_model_state_dict(again, options=options)
    return [*whole(model.parameters()), *whole(again.parameters()), *full.values()]


def run_all(comm: Any, backend: str, folder: str, wide: bool) -> dict[str, Found]:
    import_module("ddp_lab.torch_backend")  # registers the backend, in each rank
    store = f"file://{folder}/{backend}"
    dist.init_process_group(backend, store, rank=comm.rank, world_size=comm.size)
    assert dist.get_backend() == backend
    found = {}
    for name, fn in PROGRAMS.items():
        place = Path(folder) / backend[:2] / name
        found[name] = [x.detach().clone() for x in fn(str(place), wide)]
    dist.destroy_process_group()
    return found


def compare(folder: Path, world_size: int, wide: bool) -> None:
    ours, gloo = (
        ddp_lab.launch(run_all, world_size, backend, str(folder), wide, timeout_s=280)
        for backend in ("ddp_lab", "gloo")
    )
    for mine, theirs in zip(ours, gloo, strict=True):
        for name in PROGRAMS:
            assert len(mine[name]) == len(theirs[name])
            for a, b in zip(mine[name], theirs[name], strict=True):
                torch.testing.assert_close(a, b, msg=lambda text, name=name: f"{name}: {text}")
    again = ours[0]["checkpoint"]
    parts = len(again) // 3
    for a, b, c in zip(again[:parts], again[parts : 2 * parts], again[2 * parts :], strict=True):
        assert torch.equal(a, b)
        assert torch.equal(b, c)


def test_torch_shards_pipelines_and_checkpoints_over_the_backend(tmp_path: Path) -> None:
    compare(tmp_path, 2, wide=False)


@pytest.mark.wide
def test_torch_does_so_on_four_ranks_with_meshes_and_all_schedules(tmp_path: Path) -> None:
    compare(tmp_path, 4, wide=True)
