"""`python -m ddp_lab hosts`: hosts with names, addresses and links, and nothing left of them."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ddp_lab.errors import InvalidArgument
from ddp_lab.launch.hosts import Hosts
from ddp_lab.launch.hosts.command import may_lose_hosts, with_flags

Tool = Callable[..., "subprocess.Popen[str]"]
SEEN = {"NNODES": "2", "NODE_RANK": "1", "MASTER_ADDR": "10.9.0.1", "MASTER_PORT": "29500"}


def test_a_command_runs_once_a_host_which_has_a_name_and_knows_the_others(run_tool: Tool) -> None:
    words = "hostname; getent hosts host2 | cut -d' ' -f1; echo $NODE_RANK/$NNODES; exit $NODE_RANK"
    process = run_tool("2", "--", "sh", "-c", words)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1  # the first that is not 0
    for host in (1, 2):
        lines = [ln.split("] ")[1] for ln in said.splitlines() if ln.startswith(f"[host{host}]")]
        assert lines == [f"host{host}", "10.9.0.2", f"{host - 1}/2"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["x", "--", "true"], 2, "the number of hosts is wrong: got 'x'"),
        (["65", "--", "true"], 2, "got 65, expected 1 to 64"),
        (["2"], 2, "no command: got nothing, expected one after --"),
        (["2", "--", "no-such-program"], 2, "there is no such command: got 'no-such-program'"),
        (["2", "--rate", "fast", "--", "true"], 2, "this is no rate: got 'fast'"),
        (["2", "--latency", "1", "--", "true"], 2, "this is no latency: got '1'"),
        (["2", "--speed", "1", "--", "true"], 2, "this is no option: got --speed"),
        (["1", "--", "sh", "-c", "kill -9 $$"], 137, ""),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    run_tool: Tool, words: list[str], code: int, says: str
) -> None:
    process = run_tool(*words)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    assert says in errors and len(errors.splitlines()) <= 1


def test_torchrun_gets_the_flags_that_it_lacks() -> None:
    added = ["--nnodes=2", "--node-rank=1", "--master-addr=10.9.0.1", "--master-port=29500"]
    assert with_flags(["/bin/torchrun", "t.py"], SEEN) == ["/bin/torchrun", *added, "t.py"]
    module = ["python", "-m", "torch.distributed.run", "--node_rank", "5", "t.py", "--nnodes=9"]
    added.remove("--node-rank=1")
    assert with_flags(module, SEEN) == [*module[:3], *added, *module[3:]]
    assert with_flags(["python", "t.py"], SEEN) == ["python", "t.py"]
    with pytest.raises(InvalidArgument, match="--standalone is for one machine"):
        with_flags(["torchrun", "--standalone", "t.py"], SEEN)


def test_the_first_failure_ends_the_command_on_all_hosts(run_tool: Tool, tmp_path: Path) -> None:
    waiting = "trap 'echo stopped; exit 9' TERM; touch $NODE_RANK; sleep 100000 & wait"
    failing = "until [ -e 0 ] && [ -e 2 ]; do sleep 0.01; done; exit 3"
    words = f"cd {tmp_path}; if [ $NODE_RANK = 1 ]; then {failing}; else {waiting}; fi"
    process = run_tool("3", "--", "sh", "-c", words)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 3
    assert sorted(said.splitlines()) == ["[host1] stopped", "[host3] stopped"]
    assert errors == "hosts: the command has failed: it is ended on host1, host3, too.\n"


def test_torchrun_that_may_lose_hosts_goes_on_after_a_failure() -> None:
    module = ["python", "-m", "torch.distributed.run"]
    assert may_lose_hosts(["torchrun", "--nnodes", "1:2", "t.py"])
    assert may_lose_hosts([*module, "--nproc_per_node=2", "--nnodes=1:3", "t.py"])
    assert not may_lose_hosts([*module, "t.py", "--nnodes=1:3"])
    assert not may_lose_hosts(["python", "t.py", "--nnodes=1:3"])
    assert not may_lose_hosts(["torchrun", "--nnodes=2", "t.py"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_the_tool_ends(run_tool: Tool, number: int) -> None:
    process = run_tool("2", "--", "sh", "-c", "echo up; sleep 100000 & exec sleep 100000")
    assert process.stdout
    assert {process.stdout.readline() for _ in range(2)} == {"[host1] up\n", "[host2] up\n"}
    mine = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    below = [int(pid) for pid in mine] + descendants(mine)
    assert len(below) >= 8  # the switch, two first processes, two of each command, guards
    pidfds = [os.pidfd_open(pid) for pid in below]
    process.send_signal(number)
    assert process.wait(timeout=120) in (128 + number, -number)
    for pidfd in pidfds:
        assert select.select([pidfd], [], [], 120)[0]  # it has ended
        os.close(pidfd)
    process.communicate(timeout=120)


def descendants(pids: list[str]) -> list[int]:
    below = []
    for pid in pids:
        try:
            tasks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        below += [int(child) for child in tasks] + descendants(tasks)
    return below


def test_a_cable_can_be_pulled_and_a_host_switched_off(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair = hosts(2, rate="100mbit")
    echo = """
        import socket
        with socket.create_server(("10.9.0.1", 7007)) as server:
            print("listens", flush=True)
            link, _ = server.accept()
            while data := link.recv(100):
                link.sendall(data)
    """
    ask = """
        import socket, sys
        with socket.create_connection(("host1", 7007)) as link:
            link.settimeout(0.2)
            for line in sys.stdin:
                link.sendall(b"x")
                try:
                    print(link.recv(1).decode(), flush=True)
                except TimeoutError:
                    print("nothing", flush=True)
    """
    server = on(pair, 0, [script(echo)])
    server.wait_for("listens")
    asking = pair.start(
        1,
        [sys.executable, str(script(ask))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert asking.stdin and asking.stdout

    def answer() -> str:
        assert asking.stdin and asking.stdout
        asking.stdin.write("\n")
        asking.stdin.flush()
        return asking.stdout.readline().strip()

    assert answer() == "x"
    pair.cut(0)
    assert answer() == "nothing"
    pair.join(0)
    answer()  # what was lost is sent again
    pair.stop(0)
    assert server.end() == -signal.SIGKILL
    asking.stdin.close()
    assert asking.wait(timeout=120) in (0, 1)
    asking.stdout.close()
