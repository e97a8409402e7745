"""Training over hosts: torchrun, shards and checkpoints; a host that is lost on the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddp_lab.launch.hosts import Hosts

pytestmark = pytest.mark.timeout(560)

STEPS, DIES_AT = 9, 7

SHARDED = """
    import sys
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab")
    rank, size = dist.get_rank(), dist.get_world_size()

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    def train(net, data, steps):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            net(data).square().mean().backward()
            optimizer.step()

    def sharded():
        net, mesh = model(), init_device_mesh("cpu", (size,))
        for part in (net[0], net[2], net):
            fully_shard(part, mesh=mesh)
        return net

    torch.manual_seed(1)
    data, alone, net, later = torch.randn(12, 6), model(), sharded(), sharded()
    train(alone, data, 4)
    train(net, data[rank::size], 2)
    dcp.save({"model": net.state_dict()}, checkpoint_id=sys.argv[1])
    state = {"model": later.state_dict()}
    dcp.load(state, checkpoint_id=sys.argv[1])
    train(later, data[rank::size], 2)
    for mine, theirs in zip(later.parameters(), alone.parameters()):
        torch.testing.assert_close(mine.full_tensor(), theirs)

    many = [torch.full((50_000,), float(number)) for number in range(9)]
    works = [dist.all_reduce(x, async_op=True) for x in many]  # in two lanes, at the same time
    dist.barrier()
    assert all(work.is_completed() for work in works)
    for number, x in enumerate(many):
        assert x.eq(number * size).all()
    sys.stdout.write(f"trained on {dist.group.WORLD.comm.hosts}\\n")
    dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "ranks", "places"),
    [
        (2, 2, "((0, 1), (2, 3))"),
        pytest.param(3, 1, "((0,), (1,), (2,))", marks=pytest.mark.wide),
    ],
)
def test_torchrun_trains_shards_over_hosts_and_goes_on_from_their_checkpoint(
    run_tool: Any, script: Any, tmp_path: Path, count: int, ranks: int, places: str
) -> None:
    words = (count, "--rate", "1gbit", "--", "torchrun", "--nproc-per-node", ranks)
    process = run_tool(*words, script(SHARDED), tmp_path / "saved")
    said, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    assert said.count(f"trained on {places}") == count * ranks


TRAIN = """
    import os, pathlib, sys, threading
    import torch
    from torch import nn
    import ddp_lab
    from ddp_lab.data_parallel import Checkpoint, DistributedDataParallel

    class Momentum:  # to make one of torch's imports its compiler, which takes as long as torch
        def __init__(self, parameters):
            self.parameters = list(parameters)
            self.speeds = [torch.zeros_like(p) for p in self.parameters]

        def step(self):
            with torch.no_grad():
                for p, speed in zip(self.parameters, self.speeds):
                    p -= 0.05 * speed.mul_(0.9).add_(p.grad)
                    p.grad = None

        def state_dict(self):
            return {"speeds": self.speeds}

        def load_state_dict(self, state):
            for speed, saved in zip(self.speeds, state["speeds"]):
                speed.copy_(saved)

    def train(folder, steps, dies_at):
        comm = ddp_lab.init()
        torch.manual_seed(comm.rank)  # dropout differs from rank to rank
        net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Dropout(0.3), nn.Linear(40, 3))
        model = DistributedDataParallel(net, process_group=comm)
        optimizer = Momentum(net.parameters())
        checkpoint = Checkpoint(folder / "run.npz", comm, model=model, optimizer=optimizer)
        first = checkpoint.resume()
        for step in range(first, steps):
            if step == dies_at and comm.size == 2:
                print("waits to be lost", flush=True)
                if comm.rank == 1:
                    threading.Event().wait()
            x = torch.linspace(-1, 1, 36).reshape(6, 6)[comm.rank :: comm.size] * (step + 1)
            model(x).square().mean().backward()
            optimizer.step()
            if step % 3 == 2:
                checkpoint.save(step + 1)
        if comm.rank == 0:
            torch.save(net.state_dict(), folder / f"end_{comm.size}.pt")
            print("began at", first, flush=True)

    def fork_ranks(size, *arguments):
        ranks = []
        for rank in range(size):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                port = str(29500 + size)
                os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=port)
                sys.exit(train(*arguments))
        assert [os.waitpid(rank, 0)[1] for rank in ranks] == [0] * size

    folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    if "RANK" in os.environ:
        train(folder, steps, int(sys.argv[3]))
    else:  # by hand: two ranks, then one
        fork_ranks(2, folder, 6, -1)
        fork_ranks(1, folder, steps, -1)
"""

# torchrun, but for its ranks: they are forks of it, which need not import torch
AGENT = """
    import runpy, sys
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    number, *sys.argv = sys.argv[1:]

    def script():
        runpy.run_path(sys.argv[0], run_name="__main__")

    # long enough for a host that is only slow: nobody begins alone, nobody is taken for lost
    conf = {"last_call_timeout": 15, "keep_alive_interval": 2, "keep_alive_max_attempt": 6}
    config = LaunchConfig(
        min_nodes=1, max_nodes=2, nproc_per_node=1, max_restarts=3, monitor_interval=0.5,
        run_id="run", rdzv_backend="c10d", rdzv_endpoint="10.9.0.1:29400",
        rdzv_configs={**conf, "is_host": number == "1"}, local_addr=f"10.9.0.{number}",
        start_method="fork",
    )
    elastic_launch(config, script)()
"""


@pytest.mark.slow
def test_a_run_that_loses_a_host_goes_on_without_it_bit_for_bit(
    hosts: Callable[..., Hosts], on: Any, script: Any, tmp_path: Path
) -> None:
    pair, train, agent_of = hosts(2), script(TRAIN), script(AGENT)
    lost, through = tmp_path / "lost", tmp_path / "through"
    for folder in (lost, through):
        folder.mkdir()
    agents = [
        on(pair, host, [agent_of, host + 1, train, lost, STEPS, DIES_AT]) for host in range(2)
    ]
    for agent in agents:
        agent.wait_for("waits to be lost")
    pair.stop(1)  # its cable is pulled first: nobody is told
    by_hand = on(pair, 0, [train, through, STEPS])
    assert by_hand.end() == 0, by_hand.text
    assert agents[0].end() == 0, agents[0].text
    assert "began at 6" in agents[0].text
    assert "host host2 (10.9.0.2)" in agents[0].text and "is silent" in agents[0].text
    same_weights(lost / "end_1.pt", through / "end_1.pt")


def same_weights(path: Path, other: Path) -> None:
    import torch

    mine, theirs = torch.load(path), torch.load(other)
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert value.equal(theirs[name]), name
