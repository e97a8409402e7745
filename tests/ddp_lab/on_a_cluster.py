"""Ranks on the workers of a Dask cluster: two hosts, which are two addresses of this machine.

`test_launch_on_a_cluster.py` runs these tests in a process of their own.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ddp_lab import InvalidArgument, RankFailed, RankTimeout, launch

distributed = pytest.importorskip("distributed")

HOSTS = ("127.0.0.1", "127.0.0.2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    if sys.platform != "linux":
        pytest.skip("only Linux has a second address of its own")
    workers = {
        f"{host}-{k}": {
            "cls": distributed.Nanny,
            "options": {"host": host, "nthreads": 1, "dashboard": False},
        }
        for host in HOSTS
        for k in range(2)
    }
    scheduler = {
        "cls": distributed.Scheduler,
        "options": {"host": HOSTS[0], "port": 0, "dashboard_address": None},
    }
    with distributed.SpecCluster(workers=workers, scheduler=scheduler) as started:
        yield started.scheduler_address


def add_up(comm, offset: float) -> tuple:
    print(f"I am {comm.rank}")
    x = comm.all_reduce(np.full(50_000, comm.rank + offset))
    return comm.rank, comm.hosts, float(x[0]), comm.link is not None


def test_ranks_of_a_host_share_memory_and_hosts_are_joined(
    cluster: str, capsys: pytest.CaptureFixture[str]
) -> None:
    results = launch(add_up, 4, 1.0, cluster=cluster, record=True)
    assert list(results) == [(rank, ((0, 1), (2, 3)), 10.0, True) for rank in range(4)]
    assert sorted(capsys.readouterr().out.splitlines()) == [
        f"[rank {r}] I am {r}" for r in range(4)
    ]
    whole = 8 * 50_000
    across = [m for m in results.trace.messages if {m.src, m.dst} in ({0, 2}, {1, 3})]
    assert sum(m.n_bytes for m in across) == 2 * whole  # each half of it, both ways


def test_one_host_is_enough_where_it_has_the_threads(cluster: str) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        assert launch(add_up, 2, 0.0, cluster=client)[1][1] == ((0, 1),)


def fail_on_another_host(comm) -> None:
    if comm.rank == 2:
        raise KeyError("lost")
    comm.barrier()


def test_the_first_failure_comes_with_its_line(cluster: str) -> None:
    with pytest.raises(RankFailed, match="rank 2 of 4 failed: KeyError: 'lost'") as caught:
        launch(fail_on_another_host, 4, cluster=cluster)
    assert 'raise KeyError("lost")' in caught.value.traceback
    assert caught.value.rank == 2


def hang(comm, file: str = "") -> None:
    if comm.rank == 3:
        if file:
            Path(file).write_text(str(os.getpid()))
        time.sleep(10_000)
    comm.barrier()


def test_a_run_that_does_not_end_says_who_waits_for_whom(cluster: str) -> None:
    with pytest.raises(RankTimeout, match=r"Rank 3 is busy at .*on_a_cluster.py:\d+"):
        launch(hang, 4, cluster=cluster, timeout_s=1.0)


def gone(pid: int) -> bool:
    """Wait for the end of a process; a hang here is a failure."""
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    return True


def test_a_worker_that_dies_is_named_with_its_host_and_nothing_is_left(
    cluster: str, tmp_path: Path
) -> None:
    file = tmp_path / "pid"

    def kill_a_worker() -> None:
        while not file.exists() or not file.read_text():
            time.sleep(0.01)
        with distributed.Client(cluster, set_as_default=False) as client:
            pids = client.run(os.getpid)
        os.kill(max((w, p) for w, p in pids.items() if HOSTS[1] in w)[1], signal.SIGKILL)

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    with pytest.raises(RankFailed, match=r"on host 127.0.0.2: its worker tcp://127.0.0.2:\d+ is"):
        launch(hang, 4, str(file), cluster=cluster)
    killer.join()
    assert gone(int(file.read_text()))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cluster": 5}, "no cluster: got 5, expected a scheduler's address"),
        ({"cluster": "tcp://x", "hosts": 2}, "a cluster has hosts and links of its own"),
        ({"cluster": "tcp://x", "transport": "threads"}, "got transport='threads'"),
        ({"cluster": "no address at all"}, "no Dask scheduler answers at 'no address at all'"),
    ],
)
def test_what_is_no_cluster_is_refused(options: dict, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        launch(add_up, 4, 0.0, **options)


def test_too_few_threads_are_counted(cluster: str) -> None:
    with pytest.raises(InvalidArgument, match=r"got \d on \d workers, expected 9"):
        launch(add_up, 9, 0.0, cluster=cluster)
