"""Ranks on two hosts: two network namespaces that only a cable joins."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TWO_HOSTS = Path(__file__).with_name("two_hosts.sh")
COUNT = 100_000
PROGRAM = f"""
import os
import numpy as np
import ddp_lab

comm = ddp_lab.init()
x = np.arange({COUNT}.0) + comm.rank
for algorithm in ("ring", "tree", "hierarchical"):
    got = comm.all_reduce(x, algorithm=algorithm)
    np.testing.assert_array_equal(got, 4 * np.arange({COUNT}.0) + 6)
hosts = comm.all_gather(np.array([os.stat("/proc/self/ns/net").st_ino]))
neighbours = comm.split(int(hosts[comm.rank, 0] == hosts[0, 0]))
if comm.rank == 0:
    print(len(np.unique(hosts)), neighbours.size, flush=True)
"""


@pytest.mark.netns
def test_ranks_on_two_hosts_compute_together(in_namespace: list[str]) -> None:
    found = subprocess.run(
        [*in_namespace, str(TWO_HOSTS), sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    line, *statistics = found.stdout.splitlines()
    assert line == "2 2"  # hosts, ranks on each
    # a ring crosses the cable with 2(W-1)/W of the bytes each way
    cable = json.loads("".join(statistics))[0]["stats64"]
    assert cable["rx"]["bytes"] > 1.5 * 8 * COUNT
    assert cable["tx"]["bytes"] > 1.5 * 8 * COUNT
