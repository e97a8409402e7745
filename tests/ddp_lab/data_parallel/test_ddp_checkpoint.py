"""Checkpoints: what is kept, what is refused, and that training goes on as if never stopped."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ddp_lab
import minitorch
from ddp_lab.data_parallel import Checkpoint, DistributedDataParallel
from ddp_lab.data_parallel.checkpoint import dumps, loads
from ddp_lab.errors import InvalidArgument


def test_a_snapshot_keeps_kinds_dtypes_and_bits() -> None:
    tree = {
        "plain": [None, True, 7, 2**100, 0.1, float("inf"), "text"],
        3: (np.arange(6, dtype=np.float16).reshape(2, 3), np.zeros((0, 4))),
        "tensors": {
            "short": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
            "step": torch.ones(()),
        },
        "scalar": np.float32(0.1),
    }
    got = loads(dumps(tree))
    assert got["plain"] == tree["plain"]
    assert got[3][0].dtype == np.float16 and np.array_equal(got[3][0], tree[3][0])
    assert got[3][1].shape == (0, 4)
    assert got["tensors"]["short"].dtype == torch.bfloat16
    assert torch.equal(got["tensors"]["short"], tree["tensors"]["short"])
    assert got["tensors"]["step"].shape == ()
    assert got["scalar"] == float(np.float32(0.1))


def test_what_cannot_be_saved_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"optimizer\.state\[1\] cannot be saved: got object"):
        dumps({"optimizer": {"state": [1, object()]}})
    with pytest.raises(InvalidArgument, match="not an array of numbers"):
        dumps({"names": np.array(["a"], object)})


@pytest.mark.parametrize("data", [b"", b"nonsense", dumps({"a": np.ones(9)})[:-40]])
def test_what_is_no_snapshot_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidArgument, match="not a snapshot"):
        loads(data)


def mini(seed: int) -> tuple[Any, Any]:
    minitorch.manual_seed(seed)
    net = minitorch.nn.Sequential(minitorch.nn.Linear(4, 9), minitorch.nn.Linear(9, 1))
    return net, minitorch.optim.Adam(net.parameters(), lr=0.05)


def steps(model: Any, optimizer: Any, rank: int, first: int, last: int) -> None:
    for step in range(first, last):
        optimizer.zero_grad()
        x = minitorch.full((2, 4), 0.1 * (step + rank))
        ((model(x) - 1.0) ** 2).mean().backward()
        optimizer.step()


def test_minitorch_models_resume_bit_for_bit(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "run.npz"

    def train(comm: Any, seed: int, stops: list[int]) -> tuple[int, list[Any]]:
        net, optimizer = mini(seed + comm.rank)
        model = DistributedDataParallel(net, process_group=comm, bucket_cap_mb=0.00001)
        checkpoint = Checkpoint(path, comm, model=model, optimizer=optimizer)
        first = checkpoint.resume()
        for start, stop in zip([first, *stops], stops, strict=False):
            steps(model, optimizer, comm.rank, start, stop)
            checkpoint.save(stop)
        return first, [p.detach().numpy().copy() for p in net.parameters()]

    through = ddp_lab.launch(train, 3, 0, [3, 8])
    path.unlink()
    ddp_lab.launch(train, 3, 0, [3])
    resumed = ddp_lab.launch(train, 3, 50, [8])
    assert [first for first, _ in resumed] == [3] * 3
    for (_, a), (_, b) in zip(through, resumed, strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


class Memory:
    """Something with a state of its own on every rank."""

    def __init__(self, value: int) -> None:
        self.value = value

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value = state["value"]


def test_each_rank_gets_its_own_back_and_a_run_of_another_size_begins_afresh(
    tmp_path: Path,
) -> None:
    def run(comm: Any, value: int, save: bool) -> tuple[int, int]:
        memory, net = Memory(value + comm.rank), torch.nn.Linear(1, 1)
        checkpoint = Checkpoint(tmp_path / "c", comm, {"memory": memory}, net=net)
        step = checkpoint.resume()
        if save:
            checkpoint.save(4)
        return step, memory.value

    assert list(ddp_lab.launch(run, 2, 10, True)) == [(0, 10), (0, 11)]
    assert list(ddp_lab.launch(run, 2, 20, False)) == [(4, 10), (4, 11)]
    assert list(ddp_lab.launch(run, 3, 20, False)) == [(4, 20), (4, 21), (4, 22)]


def test_a_rank_that_does_not_see_the_file_gets_it_from_one_that_does(tmp_path: Path) -> None:
    def run(comm: Any, folders: list[str], save: bool) -> tuple[int, float]:
        net = torch.nn.Linear(2, 1, bias=False)
        torch.nn.init.constant_(net.weight, 3.0 if save else 0.0)
        checkpoint = Checkpoint(tmp_path / folders[comm.rank] / "c", comm, net=net)
        step = checkpoint.resume()
        if save:
            checkpoint.save(5)
        return step, net.weight[0, 1].item()

    ddp_lab.launch(run, 2, ["a", "b"], True)
    assert not (tmp_path / "b").exists()  # rank 0 alone writes
    assert list(ddp_lab.launch(run, 2, ["b", "a"], False)) == [(5, 3.0)] * 2


def test_over_torch_distributed_too(gloo: Callable[..., Any], tmp_path: Path) -> None:
    def run(comm: Any, save: bool) -> tuple[int, float]:
        torch.manual_seed(comm.rank + 10 * save)
        model = DistributedDataParallel(torch.nn.Linear(2, 1))
        checkpoint = Checkpoint(tmp_path / "c", model=model)
        step = checkpoint.resume()
        if save:
            checkpoint.save(2)
        return step, torch.rand(()).item()  # the generator goes on, too

    saved, resumed = list(gloo(run, 2, True)), list(gloo(run, 2, False))
    assert [step for step, _ in resumed] == [2, 2]
    assert [value for _, value in resumed] == [value for _, value in saved]


def test_other_things_and_things_without_state_are_refused(tmp_path: Path) -> None:
    def run(comm: Any) -> None:
        Checkpoint(tmp_path / "c", comm, net=torch.nn.Linear(1, 1)).save(1)
        with pytest.raises(InvalidArgument, match=r"got \['net'\], expected \['model'\]"):
            Checkpoint(tmp_path / "c", comm, model=torch.nn.Linear(1, 1)).resume()
        with pytest.raises(InvalidArgument, match="lr has no state: got float"):
            Checkpoint(tmp_path / "c", comm, lr=0.1)

    ddp_lab.launch(run, 1, transport="threads")


def test_a_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def run(comm: Any) -> None:
        memory = Memory(1)
        checkpoint = Checkpoint(tmp_path / "c", comm, memory=memory)
        checkpoint.save(1)
        memory.value = object()  # type: ignore[assignment]
        with pytest.raises(InvalidArgument, match="cannot be saved"):
            checkpoint.save(2)
        assert checkpoint.resume() == 1

    ddp_lab.launch(run, 1, transport="threads")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
