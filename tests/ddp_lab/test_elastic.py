"""Scripts under torchrun: the same ones as under ddp_lab's own starter, and their restarts."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ddp_lab

ROOT = Path(__file__).parents[2]
LONGEST_S = 280  # a torchrun with a restart imports torch seven times; half a minute of one core

pytestmark = pytest.mark.timeout(2 * LONGEST_S)

TRAIN = """
    import os, pathlib, signal, sys
    import torch
    from torch import nn
    import ddp_lab
    from ddp_lab.data_parallel import Checkpoint, DistributedDataParallel

    folder, steps, dies_at = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    comm = ddp_lab.init()
    torch.manual_seed(comm.rank)  # dropout differs from rank to rank
    net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Dropout(0.3), nn.Linear(40, 3))
    model = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=0.0004)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    checkpoint = Checkpoint(folder / "run.npz", comm, model=model, optimizer=optimizer)
    first = checkpoint.resume()
    for step in range(first, steps):
        if step == dies_at and not first and os.environ.get("NODE", str(comm.rank)) == "1":
            if "NODE" in os.environ:  # a machine that is lost takes its agent with it
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        x = torch.linspace(-1, 1, 36).reshape(6, 6)[comm.rank :: comm.size] * (step + 1)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        if step % 3 == 2:
            checkpoint.save(step + 1)
    if comm.rank == 0:
        torch.save(net.state_dict(), folder / f"end_{comm.size}.pt")
        (folder / "began").write_text(str(first))
"""


@pytest.fixture
def train(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(TRAIN))
    return str(path)


def torchrun(*arguments: object, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


AGENT = """
    import faulthandler, os, runpy, signal, sys
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    ranks, restarts, *sys.argv = sys.argv[1:]

    def script():
        faulthandler.register(signal.SIGTERM, chain=True)  # where a rank hangs that is ended
        print("restart", os.environ["TORCHELASTIC_RESTART_COUNT"], flush=True)
        runpy.run_path(sys.argv[0], run_name="__main__")

    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=int(ranks), max_restarts=int(restarts),
        rdzv_backend="c10d", rdzv_endpoint="127.0.0.1:0", monitor_interval=0.1,
        start_method="fork", local_addr="127.0.0.1",
    )
    elastic_launch(config, script)()
"""


def run(ranks: int, script: object, *arguments: object) -> list[str]:
    process = subprocess.run(
        [sys.executable, "-m", "ddp_lab", "run", *map(str, (script, "--ranks", ranks, *arguments))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def end(folder: Path, ranks: int) -> dict[str, Any]:
    import torch

    state: dict[str, Any] = torch.load(folder / f"end_{ranks}.pt")
    return state


def as_torchrun(python: Any, ranks: int, port: str, script: Path, *arguments: object) -> list[str]:
    """Return what the ranks say that have from torchrun what they know, and no agent."""
    shared = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environments = [{**shared, "RANK": str(rank)} for rank in range(ranks)]
    ended = python(script, *[arguments] * ranks, environments=environments)
    assert [rank.status for rank in ended] == [0] * ranks, ended
    return [rank.output for rank in ended]


def test_the_script_of_the_docstring_trains_alike_under_torchrun_and_run(
    python: Any, port: str, tmp_path: Path
) -> None:
    assert ddp_lab.__doc__
    _, _, rest = ddp_lab.__doc__.partition("    import torch\n")
    script = textwrap.dedent("    import torch\n" + rest.partition("\n`ddp_lab.data")[0])
    assert len(script.strip().splitlines()) <= 15
    path = tmp_path / "train.py"
    path.write_text(script)
    losses = [line.partition("] ")[2] for line in run(2, path)]
    assert sorted(losses) == [f"rank {r} of 2: {losses[0].partition(': ')[2]}" for r in range(2)]
    assert 0 < float(losses[0].rpartition(" ")[2]) < 0.1
    said = as_torchrun(python, 2, port, path)
    assert sorted(losses) == sorted(line.strip() for line in said)


def test_after_a_restart_training_ends_bit_for_bit_as_without(
    python: Any, port: str, train: str, tmp_path: Path
) -> None:
    for name in ("through", "restarted"):
        (tmp_path / name).mkdir()
    # three ranks: then the order of the buckets may decide how sums are rounded
    as_torchrun(python, 3, port, Path(train), tmp_path / "through", 10, -1)
    # torchrun's agent, whose ranks are forks: seven imports of torch are most of such a run. A fork
    # of a program with threads may hang, deaf to SIGTERM: only then may it restart once more.
    (agent,) = python(AGENT, [3, 3, train, tmp_path / "restarted", 10, 7])
    assert agent.status == 0, agent.errors
    assert "restart 1" in agent.output
    assert "restart 2" not in agent.output or "Unable to shutdown process" in agent.errors
    assert (tmp_path / "through" / "began").read_text() == "0"
    assert (tmp_path / "restarted" / "began").read_text() == "6"
    through, restarted = end(tmp_path / "through", 3), end(tmp_path / "restarted", 3)
    assert through.keys() == restarted.keys()
    for name, value in through.items():
        assert value.equal(restarted[name]), name


BACKEND = """
    import os, signal
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab")
    x = torch.ones(2)
    dist.all_reduce(x)
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)
    print(f"rank {dist.get_rank()}: {x.tolist()}", flush=True)
    dist.destroy_process_group()
"""


def test_the_backend_survives_what_dead_ranks_left_in_the_store(
    python: Any, tmp_path: Path
) -> None:
    path = tmp_path / "backend.py"
    path.write_text(textwrap.dedent(BACKEND))
    (agent,) = python(AGENT, [2, 1, path])
    assert agent.status == 0, agent.errors
    assert all(f"rank {rank}: [4.0, 4.0]" in agent.output for rank in range(2))


@pytest.fixture
def nodes(train: str, tmp_path: Path) -> Iterator[list["subprocess.Popen[str]"]]:
    """Two agents of one elastic run, a rank each; the first one holds the store."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    (tmp_path / "elastic").mkdir()
    conf = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2"
    agents = [
        torchrun(
            *("--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d"),
            *(f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=run", "--monitor-interval=0.5"),
            *(f"--rdzv-conf={conf},is_host={node == 0}", "--local-addr=127.0.0.1"),
            *(train, tmp_path / "elastic", 12, 8),
            NODE=str(node),
            TMPDIR=str(tmp_path),  # torchrun leaves a folder there
        )
        for node in range(2)
    ]
    yield agents
    for agent in agents:
        if agent.poll() is None:
            agent.terminate()
        agent.communicate(timeout=30)


@pytest.mark.wide
def test_a_run_that_loses_a_machine_goes_on_without_it(
    nodes: Any, train: str, tmp_path: Path
) -> None:
    said, _ = nodes[0].communicate(timeout=LONGEST_S)
    assert nodes[0].returncode == 0, said
    assert nodes[1].wait(timeout=30) == -signal.SIGKILL
    assert (tmp_path / "elastic" / "began").read_text() == "6"
    run(2, train, tmp_path, 6, -1)
    run(1, train, tmp_path, 12, -1)
    for name, value in end(tmp_path, 1).items():
        assert value.equal(end(tmp_path / "elastic", 1)[name]), name
