"""The teaching ladder: every step trains as one process would."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import LADDER, Bucketed, DistributedDataParallel, Overlapped
from ddp_lab.data_parallel.array_ddp import ArrayDistributedDataParallel
from ddp_lab.data_parallel.errors import ModelMismatch, UnusedParameters

SMALL_MB = 0.001  # several buckets, even for a small model
WAYS = {
    **{step.__name__: step for step in LADDER},
    "small buckets": lambda m, c: Bucketed(m, c, SMALL_MB),
    "small buckets, overlapped": lambda m, c: Overlapped(m, c, SMALL_MB),
    "torch DDP": lambda m, c: DistributedDataParallel(m, process_group=c, bucket_cap_mb=SMALL_MB),
    "array DDP": lambda m, c: ArrayDistributedDataParallel(m, c, bucket_cap_mb=SMALL_MB),
}


def assert_trains_as_one(training: Any, wrap: Callable[..., Any], world_size: int) -> None:
    expected = training.alone()
    ranks = training.apart(wrap, world_size)
    for params in ranks:
        for got, want in zip(params, expected, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
        for got, first in zip(params, ranks[0], strict=True):
            assert torch.equal(got, first)  # the same bits on every rank


@pytest.mark.parametrize("world_size", [1, 2, 4])
@pytest.mark.parametrize("way", WAYS)
def test_ranks_train_as_one_process_would(way: str, world_size: int, training: Any) -> None:
    assert_trains_as_one(training, WAYS[way], world_size)


def test_averaging_the_hooks_argument_is_caught(training: Any) -> None:
    """The specimen: a well-known mistake averages weights, for the hook gets the parameter."""

    class AveragesWeights(LADDER[0]):  # type: ignore[misc, valid-type]
        def __init__(self, module: nn.Module, comm: Any) -> None:
            super().__init__(module, comm)
            for param in self.params:
                param.register_post_accumulate_grad_hook(self.average)

        @torch.no_grad()
        def average(self, grad: Any) -> None:
            grad.copy_(self.comm.all_reduce(grad, op="avg"))

        def finish(self) -> None:
            pass

    with pytest.raises(AssertionError):
        assert_trains_as_one(training, AveragesWeights, 2)


@pytest.mark.parametrize("step", LADDER[2:])
def test_ranks_with_different_autograd_orders_get_right_gradients(step: type) -> None:
    class TwoArms(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.first = True

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            arms = [self.a, self.b] if self.first else [self.b, self.a]
            return sum((arm(x) * (1 + (arm is self.b)) for arm in arms), torch.zeros(()))

    def run(comm: Any) -> list[torch.Tensor]:
        model = TwoArms()
        model.first = comm.rank == 0
        replica = step(model, comm)
        replica(torch.full((2, 4), 1.0 + comm.rank)).sum().backward()
        replica.finish()
        return [p.grad for p in model.parameters()]

    for grads in ddp_lab.launch(run, 2, transport="threads", timeout_s=30):
        assert torch.equal(grads[0], torch.full((4, 4), 3.0))
        assert torch.equal(grads[1], torch.full((4, 4), 6.0))


class Forgets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.forgotten = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


@pytest.mark.parametrize("way", WAYS)
def test_an_unused_parameter_is_named(way: str) -> None:
    def run(comm: Any) -> str:
        model = WAYS[way](Forgets(), comm)
        model(torch.ones(1, 2)).sum().backward()
        with pytest.raises(UnusedParameters, match=r"forgotten\.weight") as caught:
            model.finish() if hasattr(model, "finish") else model(torch.ones(1, 2))
        assert "used.weight" not in str(caught.value).replace("unused", "")
        return caught.value.names[0]

    names = ddp_lab.launch(run, 2, transport="threads", timeout_s=30)
    assert list(names) == ["forgotten.weight"] * 2


@pytest.mark.parametrize("way", ["torch DDP", "array DDP"])
def test_ranks_with_different_models_are_told_where_they_differ(way: str) -> None:
    def run(comm: Any) -> tuple[Any, ...]:
        model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4 + comm.rank))
        with pytest.raises(ModelMismatch, match=r"rank 0 has 1\.weight \(4, 3\).*rank 1") as caught:
            WAYS[way](model, comm)
        return caught.value.ranks, caught.value.index

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [((0, 1), 2)] * 2


@pytest.mark.parametrize("way", ["torch DDP", "array DDP"])
def test_parameters_in_another_order_are_another_model_and_other_names_are_not(way: str) -> None:
    def run(comm: Any, names: list[list[str]]) -> None:
        WAYS[way](nn.ModuleDict({name: nn.Linear(2, 2) for name in names[comm.rank]}), comm)

    ddp_lab.launch(run, 2, [["a", "b"], ["b", "c"]], transport="threads")
    with pytest.raises(
        ddp_lab.RankFailed, match=r"0 has a\.weight .*, rank 1 has b\.weight"
    ) as failed:
        ddp_lab.launch(run, 2, [["a", "b"], ["b", "a"]], transport="threads")
    assert set(failed.value.failures) == {0, 1}


@pytest.mark.parametrize("way", ["torch DDP", "array DDP"])
def test_no_sync_accumulates_and_the_next_backward_averages_the_sum(way: str) -> None:
    def run(comm: Any) -> float:
        model = WAYS[way](nn.Linear(1, 1, bias=False), comm)
        weight = next(iter(model.parameters()))
        with model.no_sync():
            model(torch.full((1, 1), 1.0 + comm.rank)).sum().backward()
        assert weight.grad.item() == 1.0 + comm.rank
        model(torch.full((1, 1), 10.0 * comm.rank)).sum().backward()
        return weight.grad.item()

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [1.5 + 5.0] * 2


@pytest.mark.parametrize("way", ["torch DDP", "array DDP"])
def test_no_sync_ends_with_an_exception_too(way: str) -> None:
    def run(comm: Any) -> bool:
        model = WAYS[way](nn.Linear(1, 1), comm)
        with pytest.raises(KeyError), model.no_sync():
            raise KeyError
        return model.require_backward_grad_sync

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [True, True]
