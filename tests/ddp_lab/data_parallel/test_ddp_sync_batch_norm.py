"""Batch norm over all ranks' batches, over a Communicator: one process is the oracle."""

from typing import Any

import numpy as np
import pytest
import torch

import ddp_lab
from ddp_lab.data_parallel import DistributedDataParallel
from ddp_lab.data_parallel.torch.sync_batch_norm import use_on_cpu

ROWS = {1: [9], 2: [4, 5], 3: [2, 3, 4]}  # uneven batches
SHAPES = {"BatchNorm1d": (9, 3), "BatchNorm2d": (9, 3, 4, 2)}


def values(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy().copy()


def data(kind: str, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.normal(size=SHAPES[kind]) * 5 + 100).astype(dtype)  # a mean that would cancel


def layer(kind: str, dtype: str, **options: Any) -> Any:
    made = getattr(torch.nn, kind)(3, dtype=getattr(torch, dtype), **options)
    for name, value in (("weight", [1.0, 2.0, -1.0]), ("bias", [0.5, 0.0, 1.0])):
        if getattr(made, name) is not None:
            getattr(made, name).detach().numpy()[...] = value
    return made


def weights(kind: str) -> np.ndarray:
    """What the loss multiplies outputs with: else a gradient through a norm is nothing."""
    return np.sin(np.arange(np.prod(SHAPES[kind]))).reshape(SHAPES[kind])


def over(comm: Any, net: Any) -> Any:
    """Return a net whose batch norms normalise over the ranks of a communicator."""
    converted = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net, comm)
    use_on_cpu(converted)
    return converted


def forward(model: Any, x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tensor = torch.tensor(x, requires_grad=True)
    out = model(tensor)
    (out * torch.tensor(w.astype(x.dtype))).sum().backward()
    return values(out), values(tensor.grad)


def batches(n: int, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(ROWS[n])[:-1])


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_ranks_see_what_one_process_would(kind: str, world_size: int) -> None:
    x, w = data(kind, "float64"), weights(kind)
    whole = layer(kind, "float64")
    want_out, want_grad = forward(whole, x, w)

    def run(comm: Any) -> Any:
        norm = over(comm, layer(kind, "float64"))
        part = batches(world_size, x)[comm.rank], batches(world_size, w)[comm.rank]
        results = forward(norm, *part)
        state = {name: values(tensor) for name, tensor in norm.state_dict().items()}
        return *results, values(norm.weight.grad), state

    ranks = ddp_lab.launch(run, world_size, transport="threads", timeout_s=60)
    np.testing.assert_allclose(np.concatenate([r[0] for r in ranks]), want_out, rtol=1e-9)
    np.testing.assert_allclose(np.concatenate([r[1] for r in ranks]), want_grad, rtol=1e-7)
    summed = sum(r[2] for r in ranks)
    np.testing.assert_allclose(summed, values(whole.weight.grad), rtol=1e-9)
    for name, value in whole.state_dict().items():
        np.testing.assert_allclose(ranks[0][3][name], value.numpy(), rtol=1e-9)


def test_without_the_sums_over_ranks_it_would_differ() -> None:
    """The specimen: the library's own batch norm on a rank's part."""
    x, w = data("BatchNorm1d", "float64"), weights("BatchNorm1d")
    want, _ = forward(layer("BatchNorm1d", "float64"), x, w)
    got, _ = forward(layer("BatchNorm1d", "float64"), x[:4], w[:4])
    assert np.abs(got - want[:4]).max() > 0.01


def test_it_trains_inside_ddp_and_evaluates_by_running_statistics() -> None:
    x = data("BatchNorm1d", "float32")

    def run(comm: Any) -> Any:
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), layer("BatchNorm1d", "float32"))
        net = over(comm, net)
        model = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=0.00001)
        for _ in range(3):
            forward(model, batches(2, x)[comm.rank], np.ones((1, 3)))
        model.eval()
        return values(model(torch.tensor(x)))

    first, second = ddp_lab.launch(run, 2, transport="threads", timeout_s=60)
    assert np.array_equal(first, second)
    assert np.isfinite(first).all()


def test_torchs_layers_in_a_ddp_over_a_communicator_use_that_communicator() -> None:
    x = data("BatchNorm1d", "float64")

    def run(comm: Any) -> np.ndarray:
        plain = torch.nn.Sequential(layer("BatchNorm1d", "float64"))
        net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
        model = DistributedDataParallel(net, process_group=comm)
        return values(model(torch.tensor(batches(2, x)[comm.rank])))

    got = np.concatenate(list(ddp_lab.launch(run, 2, transport="threads", timeout_s=60)))
    want = values(layer("BatchNorm1d", "float64")(torch.tensor(x)))
    np.testing.assert_allclose(got, want, rtol=1e-9)


@pytest.mark.parametrize("options", [{"momentum": None}, {"track_running_stats": False}])
def test_options_of_the_layer_are_kept(options: dict[str, Any]) -> None:
    x, w = data("BatchNorm1d", "float64"), weights("BatchNorm1d")
    oracle = layer("BatchNorm1d", "float64", **options)

    def run(comm: Any) -> Any:
        norm = over(comm, layer("BatchNorm1d", "float64", **options))
        for _ in range(2):
            forward(norm, x, w)
        norm.eval()
        return values(norm(torch.tensor(x)))

    for _ in range(2):
        forward(oracle, x, w)
    oracle.eval()
    (got,) = ddp_lab.launch(run, 1, transport="threads")
    np.testing.assert_allclose(got, values(oracle(torch.tensor(x))), rtol=1e-8)
