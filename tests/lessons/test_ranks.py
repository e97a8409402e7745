"""What labs on ranks take; no times are asserted, only whose they are."""

from typing import Any

import numpy as np
import pytest
import torch

from ddp_lab import Communicator, Link, launch
from lessons.flat_network import SIZE, loss_and_gradient
from lessons.ranks.compressing import Compressor
from lessons.ranks.distribution import (
    COPIES,
    EVERY_STEP,
    IN_PARTS,
    rows_of,
    share_tensor,
    shared_tensor,
    train_as,
)
from lessons.ranks.pretended_device import OnDevice
from lessons.ranks.rank_timing import broadcast_times, ranks_in_turns
from lessons.ranks.readiness import launches, ready_times
from lessons.ranks.steps import PARTS, ends, length, slower_of
from lessons.ranks.wires import Alone, Noted, own_link, time_groups
from lessons.timing import best_seconds


def once(comm: Any, x: Any) -> Any:
    return comm.all_reduce(getattr(x, "tensor", x))


def twice(comm: Any, x: Any) -> Any:
    assert float(once(comm, x).reshape(-1)[0]) == comm.size
    return once(comm, x)


def test_each_run_has_a_time_for_each_size_and_gloo_too() -> None:
    found = ranks_in_turns(2, {"once": once, "twice": twice}, [64, 4096, 64], repeats=2, gloo=True)
    assert list(found) == ["once", "twice", "gloo"]
    assert all(times.shape == (3,) and np.isfinite(times).all() for times in found.values())


def test_arrays_lie_on_the_device_that_was_asked_for() -> None:
    found = ranks_in_turns(2, {"twice": twice}, [64], repeats=1, device="cpu")
    assert np.isfinite(found["twice"]).all()


def lies_on_two_hosts(comm: Any, x: Any) -> Any:
    assert comm.hosts == ((0,), (1,)) and comm.link == Link(1e-4, 0.0)
    return once(comm, x)


def test_ranks_lie_on_the_hosts_that_were_asked_for() -> None:
    run = {"far": lies_on_two_hosts}
    found = ranks_in_turns(2, run, [64], repeats=1, hosts=2, link=Link(1e-4, 0.0))
    assert np.isfinite(found["far"]).all()


def test_a_time_is_taken_after_what_comes_before_it() -> None:
    said: list[str] = []
    best_seconds(lambda: said.append("run"), 2, before=lambda: said.append("before"))
    assert said == ["before", "run"] * 2


def test_what_was_under_way_and_waited_for_is_noted() -> None:
    noted = Noted(Alone())
    x = np.ones(3)
    handles = [noted.all_reduce(x, "sum", "ring", async_op=True) for _ in range(3)]
    assert [handle.wait() is x for handle in handles] == [True] * 3
    assert len(noted.trips) == 3 and noted.busy > 0 and noted.blocked > 0
    ends = [moment for trip in noted.trips for moment in trip]
    assert ends == sorted(ends)  # one after the other
    noted.forget()
    assert (noted.busy, noted.blocked, noted.trips) == (0.0, 0.0, [])


def test_who_is_alone_may_start_what_it_waits_for_later() -> None:
    x = np.ones(3)
    assert Alone().all_reduce(x, async_op=True).wait() is x
    assert Alone().all_gather(x, async_op=True).wait().shape == (1, 3)


def test_a_matrix_is_compressed_as_one_flat_gradient() -> None:
    shapes = []

    def fp16(comm: Any, flat: Any) -> Any:
        shapes.append(tuple(flat.shape))
        return flat / comm.size

    matrix = torch.ones(2, 3).T
    average = Compressor(fp16, fp16, fp16, "fp16", [matrix]).average(Alone(), 0, matrix)
    assert (shapes, average.shape) == ([(6,)], (3, 2))


def test_groups_are_timed_by_how_many_of_them_take_part() -> None:
    def first(groups: list[Any]) -> Any:
        return groups[0]

    def times(comm: Any) -> list[float]:
        return time_groups(comm, 64, (1, 2), first)

    assert all(len(rank) == 2 and min(rank) > 0 for rank in launch(times, 2))


def test_links_of_their_own_do_not_wait_for_each_other() -> None:
    links = [own_link(60_000, 8), own_link(0.1, 8)]

    def receive(comm: Any) -> bool:
        slow, fast = (Communicator(link.transport(comm.rank)) for link in links)
        if comm.rank == 0:
            slow.send(np.ones(1), 1)
            fast.send(np.ones(1), 1)
            return True
        late = slow.irecv(0)
        return bool(fast.recv(0) == 1) and not late.test()

    def times(comm: Any) -> list[float]:
        groups = [Communicator(link.transport(comm.rank)) for link in links[1:]]
        return time_groups(comm, 64, (1,), lambda groups: groups[0], groups)

    assert list(launch(receive, 2, transport="threads")) == [True, True]
    assert all(rank[0] > 0 for rank in launch(times, 2, transport="threads"))


def test_gradients_are_ready_from_the_last_layer_to_the_first() -> None:
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4, bias=False) for _ in range(3)))
    before: list[int] = []
    *ready, whole = ready_times(
        list(layers.parameters()),
        lambda: layers(torch.ones(2, 4)).sum(),
        repeats=2,
        before=lambda: before.append(1),
    )
    assert ready == sorted(ready, reverse=True) and whole >= max(ready) and len(before) == 2
    assert list(launches([[2], [0, 1]], ready)) == [ready[2], ready[0]]


def test_a_step_is_as_long_as_its_parts_without_what_is_hidden() -> None:
    fast = dict.fromkeys(PARTS, 1.0)
    assert length(fast) == 4.0
    assert ends([fast], [5.0]) == [8.0]


def test_the_fastest_step_is_one_that_both_ranks_took() -> None:
    """Turn 1 ends first on either rank, and on each of the two some turn was faster."""
    fast, middle, slow = (dict.fromkeys(PARTS, seconds) for seconds in (1.0, 2.0, 3.0))
    ranks = [[[fast, middle, slow]], [[slow, middle, fast]]]
    assert slower_of(ranks, unit_s=0.5) == [dict.fromkeys(PARTS, 4.0)]


def test_a_gradient_by_hand_is_the_slope_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    params = rng.normal(size=SIZE) / 8
    x, y, along = rng.normal(size=(5, 64)), np.arange(5), rng.normal(size=SIZE)
    _, gradient = loss_and_gradient(params, x, y)
    high, low = (loss_and_gradient(params + eps * along, x, y)[0] for eps in (1e-6, -1e-6))
    assert np.isclose(gradient @ along, (high - low) / 2e-6, rtol=1e-6)


def test_ranks_that_average_in_each_step_train_as_one_process_on_all_the_data() -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=rng)
    data = x, (x.sum(1) > 0).long()

    def average(comm: Any, params: Any) -> None:
        for param in params:
            param.grad.copy_(comm.all_reduce(param.grad, op="avg"))

    def make() -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2)

    def trained(option: str, ranks: int) -> list[Any]:
        return list(launch(train_as, ranks, option, make, data, data, average))

    (held, _, right), *_ = trained(COPIES[1], 1)
    assert held == 48 * 3 * 4 + 8 * 4 and right > 0.8  # a fold of five is left out
    (whole,), pair = trained(COPIES[0], 1), trained(EVERY_STEP, 2)
    assert [half[2] for half in pair] == [whole[2]] * 2


@pytest.mark.parametrize("option", [*COPIES, *IN_PARTS, EVERY_STEP])
def test_a_rank_trains_on_its_own_rows(option: str) -> None:
    labels = torch.tensor([1, 0] * 10)
    rows = [rows_of(option, labels, rank, 2) for rank in (0, 1)]
    assert set(rows[0]) | set(rows[1]) == set(range(20))
    assert (len(set(rows[0]) & set(rows[1])) == 0) is option.startswith("parts")
    if option == IN_PARTS[1]:
        assert set(labels[rows[0]].tolist()) == {0}


def test_what_a_rank_writes_to_a_shared_tensor_is_seen_here() -> None:
    tensor = torch.zeros(2, 3)
    handle = share_tensor(tensor)

    def write(comm: Any) -> None:
        shared_tensor(handle)[comm.rank] = comm.rank + 1

    launch(write, 2)
    assert tensor.tolist() == [[1.0] * 3, [2.0] * 3]


def test_a_stage_on_a_pretended_device_computes_what_it_computes_elsewhere() -> None:
    stage = torch.nn.Linear(3, 2)
    x = torch.ones(1, 3, requires_grad=True)
    OnDevice(stage, 0.0, 0.0)(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad[0], stage.weight.sum(0))


def started(comm: Any, x: Any) -> Any:
    """Broadcast by sends that are started, and a receive that is posted."""
    if comm.rank:
        return comm.irecv(0).wait()
    for work in [comm.isend(x, rank) for rank in range(1, comm.size)]:
        work.wait()
    return x


def in_pairs(comm: Any, x: Any) -> Any:
    """Pass an array from each of two ranks to the other."""
    if comm.rank == 0:
        comm.send(x, 1)
    else:
        x = comm.recv(0)
    return comm.sendrecv(x, 1 - comm.rank, 1 - comm.rank)


def test_a_broadcast_on_a_device_may_start_its_sends_and_exchange() -> None:
    best, alpha, _ = broadcast_times({"started": started, "in pairs": in_pairs}, 2, [64], "cpu")
    assert {name: len(seconds) for name, seconds in best.items()} == {"started": 1, "in pairs": 1}
    assert alpha > 0
