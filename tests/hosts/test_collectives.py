"""Ranks on two hosts, and what of their messages goes over the cable."""

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

from ddp_lab.launch.hosts import Hosts
from ddp_lab.torch_backend.rendezvous import core_of

COUNT = 100_000
PROGRAM = f"""
    from pathlib import Path
    import numpy as np
    import ddp_lab

    comm = ddp_lab.init()
    x = np.arange({COUNT}.0) + comm.rank

    def sent():
        lines = Path("/proc/self/net/dev").read_text().splitlines()
        return int(next(line for line in lines if "eth0" in line).split()[9])

    for algorithm in ("ring", "tree", "hierarchical"):
        before = sent()
        comm.barrier()
        got = comm.all_reduce(x, algorithm=algorithm)
        np.testing.assert_array_equal(got, 4 * np.arange({COUNT}.0) + 6)
        comm.barrier()
        if comm.rank == 0:
            print(algorithm, sent() - before, flush=True)
    comm.barrier()
"""


def test_ranks_on_two_hosts_compute_together(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    pair, program = hosts(2), script(PROGRAM)
    ranks = [
        on(pair, rank // 2, [program], {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)
    ]
    for rank in ranks:
        assert rank.end() == 0, rank.text
    sent = {name: int(n_bytes) for name, n_bytes in map(str.split, ranks[0].lines[:3])}
    whole = 8 * COUNT
    # a ring sends on 2(W-1)/W of the bytes from one host to the next
    assert 1.5 * whole < sent["ring"] < 1.65 * whole
    assert sent["hierarchical"] > 0.9 * whole


def test_groups_know_the_link_between_their_hosts_and_ranks_by_their_numbers(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    program = script("""
        import torch
        import torch.distributed as dist
        import ddp_lab.torch_backend

        dist.init_process_group("ddp_lab")
        world, group = dist.group.WORLD, dist.new_group([3, 0])
        total = torch.ones(100_000) * dist.get_rank()
        if dist.get_rank() in (0, 3):
            dist.all_reduce(total, group=group)
            print(group.comm.link == world.comm.link, total.unique().tolist(), flush=True)
        dist.barrier()
        try:
            dist.all_reduce(torch.ones(2 + dist.get_rank() // 2))
        except (ValueError, RuntimeError) as error:
            print(error, flush=True)
    """)
    pair = hosts(2)
    ranks = [
        on(pair, rank // 2, [program], {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)
    ]
    for rank in ranks:
        assert rank.end() == 0, rank.text
    assert "True [3.0]" in ranks[0].lines and "True [3.0]" in ranks[3].lines
    facts = re.findall(r"rank (\d) has shape \((\d),", "".join(rank.text for rank in ranks))
    assert facts and all((int(number) > 1) is (size == "3") for number, size in facts)


def test_hosts_that_are_one_machine_share_its_cores_evenly(
    hosts: Callable[..., Hosts], on: Any, script: Any
) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        pytest.skip("needs two cores")
    program = script(f"""
        import os
        import threading
        import torch.distributed as dist
        import ddp_lab.torch_backend

        os.sched_setaffinity(0, {cores})
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        dist.init_process_group("ddp_lab")
        threads = map(int, os.listdir("/proc/self/task"))
        print(set().union(*map(os.sched_getaffinity, threads)), flush=True)
        dist.barrier()
    """)
    pair = hosts(2)
    ranks = [
        on(pair, rank // 2, [program], {"RANK": str(rank), "WORLD_SIZE": "4"}) for rank in range(4)
    ]
    for rank in ranks:
        assert rank.end() == 0, rank.text
    assert [rank.lines[0] for rank in ranks] == [f"{{{cores[rank % 2]}}}" for rank in range(4)]


@pytest.mark.parametrize(
    ("hosts", "kernels", "cores", "wanted"),
    [
        (((0, 1), (2, 3)), "aaaa", [4, 6], [4, 6, 4, 6]),
        (((0, 2), (1, 3)), "aaaa", [4, 6], [4, 4, 6, 6]),
        (((0, 1), (2, 3)), "aabb", [4, 6], [None] * 4),  # two machines
        (((0, 1, 2, 3),), "aaaa", [4, 6], [None] * 4),  # one host has all its cores
        (((0,), (1,)), "aa", [4, 6], [None] * 2),  # its helpers may use the other core
        (((0, 1, 2), (3, 4, 5)), "aaaaaa", [4, 6], [None] * 6),  # not an even share
        (((0, 1), (2, 3)), "aaaa", [1, 3, 5, 7], [None] * 4),  # cores enough
    ],
)
def test_the_core_of_a_rank(
    hosts: tuple[tuple[int, ...], ...], kernels: str, cores: list[int], wanted: list[int | None]
) -> None:
    assert [core_of(rank, hosts, kernels, cores) for rank in range(len(kernels))] == wanted
