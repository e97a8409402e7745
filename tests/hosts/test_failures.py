"""What ranks on several hosts are told when hosts are lost, or set up wrong: one line each."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from ddp_lab.launch.hosts import Hosts

pytestmark = pytest.mark.timeout(560)

REDUCE = """
    import numpy as np
    import ddp_lab

    comm = ddp_lab.init()
    x = np.ones(1000)
    while True:
        x = comm.all_reduce(x, "max")
        if comm.rank == 0:
            print("reduces", flush=True)
"""


def ranks_of(size: int, rank: int, **others: str) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(size), **others}


def last_line(text: str) -> str:
    return text.rstrip("\n").rpartition("\n")[2]


def test_a_host_whose_cable_is_pulled_is_named_on_every_rank(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    """Whatever they wait for; and each says which line of the program waited."""
    three, reduce = hosts(3), script(REDUCE)
    programs = [on(three, rank, [reduce], ranks_of(3, rank)) for rank in range(3)]
    programs[0].wait_for("reduces")
    three.cut(2)
    for program in programs[:2]:
        assert program.end() == 1
        line = last_line(program.text)
        assert re.search(r"RankLost: .* rank 2 has failed \(host host3 \(10\.9\.0\.3\)", line), line
        assert re.search(r"is silent: nothing heard for \d+\.\d s\)", line), line
        assert f"all_reduce at {reduce}:8" in line
    assert programs[2].end() == 1  # it hears nobody, and says so of one
    line = last_line(programs[2].text)
    assert re.search(r"rank [01] has failed \(host host[12] \(10\.9\.0\.[12]\)", line), line


TIMEOUT = """
    import datetime, sys, threading
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab", timeout=datetime.timedelta(seconds=3))
    if dist.get_rank() == 1:
        print("sleeps", flush=True)
        threading.Event().wait(200)
    dist.all_reduce(torch.ones(4), async_op=True).wait()  # in a thread of its own
"""


def test_nothing_is_said_of_a_rank_that_nobody_hears(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, program = hosts(2), script(TIMEOUT)
    waiting, _ = (on(pair, rank, [program], ranks_of(2, rank)) for rank in range(2))
    assert waiting.end() == 1
    line = last_line(waiting.text)
    assert "all_reduce at" in line and f"{program}:11" in line  # not a line of torch's
    assert "rank 0 waits for rank 1" in line and "rank 1 waits" not in line


CIRCLE = """
    import datetime
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab", timeout=datetime.timedelta(seconds=100))
    dist.recv(torch.ones(4), (dist.get_rank() + 1) % 3)
"""


def test_a_circle_under_torch_is_told_in_memory_and_over_tcp(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, program = hosts(2), script(CIRCLE)
    first, *others = (on(pair, rank // 2, [program], ranks_of(3, rank)) for rank in range(3))
    assert first.end() == 1
    line = last_line(first.text)
    assert "Deadlock: " in line
    for rank in range(3):
        assert f"rank {rank} waits for rank {(rank + 1) % 3} in recv at {program}:8" in line
    for other in others:
        assert other.end() == 1
        assert "rank 0 has failed (Deadlock: " in last_line(other.text)


GROUPS = """
    import datetime
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab", timeout=datetime.timedelta(seconds=100))
    rank, x = dist.get_rank(), torch.ones(4)
    two, last = dist.new_group([0, 2]), dist.new_group([1, 2])
    dist.barrier()
    if rank == 0:
        dist.recv(x, 1)
    if rank == 1:
        dist.all_reduce(x, group=last, async_op=True).wait()
    dist.all_reduce(x, group=two)
"""


def test_a_circle_over_groups_that_span_hosts_is_told(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, program = hosts(2), script(GROUPS)
    first, *others = (on(pair, rank // 2, [program], ranks_of(3, rank)) for rank in range(3))
    assert first.end() == 1
    line = last_line(first.text)
    assert "Deadlock: " in line
    assert f"rank 0 waits for rank 1 in recv at {program}:12" in line
    assert f"rank 1 waits for rank 2 in all_reduce at {program}:14" in line
    assert f"rank 2 waits for rank 0 in all_reduce at {program}:15" in line
    for other in others:
        assert other.end() == 1
        assert "rank 0 has failed (Deadlock: " in last_line(other.text)


LANES = """
    import datetime
    import torch
    import torch.distributed as dist
    import ddp_lab.torch_backend

    dist.init_process_group("ddp_lab", timeout=datetime.timedelta(seconds=100))
    if dist.get_rank() == 1:
        dist.recv(torch.ones(4), 0)
    for work in [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(2)]:
        work.wait()
"""


def test_a_circle_in_which_both_lanes_of_a_group_wait_is_told(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, program = hosts(2), script(LANES)
    first, other = (on(pair, rank, [program], ranks_of(2, rank)) for rank in range(2))
    assert first.end() == 1
    line = last_line(first.text)
    assert "Deadlock: " in line
    assert f"rank 0 waits for rank 1 in all_reduce at {program}:10" in line
    assert f"rank 1 waits for rank 0 in recv at {program}:9" in line
    assert other.end() == 1
    assert "rank 0 has failed (Deadlock: " in last_line(other.text)


INIT = """
    import ddp_lab

    ddp_lab.init(timeout_s=float(__import__("os").environ.get("WAIT_S", "60")))
    print("met", flush=True)
"""


def test_hosts_that_are_set_up_wrong_say_so_in_one_line(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, init = hosts(2), script(INIT)
    # another size: both are told
    zero = on(pair, 0, [init], ranks_of(2, 0))
    one = on(pair, 1, [init], ranks_of(3, 1))
    assert zero.end() == one.end() == 1
    assert "ranks disagree on the number of ranks: rank 1 has 3, this one 2" in last_line(zero.text)
    # an address where no rank 0 is, and one that no host has
    wrong = [
        on(pair, 1, [init], ranks_of(2, 1, MASTER_ADDR=address, WAIT_S="1"))
        for address in ("10.9.0.2", "10.9.0.77", "nowhere.invalid")
    ]
    for program in wrong:
        assert program.end() == 1
        assert "MASTER_ADDR" in last_line(program.text), program.text
    zero = on(pair, 1, [init], ranks_of(2, 0))  # rank 0 on the machine that it is not
    assert zero.end() == 1
    assert "connect: cannot listen at 10.9.0.1:29500" in last_line(zero.text)
    # a port that somebody has
    holder = "import socket; s = socket.create_server(('', 29500)); print('holds', flush=True)"
    taken = on(pair, 0, ["-c", f"{holder}; s.accept()"])
    taken.wait_for("holds")
    zero = on(pair, 0, [init], ranks_of(2, 0))
    assert zero.end() == 1
    assert "10.9.0.1:29500: in use by another program" in last_line(zero.text)


STRANGER = """
    import socket, struct, sys
    while True:
        try:
            links = [socket.create_connection(("host1", 29500)) for _ in range(4)]
            break
        except OSError:
            continue
    links[1].sendall(b"GET / HTTP/1.1")
    links[2].sendall(struct.pack("<4q", 0, 0, 1 << 40, 0))
    print("knocked", flush=True)
    sys.stdin.read()
"""


def test_a_stranger_on_another_host_keeps_nobody_waiting(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    three, init = hosts(3), script(INIT)
    zero = on(three, 0, [init], ranks_of(2, 0))
    on(three, 2, [script(STRANGER)]).wait_for("knocked")
    one = on(three, 1, [init], ranks_of(2, 1))
    assert zero.end() == one.end() == 0, zero.text
    assert zero.text.count("a stranger was turned away: 10.9.0.3:") >= 2
