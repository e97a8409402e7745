"""Tensors that stay on their device: on the CPU by default, on CUDA where there is one."""

import os
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.collectives.registry import COLLECTIVES, lookup
from ddp_lab.device_array import DeviceArray, torch_dtype
from ddp_lab.launch.launcher import on_gpus
from ddp_lab.reduction import BFLOAT16
from ddp_lab.transport.device import DeviceWorld
from ddp_lab.transport.device_ipc import IpcTransport
from ddp_lab.transport.shm.shm import ShmTransport

DEVICES = ["cpu", pytest.param(os.environ.get("GPU_DEVICE", "cuda"), marks=pytest.mark.gpu)]
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8)
SHAPES = ((0,), (7,), (3, 5), ())
REDUCTIONS = {"sum": np.sum, "prod": np.prod, "min": np.min, "max": np.max}


def argument(collective: str, shape: tuple[int, ...], rank: int, size: int) -> np.ndarray:
    shape = (size, *shape) if collective in ("reduce_scatter", "all_to_all") else shape
    return np.random.default_rng([rank, *shape]).integers(0, 3, shape).astype("f8")


def expected(
    collective: str, shape: tuple[int, ...], op: str, root: int, rank: int, size: int
) -> Any:
    inputs = np.stack([argument(collective, shape, r, size) for r in range(size)])
    reduced = REDUCTIONS[op](inputs, axis=0)
    return {
        "all_gather": lambda: inputs,
        "all_reduce": lambda: reduced,
        "all_to_all": lambda: inputs[:, rank],
        "broadcast": lambda: inputs[root],
        "gather": lambda: inputs if rank == root else None,
        "reduce": lambda: reduced if rank == root else None,
        "reduce_scatter": lambda: reduced[rank],
        "scatter": lambda: inputs[root] + rank,
    }[collective]()


def check_all(comm: Any, device: str) -> list[str]:
    """Return what is wrong: of every collective by every algorithm, dtype and shape."""
    faults, number = [], 0
    for collective in COLLECTIVES:
        for algorithm in ddp_lab.algorithms(collective):
            if algorithm != "auto" and not lookup(collective, algorithm).built_in:
                continue  # another test's
            if collective == "barrier":
                comm.barrier(algorithm=algorithm)
                continue
            for shape in SHAPES:
                number += 1
                dtype, op = DTYPES[number % 5], list(REDUCTIONS)[number % 4]
                root, case = number % comm.size, f"{collective} {algorithm} {shape}"
                x: Any = torch.tensor(argument(collective, shape, comm.rank, comm.size))
                x = x.to(device, dtype)
                if collective == "scatter":
                    x = [x + i for i in range(comm.size)] if comm.rank == root else None
                options: dict[str, Any] = {"algorithm": algorithm}
                if collective in ("broadcast", "gather", "reduce", "scatter"):
                    options["root"] = root
                if collective in ("reduce", "reduce_scatter", "all_reduce"):
                    options["op"] = op
                got = getattr(comm, collective)(x, **options)
                want = expected(collective, shape, op, root, comm.rank, comm.size)
                if want is None or got is None:
                    faults += [case] * (want is not got)
                elif (
                    got.dtype != dtype
                    or got.device.type != device
                    or not np.array_equal(got.double().cpu().numpy(), want)
                ):
                    faults.append(f"{case} {dtype} {op}: {got} is not {want}")
    return faults


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_virtual_ranks_compute_every_collective_on_the_device(device: str, world_size: int) -> None:
    world = DeviceWorld(world_size, device)
    for faults in ddp_lab.launch(check_all, world_size, device, transport=world, timeout_s=120):
        assert not faults


def test_processes_joined_by_torch_compute_every_collective() -> None:
    for faults in ddp_lab.launch(check_all, 3, "cpu", transport="gloo", timeout_s=120):
        assert not faults


@pytest.mark.gpu(itself=True)
@pytest.mark.parametrize("transport", ["cuda_ipc", "cuda"])
def test_processes_and_ranks_on_cuda_compute_every_collective(transport: str) -> None:
    for faults in ddp_lab.launch(check_all, 2, "cuda", transport=transport, timeout_s=120):
        assert not faults


def over_ipc(comm: Any, work: Any, *args: Any) -> Any:
    """Call work(comm, *args) with a communicator that sends handles, as `cuda_ipc` does."""
    host = comm._transport
    assert isinstance(host, ShmTransport)
    return work(ddp_lab.Communicator(IpcTransport(host, torch.device("cpu"))), *args)


def test_processes_hand_each_other_tensors_by_handle() -> None:
    for faults in ddp_lab.launch(over_ipc, 3, check_all, "cpu", timeout_s=120):
        assert not faults


def mix(comm: Any, device: str) -> list[Any]:
    """Messages of both kinds, buffers, handles, and disagreements."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    mine = torch.full((3,), float(comm.rank), device=device)
    comm.send(mine, right)
    mine += 100  # the message is a copy
    buffer = comm.empty((3,), torch.float32)
    assert comm.recv(buffer, left) is buffer and buffer.device.type == device
    comm.send(np.arange(4) * comm.rank, right)
    plain = comm.recv(left)
    assert type(plain) is np.ndarray
    works = [comm.all_reduce(mine * k, async_op=True) for k in range(1, 4)]
    sums = [work.wait().tolist()[0] for work in works]
    comm.all_reduce(buffer, op="avg", out=buffer)
    whole = comm.all_reduce(torch.tensor([-3 - comm.rank], device=device), op="avg")
    return [plain.tolist(), sums, buffer.tolist(), whole.item()]


def check_mix(results: Any) -> None:
    ranks, total = len(results), sum(100.0 + rank for rank in range(len(results)))
    for rank, (plain, sums, mean, whole) in enumerate(results):
        left = (rank - 1) % ranks
        assert plain == [left * k for k in range(4)]
        assert sums == [total, 2 * total, 3 * total]
        assert mean == [sum(range(ranks)) / ranks] * 3
        assert whole == int(sum(-3 - r for r in range(ranks)) / ranks)


@pytest.mark.parametrize("device", DEVICES)
def test_tensors_and_arrays_travel_side_by_side(device: str) -> None:
    check_mix(ddp_lab.launch(mix, 3, device, transport=DeviceWorld(3, device), timeout_s=60))


def test_between_processes_too() -> None:
    check_mix(ddp_lab.launch(mix, 3, "cpu", transport="gloo", timeout_s=60))
    check_mix(ddp_lab.launch(over_ipc, 3, mix, "cpu", timeout_s=60))


def test_a_disagreement_is_told_as_on_any_transport() -> None:
    def run(comm: Any) -> None:
        comm.all_reduce(torch.ones(2 + comm.rank), algorithm="ring")

    with pytest.raises(ddp_lab.RankFailed, match=r"rank 0 has shape \(2,\)"):
        ddp_lab.launch(run, 2, transport=DeviceWorld(2, "cpu"), timeout_s=30)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))


def train(comm: Any, device: str, states: dict[str, torch.Tensor]) -> list[np.ndarray]:
    model = net()
    model.load_state_dict(states)
    model = model.to(device)
    ddp = ddp_lab.DistributedDataParallel(model, process_group=comm, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.linspace(-1, 1, 60).reshape(12, 5).sin().to(device)
    for _ in range(5):
        optimizer.zero_grad()
        ddp(x[comm.rank :: comm.size]).square().mean().backward()
        optimizer.step()
    return [p.detach().cpu().numpy() for p in model.parameters()]


@pytest.mark.parametrize("device", DEVICES)
def test_ddp_trains_on_virtual_ranks_as_one_process_would(device: str) -> None:
    # rank threads share torch's global generator, so each is given what it begins with
    torch.manual_seed(0)
    states = net().state_dict()
    (alone,) = ddp_lab.launch(train, 1, device, states, transport=DeviceWorld(1, device))
    ranks = ddp_lab.launch(train, 3, device, states, transport=DeviceWorld(3, device), timeout_s=60)
    for got in ranks:
        for a, b, first in zip(got, alone, ranks[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            assert np.array_equal(a, first)


def test_an_array_of_a_device_does_not_leave_it_unasked() -> None:
    with pytest.raises(TypeError, match="stays on its device"):
        np.asarray(DeviceArray(torch.ones(2)))
    with pytest.raises(TypeError):
        np.cumsum(DeviceArray(torch.ones(2)))
    with pytest.raises(TypeError):
        np.hypot(DeviceArray(torch.ones(2)), 1.0)
    x = DeviceArray(torch.ones(2))
    assert np.add(x, x, out=x) is x
    assert x.tensor.tolist() == [2.0, 2.0]
    assert torch_dtype(BFLOAT16) == torch.bfloat16


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_here_is_refused(device: str) -> None:
    with pytest.raises(ddp_lab.InvalidArgument, match="no such device here"):
        DeviceWorld(2, device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="no CUDA device is what it is about")
@pytest.mark.parametrize("transport", ["cuda", "nccl", "cuda_ipc"])
def test_without_gpus_launch_says_what_to_use(transport: str) -> None:
    with pytest.raises(ddp_lab.InvalidArgument, match=r"not enough GPUs .*DeviceWorld"):
        ddp_lab.launch(print, 2, transport=transport)


def test_nccl_with_one_device_and_several_processes_is_refused_in_one_line() -> None:
    with pytest.raises(ddp_lab.InvalidArgument, match=r"got 1, expected 2 .*'cuda'") as refused:
        on_gpus("nccl", 2, count=1)
    assert "\n" not in str(refused.value)
    assert on_gpus("nccl", 2, count=2) == on_gpus("cuda", 2, count=2) == "nccl"
    assert on_gpus("cuda_ipc", 2, count=1) == "cuda_ipc"
