"""The ways in: command line, torchrun's environment, torch.distributed."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import ddp_lab
from ddp_lab import cli
from ddp_lab.launch import world
from ddp_lab.transport.tcp.meeting import HELLO

SCRIPT = """
import sys
import numpy as np
import ddp_lab
comm = ddp_lab.init()
print(sys.argv[1:], comm.size, comm.all_reduce(np.array([1.0])).tolist())
if "--fail" in sys.argv:
    raise ValueError("asked for")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize(("transport", "end"), [("shm", ["--"]), ("tcp", [])])
def test_a_script_runs_on_ranks_with_its_own_arguments(
    script: str, transport: str, end: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["run", script, "--ranks", "2", "--transport", transport, *end, "--lr", "0.1"])
    assert code == 0
    lines = sorted(capfd.readouterr().out.splitlines())
    assert lines == [f"[rank {r}] ['--lr', '0.1'] 2 [2.0]" for r in range(2)]


def test_a_failing_script_is_reported_with_its_line(
    script: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", script, "--ranks", "2", "--fail"]) == 1
    err = capfd.readouterr().err
    assert "ValueError: asked for" in err
    assert 'train.py", line 8' in err
    assert "Traceback" not in err


def test_a_missing_script_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "no_such.py"]) == 2
    assert capfd.readouterr().err == "run: no such script: no_such.py. Check the path.\n"


def test_ranks_of_torchrun_are_joined_by_tcp(script: str, port: str) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, script],
            env={
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": port,
                "PATH": "",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    assert [p.communicate(timeout=280)[0] for p in processes] == ["[] 3 [3.0]\n"] * 3


def test_ranks_started_by_hand_show_the_secret_of_their_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = []
    for word in ("", "of this job", "of another"):
        with socket.create_server(("127.0.0.1", 0)) as rank_0, ThreadPoolExecutor(1) as pool:
            environment = {"RANK": "1", "WORLD_SIZE": "2", "DDP_LAB_SECRET": word}
            environment["MASTER_PORT"] = str(rank_0.getsockname()[1])
            for name, value in environment.items():
                monkeypatch.setenv(name, value)
            monkeypatch.setattr(world, "_given", None)
            joining = pool.submit(ddp_lab.init)
            link, _ = rank_0.accept()
            with link:
                secrets.append(HELLO.unpack(link.recv(HELLO.size, socket.MSG_WAITALL))[1])
            assert isinstance(joining.exception(), ddp_lab.RankTimeout | OSError)
    assert secrets[0] == bytes(16)
    assert len(set(secrets)) == 3


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"RANK": "x", "WORLD_SIZE": "2"}, "does not describe a run"),
        ({"RANK": "5", "WORLD_SIZE": "2", "MASTER_PORT": "1"}, "got RANK=5, expected 0 to 1"),
    ],
)
def test_a_wrong_environment_is_refused(
    environment: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(world, "_given", None)
    with pytest.raises(ValueError, match=says):
        ddp_lab.init()


LAUNCHED = """
import sys
import torch
import torch.distributed as dist
import ddp_lab
import ddp_lab.torch_backend  # registers the backend: what ranks run does not name it

def train(comm, store):
    dist.init_process_group("ddp_lab", f"file://{store}", rank=comm.rank, world_size=comm.size)
    x = torch.ones(1)
    dist.all_reduce(x)
    dist.destroy_process_group()
    return x.item()

print(list(ddp_lab.launch(train, 2, sys.argv[1])))
"""


def test_ranks_of_a_script_have_the_backend_that_it_imports(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(LAUNCHED)
    command = [sys.executable, path, tmp_path / "store"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout == "[2.0, 2.0]\n", done.stderr


TORCH = """
    import sys
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    store, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("ddp_lab", init_method=f"file://{store}", rank=rank, world_size=size)
    ddp_lab.torch_backend.use_algorithm("all_reduce", sys.argv[4])

    x = torch.arange(5.0).reshape(5, 1).expand(5, 2) * (rank + 1)
    x = x.clone().t()  # not contiguous
    dist.all_reduce(x)
    assert x[0].tolist() == [3.0 * i for i in range(5)], x
    parts = [torch.zeros(3) for _ in range(size)]
    dist.all_gather(parts, torch.full((3,), float(rank)))
    assert [p[0].item() for p in parts] == [0, 1]
    got = torch.zeros(2)
    dist.reduce_scatter(got, [torch.full((2,), float(i)) for i in range(size)])
    assert got.tolist() == [2.0 * rank] * 2
    uneven = [torch.zeros(rank + 1) for _ in range(size)]
    dist.all_to_all(uneven, [torch.full((i + 1,), float(rank)) for i in range(size)])
    assert [u[0].item() for u in uneven] == [0, 1]
    things = [None] * size
    dist.all_gather_object(things, {"rank": rank})
    assert things[1] == {"rank": 1}
    if rank == 0:
        dist.send(torch.ones(2), 1, tag=7)
        dist.send(torch.ones(3), 1, tag=4)
        dist.send(torch.full((1,), 5.0), 1)
    else:
        later, first, any_of = torch.zeros(3), torch.zeros(2), torch.zeros(1)
        dist.recv(later, 0, tag=4)
        dist.recv(first, 0, tag=7)
        assert dist.recv(any_of) == 0 and any_of[0] == 5
        assert later.sum() + first.sum() == 5
    group = dist.new_group([1, 0])
    dist.barrier(group)
    try:
        dist.all_reduce(torch.ones(2 + rank))
    except ValueError as error:
        assert "ranks disagree on the shape" in str(error), error
    else:
        raise AssertionError("a mismatch went unseen")

    torch.manual_seed(0)
    net = torch.nn.Linear(4, 3)
    ddp = torch.nn.parallel.DistributedDataParallel(net, process_group=group)
    data = torch.randn(8, 4)
    ddp(data[rank::2]).square().mean().backward()
    alone = torch.nn.Linear(4, 3)
    alone.load_state_dict(net.state_dict())
    alone(data).square().mean().backward()
    torch.testing.assert_close(net.weight.grad, alone.weight.grad)
    dist.destroy_process_group()
    print("done")
"""


@pytest.mark.parametrize("algorithm", ["auto", "ring"])
def test_torch_distributed_runs_over_the_backend(
    python: Any, tmp_path: Path, algorithm: str
) -> None:
    ended = python(TORCH, *((tmp_path / "store", rank, 2, algorithm) for rank in range(2)))
    assert [rank.output + rank.errors for rank in ended] == ["done\n"] * 2


C10D = """
    import sys
    import numpy as np
    import torch.distributed as dist
    import ddp_lab
    from ddp_lab.transport.c10d.c10d import C10dTransport

    store, rank = sys.argv[1], int(sys.argv[2])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    transport = C10dTransport()
    comm = ddp_lab.Communicator(transport)
    for algorithm in ddp_lab.algorithms("all_reduce"):
        for count in (0, 1, 70_001):
            got = comm.all_reduce(np.arange(count) + rank, algorithm=algorithm)
            assert (got == 2 * np.arange(count) + 1).all(), (algorithm, count)
    assert comm.split(0).all_gather(rank).tolist() == [0, 1]
    try:
        comm.all_gather(np.ones(2 + rank), algorithm="ring")
    except ddp_lab.Mismatch as error:
        assert "rank 0 has shape (2,)" in str(error)
        transport.close()
        print("done")
"""


def test_collectives_run_over_a_group_that_torch_made(python: Any, tmp_path: Path) -> None:
    ranks = [(tmp_path / "store", rank) for rank in range(2)]
    ended = python(C10D, *ranks, environments=[{"GLOO_SOCKET_IFNAME": "lo"}] * 2)
    assert all(rank.output.startswith("done\n") for rank in ended), ended
