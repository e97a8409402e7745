"""torch's fully sharded training, both of its kinds, on CPU over the backend."""

from pathlib import Path
from typing import Any

import pytest

FSDP = """
    import copy
    import sys
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    import ddp_lab.torch_backend

    store, rank, spoil = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "spoil"
    dist.init_process_group("ddp_lab", init_method=f"file://{store}", rank=rank, world_size=2)
    if spoil:
        from ddp_lab.torch_backend import process_group, tensor_collectives
        def fill(tensor, values, source=""):
            tensor.detach().copy_(values.reshape(tensor.shape) * 1.0005)
        process_group.fill = tensor_collectives.fill = fill

    def model():
        torch.manual_seed(0)
        layers = torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
        return torch.nn.Sequential(*layers)

    def wrapped():
        net = model()
        return FullyShardedDataParallel(net, device_id=torch.device("cpu"), use_orig_params=True)

    def per_parameter():
        net, mesh = model(), init_device_mesh("cpu", (2,))
        for part in (net[0], net[2], net):
            fully_shard(part, mesh=mesh)
        return net

    def train(net, data):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(data).square().mean().backward()
            optimizer.step()

    def held(net):
        parts = (getattr(p, "to_local", lambda: p)() for p in net.parameters())
        return sum(part.numel() for part in parts)

    torch.manual_seed(1)
    data, alone = torch.randn(8, 6), model()
    whole = held(alone)
    train(alone, data)
    for make in (wrapped, per_parameter):
        net = make()
        train(net, data[rank::2])
        assert held(net) < 0.7 * whole, (held(net), whole)
        if make is wrapped:
            with FullyShardedDataParallel.summon_full_params(net):
                full = [p.detach().clone() for p in net.parameters()]
        else:
            full = [p.full_tensor() for p in net.parameters()]
        for ours, theirs in zip(full, alone.parameters()):
            torch.testing.assert_close(ours, theirs)
    dist.destroy_process_group()
    print("done")
"""


@pytest.mark.parametrize(("how", "says"), [("right", "done\n"), ("spoil", "not close")])
def test_sharded_training_over_the_backend_equals_training_alone(
    python: Any, tmp_path: Path, how: str, says: str
) -> None:
    ended = python(FSDP, *((tmp_path / "store", rank, how) for rank in range(2)))
    assert all(says in rank.output + rank.errors for rank in ended), ended
