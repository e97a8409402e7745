"""ZeRO-1: the bits of the unsharded optimizer, with 1/n of its state on each rank."""

import copy
from importlib import import_module
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import ddp_lab
from ddp_lab.parallel import ShardedOptimizer

OPTIMIZERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "Adam": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01, "foreach": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.01, "centered": True, "momentum": 0.5}),
}


def model() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(7, 13), nn.Tanh(), nn.Linear(13, 5), nn.Linear(5, 1)
    return nn.Sequential(*layers, nn.Linear(2, 2))  # the last one is never used


def groups(net: nn.Sequential) -> list[dict[str, Any]]:
    return [
        {"params": list(net[0].parameters()), "lr": 0.02},
        {"params": [*net[2].parameters(), *net[4].parameters()], "weight_decay": 0.1},
    ]


def step(net: nn.Sequential, optimizer: Any, i: int) -> Tensor:
    x = torch.randn(9, 7, generator=torch.Generator().manual_seed(i))

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = net[:4](x).square().mean()
        loss.backward()
        return loss

    return optimizer.step(closure)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def elements(optimizer: Any) -> int:
    values = (v for state in optimizer.state.values() for v in state.values())
    return sum(v.numel() for v in values if isinstance(v, Tensor) and v.dim())


def compare(comm: Any, name: str) -> tuple[int, int]:
    """Train beside the optimizer itself, saved and loaded both ways; return the sizes of state."""
    kind, options = OPTIMIZERS[name]
    alone, net = model(), model()
    a = kind(groups(alone), **options)
    b: Any = ShardedOptimizer(groups(net), kind, comm, **options)
    a.add_param_group({"params": list(alone[3].parameters())})
    b.add_param_group({"params": list(net[3].parameters())})
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (a, b)]
    for i in range(6):
        assert torch.equal(step(alone, a, i), step(net, b, i))
        for scheduler in schedulers:
            scheduler.step()
        if i == 3:
            saved = b.state_dict()
            assert same(saved, a.state_dict())
            a = kind(groups(alone), **options)
            a.add_param_group({"params": list(alone[3].parameters())})
            a.load_state_dict(saved)
            b = ShardedOptimizer([p for g in saved_groups(net) for p in [g]], kind, comm, **options)
            b.load_state_dict(a.state_dict())
    assert same(dict(net.named_parameters()), dict(alone.named_parameters()))
    assert same(b.state_dict(), a.state_dict())
    return elements(b), elements(a)


def saved_groups(net: nn.Sequential) -> list[dict[str, Any]]:
    return [*groups(net), {"params": list(net[3].parameters())}]


def compare_all(comm: Any) -> list[tuple[int, int]]:
    return [compare(comm, name) for name in OPTIMIZERS]


@pytest.mark.parametrize("transport", ["shm", "tcp"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_steps_are_those_of_the_unsharded_optimizer_bit_for_bit(
    world_size: int, transport: str
) -> None:
    ranks = ddp_lab.launch(compare_all, world_size, transport=transport, timeout_s=200)
    for sizes in zip(*ranks, strict=True):
        whole = sizes[0][1]
        assert sum(mine for mine, _ in sizes) == whole
        assert max(mine for mine, _ in sizes) <= 1.3 * whole / world_size  # of all, used or not


def with_torch(comm: Any, folder: str) -> list[tuple[int, int]]:
    import_module("ddp_lab.torch_backend")  # registers the backend, in each rank
    dist.init_process_group("gloo", f"file://{folder}/store", rank=comm.rank, world_size=comm.size)
    found = [compare(dist.group.WORLD, "Adam")]
    found.append(compare(dist.new_group(backend="ddp_lab"), "Adam"))
    net, data = model(), torch.randn(8, 7, generator=torch.Generator().manual_seed(2))
    alone = copy.deepcopy(net)
    ddp = ddp_lab.DistributedDataParallel(net[:4])
    ours = ShardedOptimizer(ddp.parameters(), torch.optim.Adam, comm)
    theirs = torch.optim.Adam(alone[:4].parameters())
    for _ in range(3):
        ours.zero_grad()
        ddp(data[comm.rank :: comm.size]).square().mean().backward()
        for p, q in zip(net[:4].parameters(), alone[:4].parameters(), strict=True):
            q.grad = None if p.grad is None else p.grad.clone()
        ours.step()
        theirs.step()
    assert same(dict(net.named_parameters()), dict(alone.named_parameters()))
    dist.destroy_process_group()
    return found


def test_torch_groups_and_data_parallel_gradients(tmp_path: Any) -> None:
    for found in ddp_lab.launch(with_torch, 2, str(tmp_path), timeout_s=200):
        assert found[0] == found[1]


MISUSE = {
    "LBFGS": "LBFGS needs whole parameters",
    "sparse": "a sparse gradient cannot be cut",
    "values": "ranks disagree on parameter 0: rank 0 has float32",
    "count": "ranks disagree on group 0: rank 0 has 1 parameters .*, rank 1 has 2",
}


def misuse(comm: Any, how: str) -> None:
    torch.manual_seed(comm.rank if how == "values" else 0)
    net = nn.Embedding(5, 4, sparse=True)
    params = [net.weight]
    if how == "count" and comm.rank == 1:
        params.append(nn.Parameter(torch.ones(2)))
    kind = torch.optim.LBFGS if how == "LBFGS" else torch.optim.SGD
    optimizer = ShardedOptimizer(params, kind, comm, lr=0.1)
    net(torch.tensor([0, 4])).sum().backward()
    optimizer.step()


def misuse_all(comm: Any) -> int:
    for how, says in MISUSE.items():
        with pytest.raises(ddp_lab.DdpLabError, match=says):
            misuse(comm, how)
    comm.barrier()
    return len(MISUSE)


def test_misuse_is_named_on_all_ranks() -> None:
    assert ddp_lab.launch(misuse_all, 2, timeout_s=60) == [len(MISUSE)] * 2
