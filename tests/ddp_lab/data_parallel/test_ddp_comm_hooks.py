"""Communication hooks over a Communicator, for both libraries; the plain average is the oracle."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import ddp_lab
import minitorch
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.data_parallel.hooks.comm_hooks import (
    Done,
    PowerSGDState,
    TopKState,
    allreduce_hook,
    fp16_compress_hook,
    power_sgd_hook,
    top_k_hook,
)

Setup = Callable[[Any], tuple[Any, Any]]  # of a model: (state, hook)
Array = Any


@pytest.fixture(params=["torch", "minitorch"])
def lib(request: pytest.FixtureRequest) -> SimpleNamespace:
    """What the tests need of a library: its layers, and tensors from NumPy."""
    if request.param == "torch":
        return SimpleNamespace(nn=torch.nn, tensor=torch.from_numpy)
    return SimpleNamespace(nn=minitorch.nn, tensor=minitorch.tensor)


def numbers(tensor: Any) -> Array:
    return tensor.detach().numpy().copy()


def clear(module: Any) -> None:
    for param in module.parameters():
        param.grad = None


@pytest.fixture
def gradients(lib: SimpleNamespace) -> Callable[..., list[list[Array]]]:
    """`gradients(setup, steps)`: rank 0's gradients of each step; each rank has its own inputs."""

    def take(setup: Setup | None, steps: int = 1, world_size: int = 2) -> list[list[Array]]:
        def run(comm: Any) -> list[list[Array]]:
            module = lib.nn.Sequential(lib.nn.Linear(8, 12), lib.nn.Linear(12, 6))
            model = DistributedDataParallel(module, process_group=comm, bucket_cap_mb=0.0003)
            for p in module.parameters():
                p.detach().numpy()[...] = np.linspace(-1, 1, p.numel()).reshape(p.shape)
            if setup:
                model.register_comm_hook(*setup(model))
            x = np.sin(np.linspace(0, 1 + comm.rank, 24, dtype="f4").reshape(3, 8))
            seen = []
            for _ in range(steps):
                clear(module)
                (model(lib.tensor(x)) ** 2).sum().backward()
                seen.append([numbers(p.grad) for p in module.parameters()])
            return seen

        return ddp_lab.launch(run, world_size, transport="threads", timeout_s=60)[0]

    return take


def worst(got: list[Array], want: list[Array]) -> float:
    norm = np.linalg.norm
    return max(float(norm(a - b) / norm(b)) for a, b in zip(got, want, strict=True))


def means(arrived: list[list[Array]]) -> list[Array]:
    return [np.mean(grads, axis=0) for grads in zip(*arrived, strict=True)]


@pytest.mark.parametrize("world_size", [2, 3])
def test_the_plain_hook_averages(gradients: Any, world_size: int) -> None:
    got = gradients(lambda m: (m.group, allreduce_hook), world_size=world_size)[0]
    assert worst(got, gradients(None, world_size=world_size)[0]) < 1e-6


def test_short_floats_err_by_their_rounding(gradients: Any) -> None:
    error = worst(gradients(lambda m: (m.group, fp16_compress_hook))[0], gradients(None)[0])
    assert 0 < error < 4 * 2.0**-11


def test_what_half_precision_cannot_hold_is_infinite(lib: SimpleNamespace) -> None:
    def run(comm: Any, hook: Any) -> float:
        model = DistributedDataParallel(lib.nn.Linear(1, 1, bias=False), process_group=comm)
        model.register_comm_hook(model.group, hook)
        model(lib.tensor(np.full((1, 1), 1e6, "f4"))).sum().backward()
        return float(numbers(model.module.weight.grad)[0, 0])

    assert list(ddp_lab.launch(run, 2, fp16_compress_hook, transport="threads")) == [np.inf] * 2


def test_top_k_of_everything_is_exact(gradients: Any) -> None:
    got = gradients(lambda m: (TopKState(m.group, 1.0), top_k_hook))[0]
    assert worst(got, gradients(None)[0]) < 1e-6


def test_top_k_is_late_but_loses_nothing(gradients: Any) -> None:
    """With constant gradients, what arrived in k steps plus what waits is k gradients."""
    true = gradients(None)[0]
    arrived = gradients(lambda m: (TopKState(m.group, 0.2), top_k_hook), 30)
    first = worst(arrived[0], true)
    assert first > 0.1  # one step alone is far off
    assert worst(means(arrived), true) < 0.25 * first


def test_top_k_without_feedback_would_lose(gradients: Any) -> None:
    """The specimen: the same hook with its memory wiped is as far off after many steps."""

    def forgetful(state: TopKState, bucket: Any) -> Any:
        state.left_out.clear()
        return top_k_hook(state, bucket)

    true = gradients(None)[0]
    arrived = gradients(lambda m: (TopKState(m.group, 0.2), forgetful), 10)
    assert worst(means(arrived), true) == pytest.approx(worst(arrived[0], true), rel=1e-5)


def test_a_ratio_that_sends_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="got 0, expected more than 0"):
        TopKState(None, 0)  # type: ignore[arg-type]


def test_power_sgd_with_feedback_approaches_the_average(gradients: Any) -> None:
    true = gradients(None)[0]
    arrived = gradients(
        lambda m: (PowerSGDState(m.group, rank=1, start_iter=0), power_sgd_hook), 25
    )
    assert worst(means(arrived), true) < 0.1


def test_power_sgd_is_exact_for_a_gradient_of_its_rank(lib: SimpleNamespace) -> None:
    def run(comm: Any) -> float:
        module = lib.nn.Linear(8, 12, bias=False)
        model = DistributedDataParallel(module, process_group=comm)
        state = PowerSGDState(model.group, rank=1, start_iter=0)
        model.register_comm_hook(state, power_sgd_hook)
        x = np.arange(8, dtype="f4").reshape(1, 8) * (1 + comm.rank)  # one example: rank one
        model(lib.tensor(x)).sum().backward()
        want = np.ones((12, 1)) @ np.arange(8.0).reshape(1, 8) * 1.5
        return worst([numbers(module.weight.grad)], [want])

    assert max(ddp_lab.launch(run, 2, transport="threads")) < 1e-5


def test_power_sgd_begins_with_plain_averages(gradients: Any) -> None:
    setup: Setup = lambda m: (PowerSGDState(m.group, rank=1, start_iter=2), power_sgd_hook)  # noqa: E731
    first, second, third = gradients(setup, 3)
    true = gradients(None)[0]
    assert worst(first, true) < 1e-6 and worst(second, true) < 1e-6
    assert worst(third, true) > 1e-4


def test_a_learners_hook_and_its_then(gradients: Any) -> None:
    def doubled(state: Any, bucket: Any) -> Any:
        return allreduce_hook(state, bucket).then(lambda done: done.value() * 2)

    got, want = gradients(lambda m: (m.group, doubled))[0], gradients(None)[0]
    assert all(np.array_equal(a, 2 * b) for a, b in zip(got, want, strict=True))


def test_a_hook_may_send_nothing(gradients: Any) -> None:
    got = gradients(lambda m: (None, lambda state, bucket: Done(bucket.buffer() * 0)))[0]
    assert all(not g.any() for g in got)


def test_a_hook_sees_torchs_bucket(lib: SimpleNamespace) -> None:
    def run(comm: Any) -> list[Any]:
        module = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.Linear(3, 1))
        model = DistributedDataParallel(module, process_group=comm, bucket_cap_mb=0.00001)
        seen: list[Any] = []

        def look(state: Any, bucket: Any) -> Any:
            shapes = [tuple(g.shape) for g in bucket.gradients()]
            assert shapes == [tuple(p.shape) for p in bucket.parameters()]
            seen.append((bucket.index(), bucket.buffer().shape[0], shapes, bucket.is_last()))
            return allreduce_hook(state, bucket)

        model.register_comm_hook(model.group, look)
        model(lib.tensor(np.ones((1, 2), "f4"))).sum().backward()
        return seen

    (seen, _) = ddp_lab.launch(run, 2, transport="threads")
    assert [index for index, *_ in seen] == list(range(len(seen)))
    assert sum(count for _, count, *_ in seen) == 2 * 3 + 3 + 3 + 1
    assert [last for *_, last in seen] == [False] * (len(seen) - 1) + [True]


@pytest.mark.parametrize("states", [TopKState, PowerSGDState])
def test_what_a_hook_remembers_can_be_kept(lib: SimpleNamespace, states: Any) -> None:
    hook = {TopKState: top_k_hook, PowerSGDState: power_sgd_hook}[states]
    options: dict[str, Any] = {"ratio": 0.3} if states is TopKState else {"start_iter": 0}

    def run(comm: Any, forget: bool) -> Array:
        module = lib.nn.Linear(6, 5, bias=False)
        model = DistributedDataParallel(module, process_group=comm)
        state = states(model.group, **options)
        model.register_comm_hook(lambda: state, lambda now, bucket: hook(now(), bucket))
        for _ in range(3):
            clear(module)
            model(lib.tensor(np.eye(6, dtype="f4")[:3] * 3 + comm.rank)).sum().backward()
            if not forget:
                kept, state = state.state_dict(), states(model.group, **options)
                state.load_state_dict(kept)
        return numbers(module.weight.grad)

    for kept, plain in zip(
        ddp_lab.launch(run, 2, False, transport="threads"),
        ddp_lab.launch(run, 2, True, transport="threads"),
        strict=True,
    ):
        assert np.array_equal(kept, plain)


def test_what_is_not_a_hook_is_refused(lib: SimpleNamespace) -> None:
    def wrong_bucket(state: Any, bucket: int) -> Any: ...

    def wrong_future(state: Any, bucket: Any) -> int: ...

    def run(comm: Any) -> None:
        model = DistributedDataParallel(lib.nn.Linear(1, 1), process_group=comm)
        with pytest.raises(TypeError, match="must be callable: got int"):
            model.register_comm_hook(None, 3)
        with pytest.raises(ValueError, match="bucket annotation should be"):
            model.register_comm_hook(None, wrong_bucket)
        with pytest.raises(ValueError, match="return annotation should be"):
            model.register_comm_hook(None, wrong_future)
        model.register_comm_hook(None, lambda state, bucket: None)
        with pytest.raises(RuntimeError, match="can only be called once"):
            model.register_comm_hook(None, lambda state, bucket: None)

    ddp_lab.launch(run, 1, transport="threads")
