"""`torch.compile` around our class and inside it: torch's class, not compiled, is the oracle."""

from pathlib import Path
from typing import Any

import pytest
import torch

import ddp_lab
from ddp_lab.data_parallel import DistributedDataParallel

PROGRAM = """
    import itertools, sys
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch._dynamo.utils import counters
    import ddp_lab.torch_backend
    from ddp_lab.data_parallel import DistributedDataParallel

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = (
                nn.Linear(10, 40), nn.Linear(40, 40), nn.Linear(40, 3)
            )

        def forward(self, x):
            return self.last(self.second(self.first(x).relu()))

    def train(wrap):
        torch.manual_seed(0)
        net = Net()
        model = wrap(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        torch.manual_seed(1 + rank)
        losses = []
        for step in range(6):
            if step != 3:  # gradients may also be added to what is there
                optimizer.zero_grad()
            loss = (model(torch.randn(8, 10)) - torch.randn(8, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return torch.tensor(losses), [p.detach() for p in net.parameters()]

    def outside(compiler, static):
        return lambda net: torch.compile(
            DistributedDataParallel(net, static_graph=static), backend=compiler
        )

    def inside(compiler, static):
        return lambda net: DistributedDataParallel(
            torch.compile(net, backend=compiler), static_graph=static
        )

    store, rank, wide = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
    torch.set_num_threads(1)
    dist.init_process_group("ddp_lab", init_method=f"file://{store}", rank=rank, world_size=2)
    expected = train(nn.parallel.DistributedDataParallel)
    cases = itertools.product((outside, inside), ("eager", "aot_eager"), (False, True))
    for where, compiler, static in cases:
        if not wide and static != ((where is outside) == (compiler == "aot_eager")):
            continue  # of each two of the three what is left has every pair
        torch._dynamo.reset()
        counters.clear()
        torch.testing.assert_close(train(where(compiler, static)), expected)
        graphs = counters["stats"]["unique_graphs"]
        assert graphs == 1, graphs  # the user's forward, and nothing of ours
        print(where.__name__, compiler, static, flush=True)

    @torch.compile(backend="eager")
    def calls_collectives(x):
        dist.broadcast(x, 0)
        dist.all_reduce(x)
        return x + 1

    assert calls_collectives(torch.full((2,), rank + 1.0)).tolist() == [3.0, 3.0]
    print("collectives", flush=True)

    whole = torch.compile(nn.parallel.DistributedDataParallel(Net()), backend="eager")
    whole(torch.randn(8, 10)).sum().backward()
    whole(torch.randn(8, 10)).sum().backward()
    compiled = torch._C._dynamo.eval_frame._debug_get_cache_entry_list
    group = ddp_lab.torch_backend.ProcessGroup
    assert not compiled(group.allreduce.__code__) and not compiled(group.broadcast.__code__)
    print("torch's class", flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_a_compiled_model_trains_as_torchs_class_does(
    python: Any, tmp_path: Path, wide: bool
) -> None:
    """Compiled outside or inside, by two compilers, the graph static or not; all eight if wide."""
    for rank in python(PROGRAM, *((tmp_path / "store", rank, wide) for rank in range(2))):
        assert len(rank.output.splitlines()) == (10 if wide else 6), rank.errors


def test_parameters_to_ignore_are_set_by_the_name_that_users_import() -> None:
    net = torch.nn.Linear(2, 2)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["bias"])
    chosen = dict(DistributedDataParallel._get_data_parallel_params(net, named_params=True))
    assert list(chosen) == ["weight"]
    alone = ddp_lab.launch(_managed, 1, net, transport="threads")
    assert alone == [["weight"]]


def _managed(comm: Any, net: torch.nn.Module) -> list[str]:
    return [spec.name for spec in DistributedDataParallel(net, comm).reducer.slots.specs]
