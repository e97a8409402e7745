"""Training saved on some ranks goes on on more or fewer, with the losses of a run never stopped."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import ddp_lab
from ddp_lab.data_parallel import Checkpoint, DistributedDataParallel

ROWS = 12  # of all ranks together: 2, 3 and 4 ranks have equal shares
STEPS = 9
SAVED = 4  # steps before the number of ranks changes


def parts() -> tuple[nn.Sequential, torch.optim.Optimizer, Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 5), nn.Tanh(), nn.Linear(5, 3))
    return (net.double(), *updates(net))


def updates(net: nn.Module) -> tuple[torch.optim.Optimizer, Any]:
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * STEPS)


def train(
    net: nn.Module, optimizer: Any, schedule: Any, steps: range, share: slice
) -> list[Tensor]:
    losses = []
    for step in steps:
        x = torch.randn(ROWS, 9, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        optimizer.zero_grad()
        loss = (net(x[share, :6]) - x[share, 6:]).square().mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
    return losses


def with_checkpoint(comm: Any, folder: str, steps: int) -> list[float]:
    net, optimizer, schedule = parts()
    model = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=0.0002)
    things = {"model": model, "optimizer": optimizer, "schedule": schedule}
    checkpoint = Checkpoint(Path(folder) / "run.npz", comm, **things)
    first = checkpoint.resume()
    share = slice(comm.rank, None, comm.size)
    losses = train(model, optimizer, schedule, range(first, steps), share)
    checkpoint.save(steps)
    return [float(loss) for loss in comm.all_reduce(torch.stack(losses), op="avg")]


def state(net: nn.Module, optimizer: Any, schedule: Any, step: int) -> dict[str, Any]:
    from torch.distributed.checkpoint.state_dict import get_state_dict

    net_state, optimizer_state = get_state_dict(net, optimizer)
    rest = {"schedule": schedule.state_dict(), "step": step}
    return {"net": net_state, "optimizer": optimizer_state, **rest}


def with_torchs(comm: Any, folder: str, steps: int) -> list[float]:
    import_module("ddp_lab.torch_backend")  # registers the backend, in each rank
    from torch.distributed import checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import set_state_dict
    from torch.distributed.fsdp import fully_shard

    store = f"file://{folder}/{comm.size}"
    dist.init_process_group("ddp_lab", store, rank=comm.rank, world_size=comm.size)
    net, _, _ = parts()
    for part in (net[0], net[2], net):
        fully_shard(part)
    optimizer, schedule = updates(net)
    first, saved = 0, Path(folder) / f"after {SAVED}"
    if saved.exists():
        tree = state(net, optimizer, schedule, first)
        dcp.load(tree, checkpoint_id=saved)
        both = {"model_state_dict": tree["net"], "optim_state_dict": tree["optimizer"]}
        set_state_dict(net, optimizer, **both)
        schedule.load_state_dict(tree["schedule"])
        first = tree["step"]
    share = slice(comm.rank, None, comm.size)
    losses = train(net, optimizer, schedule, range(first, steps), share)
    mean = torch.stack(losses)
    dist.all_reduce(mean, dist.ReduceOp.AVG)  # all have looked for the folder
    dcp.save(
        state(net, optimizer, schedule, steps), checkpoint_id=saved.with_name(f"after {steps}")
    )
    dist.destroy_process_group()
    return mean.tolist()


@pytest.mark.parametrize("sizes", [(4, 3), (2, 4)], ids=str)
@pytest.mark.parametrize("run", [with_checkpoint, with_torchs])
def test_losses_go_on_as_if_nothing_had_happened(
    run: Callable[..., Any], sizes: tuple[int, int], tmp_path: Path
) -> None:
    unbroken = train(*parts(), range(STEPS), slice(None))
    before, after = (
        ddp_lab.launch(run, size, str(tmp_path), steps, timeout_s=200)[0]
        for size, steps in zip(sizes, (SAVED, STEPS), strict=True)
    )
    assert len(before) == SAVED
    np.testing.assert_allclose([*before, *after], [float(x) for x in unbroken], rtol=1e-12)
