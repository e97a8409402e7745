"""Communication hooks, over a Communicator; the plain average is the oracle."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.data_parallel.comm_hooks import (
    Done,
    LocalSGDState,
    PowerSGDState,
    TopKState,
    allreduce_hook,
    bf16_compress_hook,
    fp16_compress_hook,
    local_sgd_hook,
    power_sgd_hook,
    top_k_hook,
)

Setup = Callable[[Any], tuple[Any, Any]]  # of a model: (state, hook)


def gradients(setup: Setup | None, steps: int = 1, world_size: int = 2) -> list[list[Any]]:
    """Return rank 0's gradients of each step; rank r sees its own inputs, the same every step."""

    def run(comm: Any) -> list[list[torch.Tensor]]:
        module = nn.Sequential(nn.Linear(8, 12), nn.Linear(12, 6))
        model = DistributedDataParallel(module, process_group=comm, bucket_cap_mb=0.0003)
        for p in module.parameters():
            p.data = torch.linspace(-1, 1, p.numel()).view(p.shape)
        if setup:
            model.register_comm_hook(*setup(model))
        x = torch.linspace(0, 1 + comm.rank, 24).view(3, 8).sin()
        seen = []
        for _ in range(steps):
            model.zero_grad()
            model(x).square().sum().backward()
            seen.append([p.grad.clone() for p in module.parameters()])
        return seen

    return ddp_lab.launch(run, world_size, transport="threads", timeout_s=60)[0]


def worst(got: list[Any], want: list[Any]) -> float:
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(got, want, strict=True))


def test_the_plain_hook_changes_nothing() -> None:
    got = gradients(lambda m: (m.group, allreduce_hook))[0]
    assert all(torch.equal(a, b) for a, b in zip(got, gradients(None)[0], strict=True))


@pytest.mark.parametrize(
    ("hook", "bits"), [(fp16_compress_hook, 11), (bf16_compress_hook, 8)], ids=["fp16", "bf16"]
)
def test_short_floats_err_by_their_rounding(hook: Any, bits: int) -> None:
    error = worst(gradients(lambda m: (m.group, hook))[0], gradients(None)[0])
    assert 0 < error < 4 * 2.0**-bits


def test_top_k_of_everything_is_exact() -> None:
    got = gradients(lambda m: (TopKState(m.group, 1.0), top_k_hook))[0]
    assert worst(got, gradients(None)[0]) < 1e-6


def test_top_k_is_late_but_loses_nothing() -> None:
    """With constant gradients, what arrived in k steps plus what waits is k gradients."""
    steps = 30
    true = gradients(None)[0]
    arrived = gradients(lambda m: (TopKState(m.group, 0.2), top_k_hook), steps)
    first = worst(arrived[0], true)
    mean = [torch.stack(grads).mean(0) for grads in zip(*arrived, strict=True)]
    assert first > 0.1  # one step alone is far off
    assert worst(mean, true) < 0.25 * first


def test_top_k_without_feedback_would_lose() -> None:
    """The specimen: the same hook with its memory wiped is as far off after many steps."""

    def forgetful(state: TopKState, bucket: Any) -> Any:
        state.left_out.clear()
        return top_k_hook(state, bucket)

    true = gradients(None)[0]
    arrived = gradients(lambda m: (TopKState(m.group, 0.2), forgetful), 10)
    mean = [torch.stack(grads).mean(0) for grads in zip(*arrived, strict=True)]
    assert worst(mean, true) == pytest.approx(worst(arrived[0], true), rel=1e-5)


def test_a_ratio_that_sends_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0, expected more than 0"):
        TopKState(None, 0)  # type: ignore[arg-type]


def test_power_sgd_with_feedback_approaches_the_average() -> None:
    true = gradients(None)[0]
    setup: Setup = lambda m: (PowerSGDState(m.group, rank=1, start_iter=0), power_sgd_hook)  # noqa: E731
    arrived = gradients(setup, 25)
    mean = [torch.stack(grads).mean(0) for grads in zip(*arrived, strict=True)]
    assert worst(mean, true) < 0.1


def test_power_sgd_is_exact_for_a_gradient_of_its_rank() -> None:
    def run(comm: Any) -> float:
        module = nn.Linear(8, 12, bias=False)
        model = DistributedDataParallel(module, process_group=comm)
        state = PowerSGDState(model.group, rank=1, start_iter=0)
        model.register_comm_hook(state, power_sgd_hook)
        x = torch.arange(8.0).view(1, 8) * (1 + comm.rank)  # one example: rank one
        model(x).sum().backward()
        want = torch.ones(12, 1) @ torch.arange(8.0).view(1, 8) * 1.5
        return ((module.weight.grad - want).norm() / want.norm()).item()

    assert max(ddp_lab.launch(run, 2, transport="threads")) < 1e-5


def test_power_sgd_begins_with_plain_averages() -> None:
    setup: Setup = lambda m: (PowerSGDState(m.group, rank=1, start_iter=2), power_sgd_hook)  # noqa: E731
    first, second, third = gradients(setup, 3)
    true = gradients(None)[0]
    assert worst(first, true) < 1e-6 and worst(second, true) < 1e-6
    assert worst(third, true) > 1e-4


def test_local_sgd_keeps_gradients_at_home_and_averages_parameters() -> None:
    def run(comm: Any) -> tuple[list[float], float]:
        module = nn.Linear(1, 1, bias=False)
        model = DistributedDataParallel(module, process_group=comm)
        state = LocalSGDState(model.group, start_iter=1)
        model.register_comm_hook(state, local_sgd_hook)
        grads = []
        for _ in range(2):
            model.zero_grad()
            model(torch.full((1, 1), 1.0 + comm.rank)).sum().backward()
            grads.append(module.weight.grad.item())
        module.weight.data.fill_(10.0 * comm.rank)
        state.average_parameters(module.parameters())
        return grads, module.weight.item()

    results = ddp_lab.launch(run, 2, transport="threads")
    assert list(results) == [([1.5, 1.0], 5.0), ([1.5, 2.0], 5.0)]


def test_a_learners_hook_and_its_then() -> None:
    def doubled(state: Any, bucket: Any) -> Any:
        return allreduce_hook(state, bucket).then(lambda done: done.value() * 2)

    got, want = gradients(lambda m: (m.group, doubled))[0], gradients(None)[0]
    assert all(torch.equal(a, 2 * b) for a, b in zip(got, want, strict=True))


def test_a_hook_may_send_nothing() -> None:
    got = gradients(lambda m: (None, lambda state, bucket: Done(bucket.buffer() * 0)))[0]
    assert all(not g.any() for g in got)


@pytest.mark.parametrize(
    ("hook", "error", "message"),
    [
        (3, TypeError, "must be callable: got int"),
        (lambda state, bucket: None, None, ""),
    ],
)
def test_what_is_not_a_hook_is_refused(hook: Any, error: Any, message: str) -> None:
    def run(comm: Any) -> None:
        model = DistributedDataParallel(nn.Linear(1, 1), process_group=comm)
        if error is None:
            model.register_comm_hook(None, hook)
            with pytest.raises(RuntimeError, match="can only be called once"):
                model.register_comm_hook(None, hook)
        else:
            with pytest.raises(error, match=message):
                model.register_comm_hook(None, hook)

    ddp_lab.launch(run, 1, transport="threads")
