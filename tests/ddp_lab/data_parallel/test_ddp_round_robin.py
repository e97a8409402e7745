"""Groups that take turns: the same averages, and really in turn."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

import ddp_lab
import minitorch
from ddp_lab.data_parallel import DistributedDataParallel, RoundRobin

SMALL_MB = 0.0005


def counted(group: Any, counts: Counter[int], number: int) -> Any:
    """Have `group` note its all-reduces."""
    inner = group.all_reduce

    def all_reduce(*args: Any, **kwargs: Any) -> Any:
        counts[number] += 1
        return inner(*args, **kwargs)

    group.all_reduce = all_reduce
    return group


@pytest.mark.parametrize("count", [1, 2, 3])
def test_ranks_over_several_splits_train_as_one_process(training: Any, count: int) -> None:
    def wrap(module: nn.Module, comm: Any) -> Any:
        groups = RoundRobin([comm, *(comm.split(0) for _ in range(count - 1))])
        return DistributedDataParallel(module, process_group=groups, bucket_cap_mb=SMALL_MB)

    for got in training.apart(wrap):
        for a, b in zip(got, training.alone(), strict=True):
            torch.testing.assert_close(a, b)


def test_buckets_go_to_the_groups_in_turn() -> None:
    def run(comm: Any) -> list[int]:
        module = nn.Sequential(*(nn.Linear(20, 20, bias=False) for _ in range(4)))
        model = DistributedDataParallel(
            module, RoundRobin([comm, comm.split(0)]), bucket_cap_mb=SMALL_MB
        )
        counts: Counter[int] = Counter()
        for number, group in enumerate(model.group.groups):
            counted(group, counts, number)
        for _ in range(3):
            model(torch.ones(1, 20)).sum().backward()
        return [counts[0], counts[1]]

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [[6, 6]] * 2


def test_over_gloo_the_bits_are_those_of_one_group(gloo: Callable[..., Any]) -> None:
    def run(comm: Any) -> list[bool]:
        torch.manual_seed(0)
        module = nn.Sequential(*(nn.Linear(12, 12) for _ in range(4)))
        groups = RoundRobin([dist.new_group(), dist.new_group()])
        grads = []
        for group in (None, groups):
            model = DistributedDataParallel(module, process_group=group, bucket_cap_mb=SMALL_MB)
            for _ in range(3):  # rebuilt buckets, too
                model.zero_grad()
                model(torch.full((2, 12), 1.0 + comm.rank)).sum().backward()
            grads.append([p.grad.clone() for p in module.parameters()])
            model._remove_autograd_hooks()
        return [torch.equal(a, b) for a, b in zip(*grads, strict=True)]

    assert list(gloo(run, 2)) == [[True] * 8] * 2


def test_over_shared_memory_splits_reduce_each_others_buffers() -> None:
    def run(comm: Any) -> list[float]:
        module = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(6)))
        model = DistributedDataParallel(
            module, RoundRobin([comm.split(0), comm.split(0)]), bucket_cap_mb=0.01
        )
        for p in module.parameters():
            p.data.copy_(torch.eye(64))
        for _ in range(3):
            model.zero_grad()
            model(torch.full((1, 64), 1.0 + comm.rank)).sum().backward()
        return [p.grad.unique().item() for p in module.parameters()]

    assert list(ddp_lab.launch(run, 2)) == [[1.5] * 6] * 2


def test_minitorch_modules_take_turns_too() -> None:
    def run(comm: Any) -> list[Any]:
        module = minitorch.nn.Sequential(*(minitorch.nn.Linear(8, 8) for _ in range(3)))
        groups = RoundRobin([comm, comm.split(0)])
        model = DistributedDataParallel(module, process_group=groups, bucket_cap_mb=0.0001)
        x = np.full((1, 8), 1.0 + comm.rank, np.float32)
        for _ in range(2):
            for param in model.parameters():
                param.grad = None
            model(minitorch.tensor(x)).sum().backward()
        return [p.grad.numpy().copy() for p in model.parameters()]

    one, other = ddp_lab.launch(run, 2, transport="threads")
    assert all(np.array_equal(a, b) and a.any() for a, b in zip(one, other, strict=True))


def test_uneven_inputs_over_splits() -> None:
    def run(comm: Any) -> float:
        module = nn.Linear(1, 1, bias=False)
        model = DistributedDataParallel(module, RoundRobin([comm, comm.split(0)]))
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        with model.join():
            for _ in range(2 + comm.rank):
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                optimizer.step()
        return module.weight.item()

    one, other = ddp_lab.launch(run, 2, transport="threads")
    assert one == other


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ([], ValueError, "nothing to take turns: got no groups"),
        ([1, "x"], TypeError, "different kinds: got int, str, expected one"),
    ],
)
def test_what_cannot_take_turns_is_refused(groups: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        RoundRobin(groups)


def test_groups_of_different_ranks_are_refused() -> None:
    def run(comm: Any) -> None:
        alone = comm.split(comm.rank)
        with pytest.raises(ValueError, match="of different ranks"):
            DistributedDataParallel(nn.Linear(1, 1), RoundRobin([comm, alone]))

    ddp_lab.launch(run, 2, transport="threads")
