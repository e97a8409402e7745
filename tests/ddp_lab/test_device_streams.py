"""Ranks on a device whose streams are late and out of order: every wait is there, and is needed.

Each path of tensors between ranks runs over the stand-in `tests/standins/late_device.py`, which
notes a fault where two streams, or a stream and the host, touch memory and nothing orders them.
Then each wait that the packages ask for on that path is left out in turn, which has to be seen.
"""

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import ddp_lab
from ddp_lab.data_parallel.hooks.comm_hooks import PowerSGDState, fp16_compress_hook, power_sgd_hook
from ddp_lab.device_array import beside
from ddp_lab.transport.c10d.device import DeviceC10dTransport
from ddp_lab.transport.device import DeviceWorld
from ddp_lab.transport.device_ipc import IpcTransport
from ddp_lab.transport.threads import ThreadWorld
from tests.ddp_lab import test_device
from tests.standins.late_device import installed
from tests.standins.late_group import Meeting, registered
from tests.standins.stream_machine import Machine, Site

LATE = "late"
RANKS = 3


@pytest.fixture
def machine() -> Machine:
    machine = installed()
    machine.start(0)
    machine.sites.clear()
    return machine


# ── messages and collectives ────────────────────────────────────────────────────────────────────


def use(comm: Any, gate: threading.Event) -> tuple[list[Any], Any]:
    """Send, receive and reduce, at once and later, and use memory while others want more."""
    mixed = test_device.mix(comm, LATE)
    x = torch.full((3,), comm.rank + 1.0, device=LATE)
    total = sum(range(1, comm.size + 1))
    reduced, again = (comm.all_reduce(x * k, async_op=True) for k in (1, 2))
    assert (again.wait() + 1).tolist() == [2.0 * total + 1] * 3
    assert reduced.wait().tolist() == [total] * 3
    first = comm.all_reduce(x, async_op=True).wait()
    if comm.rank == 1:
        gate.wait(60)
    later = comm.all_gather(x, async_op=True)  # which cannot end before the others come
    kept = first * 2
    del first  # while `kept` may not have been computed yet
    if comm.rank == 0:
        gate.set()
    later.wait()
    comm.barrier()
    return mixed, comm.all_reduce(kept)


def check(results: Any) -> None:
    test_device.check_mix([mixed for mixed, _ in results])
    total = 2.0 * sum(range(1, RANKS + 1)) * RANKS
    assert [x.tolist() for _, x in results] == [[total] * 3] * RANKS


def on_virtual_ranks() -> None:
    world = DeviceWorld(RANKS, "late:0")
    check(ddp_lab.launch(use, RANKS, threading.Event(), transport=world, timeout_s=60))


def over_handles(comm: Any, work: Any, *args: Any) -> Any:
    ends = IpcTransport(comm._transport, torch.device(LATE))
    result = work(ddp_lab.Communicator(ends), *args)
    torch.get_device_module(LATE).current_stream().synchronize()  # as what leaves a process
    return result


def by_handles() -> None:
    args = use, threading.Event()
    world = ThreadWorld(RANKS)
    check(ddp_lab.launch(over_handles, RANKS, *args, transport=world, timeout_s=60))


def faults_without(machine: Machine, site: Site, seed: int, path: Callable[[], None]) -> list[str]:
    """Return what was noted, or raised, when the wait at `site` did nothing."""
    machine.start(seed, ignored=site)
    try:
        path()
    except (AssertionError, ddp_lab.RankFailed) as error:
        return [*machine.faults, str(error)]
    return machine.faults


def check_path(machine: Machine, path: Callable[[], None], at_least: int) -> None:
    for seed in range(3):
        machine.start(seed)
        path()
        assert not machine.faults
    assert len(machine.sites) >= at_least
    for site in list(machine.sites):
        seen = any(faults_without(machine, site, seed, path) for seed in range(3))
        assert seen, f"not needed: {site}"


@pytest.mark.parametrize(("path", "waits"), [(on_virtual_ranks, 6), (by_handles, 5)])
def test_every_wait_between_ranks_is_there_and_is_needed(
    path: Callable[[], None], waits: int, machine: Machine
) -> None:
    check_path(machine, path, waits)


def test_virtual_ranks_on_one_of_several_devices_add_up_there(machine: Machine) -> None:
    def added(comm: Any) -> torch.Tensor:
        return comm.all_reduce(torch.full((3,), comm.rank + 1.0, device="late:0"))

    results = ddp_lab.launch(added, 2, transport=DeviceWorld(2, "late:0"), timeout_s=60)
    assert [(x.tolist(), str(x.device)) for x in results] == [([3.0] * 3, "late:0")] * 2
    assert not machine.faults


def test_a_job_for_another_thread_comes_after_what_this_one_has_queued(machine: Machine) -> None:
    x = torch.full((3,), 2.0, device=LATE)
    job = beside(torch.device(LATE), lambda: x * 2)
    with ThreadPoolExecutor(1) as pool:
        assert (pool.submit(job).result() + 1).tolist() == [5.0] * 3
    assert not machine.faults


def test_every_collective_waits_for_what_it_reads(machine: Machine) -> None:
    world = DeviceWorld(RANKS, LATE)
    for faults in ddp_lab.launch(test_device.check_all, RANKS, LATE, transport=world, timeout_s=60):
        assert not faults
    assert not machine.faults


# ── NCCL's manner, in processes ─────────────────────────────────────────────────────────────────


def joined(comm: Any, folder: str, sites: list[Site | None]) -> list[Any]:
    """Return what was noted without the wait at each site, and what waits there were."""
    registered()
    machine = installed()
    store = dist.FileStore(f"{folder}/store", comm.size)
    dist.init_process_group("late_ccl", store=store, rank=comm.rank, world_size=comm.size)
    transport = DeviceC10dTransport(torch.device(LATE))
    there = ddp_lab.Communicator(transport)
    noted = []
    for site in sites:
        machine.start(0, ignored=site)
        there.barrier()
        x = torch.full((3,), comm.rank + 1.0, device=LATE)
        (there.all_reduce(x * 2, async_op=True).wait() * 2).tolist()
        first = there.all_reduce(x, async_op=True).wait()
        if comm.rank == 1:
            comm.recv(0)
        later = there.all_gather(x, async_op=True)  # as in `use`
        kept = first * 2
        del first
        if comm.rank == 0:
            comm.send(np.ones(1), 1)
        later.wait()
        kept.tolist()
        there.send(x, 1 - comm.rank)
        last = there.irecv(1 - comm.rank)
        transport.close()
        noted.append([*machine.faults, *(n for n in machine.undone() if n == "send")])
        machine.ignored = None
        machine.synchronize()
        last.wait().tolist()
    transport.leave()
    dist.destroy_process_group()
    return [*noted, list(machine.sites)]


def launched(sites: list[Site | None]) -> list[Any]:
    with tempfile.TemporaryDirectory() as folder:
        return list(ddp_lab.launch(joined, 2, folder, sites, transport="shm", timeout_s=60))


def test_processes_over_a_late_backend_wait_where_they_must() -> None:
    (noted, sites), _ = launched([None])
    assert not noted
    (took_in,) = [site for site in sites if site[1].endswith("._wait")]
    rest = [site for site in sites if site != took_in]
    assert len(rest) >= 5
    by_rank = launched(rest)
    for site, *noted in zip(rest, *by_rank, strict=False):
        assert any(noted), f"not needed: {site}"
    with pytest.raises(ddp_lab.RankFailed):  # a head that has not come says nothing
        launched([took_in])


# ── gradient buckets ────────────────────────────────────────────────────────────────────────────


def net() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
    )


def trained(model: torch.nn.Module, device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        x = torch.randn(8, 6, generator=generator).to(device)
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu() for p in model.parameters()]


def in_parallel(comm: Any, groups: Any, states: Any, hook: str, options: Any) -> Any:
    with torch.autograd.set_multithreading_enabled(False):
        model = net()
        model.load_state_dict(states)
        model = ddp_lab.DistributedDataParallel(
            model.to(LATE), process_group=groups[comm.rank], bucket_cap_mb=0.0001, **options
        )
        if hook == "half":
            model.register_comm_hook(model.group, fp16_compress_hook)
        if hook == "low rank":
            state = PowerSGDState(model.group, rank=1)
            model.register_comm_hook(state, power_sgd_hook)
        return trained(model, LATE)


BUCKETS: list[tuple[str, dict[str, bool], float]] = [
    ("", {}, 0.0),
    ("", {"gradient_as_bucket_view": True}, 0.0),
    ("", {"find_unused_parameters": True}, 0.0),
    ("half", {}, 1e-3),
    ("low rank", {}, 1.0),
]


@pytest.mark.parametrize(("hook", "options", "apart"), BUCKETS)
def test_every_wait_of_gradient_buckets_is_there_and_is_needed(
    hook: str, options: dict[str, bool], apart: float, machine: Machine
) -> None:
    torch.manual_seed(0)
    states = net().state_dict()
    alone = net()
    alone.load_state_dict(states)
    want = trained(alone, "cpu")

    def path() -> None:
        args = Meeting(2).ranks(), states, hook, options
        ranks = ddp_lab.launch(in_parallel, 2, *args, transport="threads", timeout_s=60)
        for got in ranks:
            for a, b in zip(got, want, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=max(apart, 1e-5))

    check_path(machine, path, 3)


@pytest.mark.parametrize("seed", range(3))
def test_ddp_on_virtual_ranks_waits_for_its_buckets(seed: int, machine: Machine) -> None:
    machine.start(seed)
    states = test_device.net().state_dict()
    args = LATE, states
    world = DeviceWorld(2, LATE)
    first, second = ddp_lab.launch(test_device.train, 2, *args, transport=world, timeout_s=60)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert not machine.faults
