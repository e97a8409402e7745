"""minitorch modules, trained on ranks: one process is the oracle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ddp_lab
import minitorch
from ddp_lab.data_parallel import LADDER, DistributedDataParallel, Overlapped
from ddp_lab.data_parallel.array_ddp import ArrayDistributedDataParallel
from ddp_lab.data_parallel.errors import UnusedParameters
from minitorch import nn

STEPS, BATCH, LR = 5, 12, 0.1
WAYS: dict[str, Callable[..., Any]] = {
    **{step.__name__: step for step in LADDER},
    "small buckets": lambda m, c: Overlapped(m, c, 0.0005),
    "DDP": lambda m, c: DistributedDataParallel(m, process_group=c),
    "DDP, small buckets": lambda m, c: DistributedDataParallel(m, c, bucket_cap_mb=0.0005),
}


def net(seed: int) -> nn.Module:
    rng = np.random.default_rng(seed)
    model = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 20), nn.Linear(20, 2))
    for param in model.parameters():
        param.detach().numpy()[...] = rng.normal(size=param.shape, scale=0.3)
    return model


def train(model: Any, rank: int, size: int) -> None:
    rng = np.random.default_rng(7)
    mine = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    for _ in range(STEPS):
        x, y = rng.normal(size=(BATCH, 6)), rng.normal(size=(BATCH, 2))
        for param in model.parameters():
            param.grad = None
        out = model(minitorch.tensor(x[mine].astype("f4")))
        ((out - minitorch.tensor(y[mine].astype("f4"))) ** 2).mean().backward()
        if hasattr(model, "finish"):
            model.finish()
        for param in model.parameters():
            param.detach().numpy()[...] -= LR * param.grad.numpy()


def weights(model: Any) -> list[Any]:
    return [param.detach().numpy() for param in model.parameters()]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("way", WAYS)
def test_ranks_train_as_one_process_would(way: str, world_size: int) -> None:
    alone = net(0)
    train(alone, 0, 1)

    def run(comm: Any) -> list[Any]:
        model = WAYS[way](net(comm.rank), comm)
        train(model, comm.rank, comm.size)
        return weights(model)

    ranks = ddp_lab.launch(run, world_size, transport="threads", timeout_s=60)
    for got in ranks:
        for a, b, first in zip(got, weights(alone), ranks[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            assert np.array_equal(a, first)


def test_gradients_lie_in_the_buckets() -> None:
    def run(comm: Any) -> bool:
        model = DistributedDataParallel(net(0), process_group=comm)
        model(minitorch.ones(1, 6)).sum().backward()
        flat = model.reducer.buckets[0].flat
        return all(np.shares_memory(p.grad.numpy(), flat) for p in model.parameters())

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [True, True]


class Switches(nn.Module):
    """Uses one of two layers, as its rank says."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(3)])
        self.use = 0

    def forward(self, x: Any) -> Any:
        return self.layers[self.use](x)


@pytest.mark.parametrize("static_graph", [False, True])
def test_parameters_that_this_rank_does_not_use_get_the_others_gradients(
    static_graph: bool,
) -> None:
    def run(comm: Any) -> list[float | None]:
        module = Switches()
        module.use = comm.rank
        model = ArrayDistributedDataParallel(
            module, comm, find_unused_parameters=not static_graph, static_graph=static_graph
        )
        grads: list[float | None] = []
        for _ in range(2):
            for param in model.parameters():
                param.grad = None
            model(minitorch.full((1, 1), 4.0 + 2 * comm.rank)).sum().backward()
            grads = [None if p.grad is None else p.grad.item() for p in model.parameters()]
        return grads

    # the third layer is used by nobody: its gradient is left alone
    assert list(ddp_lab.launch(run, 2, transport="threads")) == [[2.0, 3.0, None]] * 2


def test_an_unused_parameter_is_named() -> None:
    def run(comm: Any) -> tuple[str, ...]:
        model = DistributedDataParallel(Switches(), process_group=comm)
        model(minitorch.ones(1, 1)).sum().backward()
        with pytest.raises(UnusedParameters, match=r"layers\.1\.weight") as caught:
            model(minitorch.ones(1, 1))
        return caught.value.names

    names = ddp_lab.launch(run, 2, transport="threads")
    assert list(names) == [("layers.1.weight", "layers.2.weight")] * 2


def test_buffers_follow_rank_0() -> None:
    def run(comm: Any) -> float:
        model = nn.Linear(1, 1)
        model.register_buffer("mean", minitorch.full((2,), float(comm.rank + 5)))
        wrapped = DistributedDataParallel(model, process_group=comm)
        model.mean.numpy()[...] += comm.rank
        wrapped(minitorch.ones(1, 1))
        return model.mean.numpy()[0].item()

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [5.0, 5.0]


def test_without_a_communicator_the_next_step_is_named() -> None:
    with pytest.raises(TypeError, match="Pass process_group=comm"):
        DistributedDataParallel(nn.Linear(1, 1))


def test_device_ids_make_no_sense_here() -> None:
    def run(comm: Any) -> None:
        with pytest.raises(ValueError, match="device_ids and output_device are for torch"):
            DistributedDataParallel(nn.Linear(1, 1), [0], process_group=comm)

    ddp_lab.launch(run, 1, transport="threads")


@pytest.mark.parametrize("set_to_none", [True, False])
def test_no_sync_accumulates_and_the_next_backward_averages_the_sum(set_to_none: bool) -> None:
    def run(comm: Any) -> list[float]:
        model = DistributedDataParallel(nn.Linear(1, 1, bias=False), process_group=comm)
        (weight,) = model.parameters()
        seen = []
        for _ in range(2):  # twice: the second time gradients lie in the buckets
            model.zero_grad(set_to_none)
            with model.no_sync():
                model(minitorch.full((1, 1), 1.0 + comm.rank)).sum().backward()
            assert weight.grad.item() == 1.0 + comm.rank
            model(minitorch.full((1, 1), 10.0 * comm.rank)).sum().backward()
            seen.append(weight.grad.item())
        return seen

    assert list(ddp_lab.launch(run, 2, transport="threads")) == [[6.5, 6.5]] * 2


def test_who_runs_out_of_inputs_shadows_the_others() -> None:
    def run(comm: Any) -> tuple[list[float], float]:
        module = nn.Linear(1, 1, bias=False)
        model = DistributedDataParallel(module, process_group=comm)
        seen = []
        with model.join():
            for _ in range(1 + 2 * comm.rank):
                model.zero_grad()
                model(minitorch.full((1, 1), 2.0 + 2 * comm.rank)).sum().backward()
                seen.append(module.weight.grad.item())
                module.weight.detach().numpy()[...] -= seen[-1]
        return seen, module.weight.item()

    (short, at_one), (long, at_other) = ddp_lab.launch(run, 2, transport="threads")
    assert (short, long) == ([3.0], [3.0, 2.0, 2.0])
    assert at_one == at_other


def test_the_state_has_torchs_names_and_loads_back() -> None:
    def run(comm: Any) -> list[str]:
        model = DistributedDataParallel(nn.Linear(2, 1), process_group=comm)
        model.module.register_buffer("count", minitorch.zeros(1))
        saved = {
            name: minitorch.tensor(value.numpy() + 1) for name, value in model.state_dict().items()
        }
        model.load_state_dict(saved)
        assert model.eval().training is False
        for name, value in model.state_dict().items():
            np.testing.assert_array_equal(value.detach().numpy(), saved[name].numpy())
        assert [name for name, _ in model.named_buffers()] == ["module.count"]
        with pytest.raises(KeyError, match=r"got 'weight', expected names that begin"):
            model.load_state_dict(model.module.state_dict())
        return list(saved)

    names = ["module.weight", "module.bias", "module.count"]
    assert list(ddp_lab.launch(run, 2, transport="threads")) == [names] * 2
