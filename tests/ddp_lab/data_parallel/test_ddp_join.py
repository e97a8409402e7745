"""Uneven inputs over a Communicator; over gloo torch's own tests judge."""

from typing import Any

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.data_parallel.array_ddp import ArrayDistributedDataParallel
from ddp_lab.data_parallel.errors import InputsExhausted

CLASSES = {
    "torch": lambda module, comm: DistributedDataParallel(module, process_group=comm),
    "array": ArrayDistributedDataParallel,
}


def train(comm: Any, way: str, counts: list[int], **options: Any) -> tuple[list[float], float]:
    """Return the gradients this rank saw, and its final weight; lr 1, gradient = input."""
    module = nn.Linear(1, 1, bias=False)
    module.weight.data.fill_(0.0)
    module.register_buffer("steps", torch.zeros(1))
    model = CLASSES[way](module, comm)
    seen = []
    with model.join(**options):
        for _ in range(counts[comm.rank]):
            module.weight.grad = None
            model(torch.full((1, 1), 2.0 + 2 * comm.rank)).sum().backward()
            seen.append(module.weight.grad.item())
            module.weight.data -= module.weight.grad
            module.steps += 1
    return seen, module.weight.item()


@pytest.mark.parametrize("way", CLASSES)
@pytest.mark.parametrize("counts", [[1, 3], [3, 1], [0, 2], [2, 2]])
def test_who_is_done_shadows_the_others(way: str, counts: list[int]) -> None:
    results = ddp_lab.launch(train, 2, way, counts, transport="threads", timeout_s=30)
    together, longest = min(counts), max(counts)
    last = 1 if counts[1] >= counts[0] else 0
    alone = (2.0 + 2 * last) / 2
    assert results[last][0] == [3.0] * together + [alone] * (longest - together)
    assert {weight for _, weight in results} == {-sum(results[last][0])}


@pytest.mark.parametrize("way", CLASSES)
def test_gradients_can_be_divided_by_those_who_still_train(way: str) -> None:
    def run(comm: Any) -> Any:
        return train(comm, way, [1, 2], divide_by_initial_world_size=False)

    assert ddp_lab.launch(run, 2, transport="threads", timeout_s=30)[1][0] == [3.0, 4.0]


@pytest.mark.parametrize("way", CLASSES)
def test_early_termination_can_be_an_error_on_every_rank(way: str) -> None:
    def run(comm: Any) -> str:
        with pytest.raises(InputsExhausted, match="1 of 2 ranks exhausted") as caught:
            train(comm, way, [1, 2], throw_on_early_termination=True)
        return type(caught.value).__name__

    names = ddp_lab.launch(run, 2, transport="threads", timeout_s=30)
    assert list(names) == ["InputsExhausted"] * 2


@pytest.mark.parametrize("way", CLASSES)
def test_an_exception_in_the_loop_leaves_at_once(way: str) -> None:
    def run(comm: Any) -> bool:
        model = CLASSES[way](nn.Linear(1, 1), comm)
        with pytest.raises(KeyError), model.join():
            raise KeyError
        return model.uneven is None

    assert list(ddp_lab.launch(run, 2, transport="threads", timeout_s=30)) == [True, True]


def test_disabled_it_does_nothing() -> None:
    def run(comm: Any) -> Any:
        return train(comm, "torch", [2, 2], enable=False)[0]

    assert list(ddp_lab.launch(run, 2, transport="threads", timeout_s=30)) == [[3.0, 3.0]] * 2
