"""ZeRO-3: sharded training is training, with 1/n of everything on each rank."""

import copy
import gc
import time
import weakref
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import ddp_lab
from ddp_lab.parallel import fully_shard, gather_full_params

STEPS, BATCH = 3, 12


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.fc(x).tanh() * self.scale


class Mixed(nn.Module):
    """Everything that is awkward: shared, listed, frozen and unused parameters, attention, LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.position = nn.Parameter(torch.randn(5, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.listed = nn.ParameterList([torch.ones(8), torch.zeros(8)])
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        h = self.layer(self.embedding(x) + self.position)
        h = self.rnn(h)[0] * self.listed[0] + self.listed[1]
        return {"logits": self.head(self.frozen(h))}


class Recomputed(nn.Module):
    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))
        self.use_reentrant = use_reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.use_reentrant)
        return x


class Twice(nn.Module):
    """Goes through one block twice, a frozen one among others, and leaves one head out."""

    def __init__(self) -> None:
        super().__init__()
        self.block, self.frozen = Block(8), Block(8).requires_grad_(False)
        self.heads = nn.ModuleList([nn.Linear(8, 2), nn.Linear(8, 3)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.block(self.frozen(self.block(self.frozen(x))))
        return self.heads[0](x), self.heads[1](x)


def deep() -> nn.Sequential:
    return nn.Sequential(*(Block(8) for _ in range(5)))


def plain(model: nn.Module, comm: Any) -> None:
    fully_shard(model, comm)


def nested(model: Any, comm: Any) -> None:
    for part in (model[0], model[1], model[1:4], model[3]):
        if not hasattr(part, "_ddp_lab_unit"):
            fully_shard(part, comm)
    fully_shard(model, comm)


def kept(model: nn.Module, comm: Any) -> None:
    fully_shard(model, comm, reshard_after_forward=False)


CASES: dict[str, tuple[Any, Any]] = {
    "deep": (deep, plain),
    "nested": (deep, nested),
    "ZeRO-2": (deep, kept),
    "mixed": (Mixed, plain),
    "twice": (Twice, plain),
    "twice, ZeRO-2": (Twice, kept),
    "recomputed": (lambda: Recomputed(False), plain),
    "recomputed, reentrant": (lambda: Recomputed(True), plain),
}


def inputs(model: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if isinstance(model, Mixed):
        return torch.randint(0, 11, (BATCH, 5), generator=generator)
    return torch.randn(BATCH, 8, generator=generator, dtype=torch.float64)


def train(model: nn.Module, x: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for half in x.chunk(2):  # gradients of two backward passes add up
            out = model(half)
            out = out["logits"] if isinstance(out, dict) else out
            (out[0] if isinstance(out, tuple) else out).square().mean().backward()
        optimizer.step()


def units(model: nn.Module) -> list[Any]:
    return [m._ddp_lab_unit for m in model.modules() if hasattr(m, "_ddp_lab_unit")]


def whole_bytes(model: nn.Module) -> int:
    return sum(f.whole.untyped_storage().nbytes() for unit in units(model) for f in unit.flats)


def compare(comm: Any, name: str) -> dict[str, Any]:
    make, shard = CASES[name]
    torch.manual_seed(0)
    alone = make().double()
    model = copy.deepcopy(alone)
    names = [n for n, _ in model.named_parameters()]
    shard(model, comm)
    x = inputs(alone)
    both = x.chunk(2)
    train(model, torch.cat([half[comm.rank :: comm.size] for half in both]))
    train(alone, x)
    full = gather_full_params(model)
    for key, param in alone.named_parameters():
        torch.testing.assert_close(full[key], param.detach(), rtol=1e-11, atol=1e-13)
    assert names == [n for n, _ in model.named_parameters()]
    shares = list(model.parameters())
    with torch.no_grad():
        out, expected = model.eval()(x), alone.eval()(x)
    torch.testing.assert_close(out, expected)
    assert whole_bytes(model) == 0
    return {
        "held": sum(p.numel() for p in shares),
        "grads": sum(p.grad.numel() for p in shares if p.grad is not None),
        "of": sum(p.numel() for p in alone.parameters()),
        "without": sorted(n for n, p in model.named_parameters() if p.grad is None),
        "without alone": sorted(n for n, p in alone.named_parameters() if p.grad is None),
        "units": len(units(model)),
    }


def compare_all(comm: Any) -> dict[str, dict[str, Any]]:
    return {name: compare(comm, name) for name in CASES}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("world_size", [2, 3])
def test_sharded_training_equals_one_process_with_a_share_on_each_rank(world_size: int) -> None:
    for found in ddp_lab.launch(compare_all, world_size, timeout_s=200):
        for name, facts in found.items():
            slack = 2 * facts["units"] * world_size
            assert facts["held"] <= facts["of"] / world_size + slack, name
            assert facts["grads"] <= facts["held"]
            assert facts["without"] == facts["without alone"], name


def over_torch_groups(comm: Any, folder: str) -> list[dict[str, Any]]:

    import_module("ddp_lab.torch_backend")  # registers the backend, in each rank
    dist.init_process_group("gloo", f"file://{folder}/store", rank=comm.rank, world_size=comm.size)
    groups = [dist.group.WORLD, dist.new_group(backend="ddp_lab")]
    found = [compare(group_with_rank(group), "deep") for group in groups]
    dist.destroy_process_group()
    return found


def group_with_rank(group: Any) -> Any:
    from ddp_lab.parallel.groups import communicator_of

    comm = communicator_of("test", group)
    assert communicator_of("test", group) is comm
    return comm


def test_ranks_may_be_a_torch_process_group(tmp_path: Any) -> None:
    for found in ddp_lab.launch(over_torch_groups, 2, str(tmp_path), timeout_s=200):
        assert all(facts["held"] == facts["of"] // 2 for facts in found)


def broadcast_and_leave(rank_comm: Any, folder: str) -> float:
    dist.init_process_group(
        "gloo", f"file://{folder}/store", rank=rank_comm.rank, world_size=rank_comm.size
    )
    comm = group_with_rank(dist.group.WORLD)
    x = torch.ones(300, 300)
    for _ in range(100 * rank_comm.rank):  # rank 1 comes late
        x = (x @ x).clamp(max=1)
    got = comm.broadcast(np.ones(3) if comm.rank == 0 else None)
    dist.destroy_process_group()
    return float(got.sum())


def test_a_collective_over_a_torch_group_is_over_when_it_returns(tmp_path: Any) -> None:
    assert ddp_lab.launch(broadcast_and_leave, 2, str(tmp_path), timeout_s=60) == [3.0, 3.0]


class Spy(nn.Linear):
    """Notes what it sees of the model in its forward, and how much is whole then."""

    seen: list[tuple[Any, ...]]
    model: Any

    def forward(self, x: Tensor) -> Tensor:
        shapes = [tuple(layer.weight.shape) for layer in self.model[0]]
        held = [unit.flats[0].has_memory for unit in units(self.model[0])[1:]]
        self.seen.append((shapes, held, whole_bytes(self.model[0]), self.weight.dtype))
        return super().forward(x)


def look(comm: Any) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(*(Spy(16, 16, bias=False) for _ in range(4)))
    seen: list[tuple[Any, ...]] = []
    for layer in model:
        layer.seen, layer.model = seen, [model]
    fully_shard(model, comm, compute_dtype=torch.bfloat16)
    peaks: list[int] = []
    for param in (f.params[0] for unit in units(model) for f in unit.flats):
        param.register_post_accumulate_grad_hook(lambda _: peaks.append(whole_bytes(model)))
    out = model(torch.ones(2, 16))
    out.float().sum().backward()
    dtypes = {p.dtype for p in model.parameters()} | {p.grad.dtype for p in model.parameters()}
    return seen, out.dtype, peaks, dtypes


def test_parameters_are_whole_in_their_own_forward_and_gathered_one_ahead() -> None:
    unit_bytes = 16 * 16 * 2
    for seen, dtype, peaks, dtypes in ddp_lab.launch(look, 2):
        assert dtype == torch.bfloat16
        assert dtypes == {torch.float32}
        assert max(peaks) <= 2 * unit_bytes
        for i, (shapes, held, n_bytes, weight_dtype) in enumerate(seen):
            assert shapes == [(16, 16) if j == i else (128,) for j in range(4)]
            assert held == [j in (i, i + 1) for j in range(4)]
            assert n_bytes == unit_bytes * min(2, 4 - i)
            assert weight_dtype == torch.bfloat16


class Gated(nn.Module):
    """Uses its second weight on some ranks only, and its third on none."""

    def __init__(self, comm: Any) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.ones(3)) for _ in range(3))
        self.uses_b = [comm.rank == 1]

    def forward(self, x: Tensor) -> Tensor:
        return x * self.a + (self.b if self.uses_b[0] else 0)


def gated(comm: Any) -> Any:
    model = nn.Sequential(Gated(comm), Gated(comm))
    fully_shard(model, comm)
    model(torch.ones(3)).sum().backward()
    return {n: p.grad is not None for n, p in model.named_parameters()}, [
        comm.all_gather(torch.cat([grad_of(p), torch.zeros(3)])[:3]).flatten().tolist()
        for p in model[1].parameters()
    ]


def grad_of(param: Tensor) -> Tensor:
    return torch.zeros(0) if param.grad is None else param.grad


def test_gradients_are_averaged_over_all_ranks_whichever_used_a_parameter() -> None:
    for used, grads in ddp_lab.launch(gated, 2):
        assert used == {f"{i}.{n}": n != "c" for i in (0, 1) for n in "abc"}
        flat = [g for grad in grads for g in grad]
        assert flat.count(1.5) == 3  # a: its input is 1 on rank 0, 2 on rank 1
        assert flat.count(0.5) == 3  # b: on one rank of two


def raise_in_backward(comm: Any) -> bool:
    torch.manual_seed(0)
    model = deep().double()
    alone = copy.deepcopy(model)
    fully_shard(model, comm)
    x = inputs(model)

    def refuse(_: Tensor) -> Tensor:
        raise ZeroDivisionError

    middle = model[2].register_forward_hook(lambda _, __, out: out.register_hook(refuse) and None)
    with pytest.raises(ZeroDivisionError):
        model(x).sum().backward()
    middle.remove()
    for p in model.parameters():
        p.grad = None
    train(model, x)
    train(alone, x)
    full = gather_full_params(model)
    return all(torch.allclose(full[n], p, rtol=1e-11) for n, p in alone.named_parameters())


def test_training_goes_on_after_a_backward_pass_that_raised() -> None:
    assert ddp_lab.launch(raise_in_backward, 2) == [True, True]


def test_nothing_is_left_of_a_module_that_is_dropped() -> None:
    def train_and_drop(comm: Any) -> Any:
        whole = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        for param in whole.parameters():
            nn.init.ones_(param)
        model = fully_shard(whole, comm)
        model(torch.ones(1, 2)).sum().backward()
        return weakref.ref(model)

    models = ddp_lab.launch(train_and_drop, 2, transport="threads")
    until = time.monotonic() + 30
    while any(model() for model in models) and time.monotonic() < until:
        gc.collect()
    assert not any(model() for model in models)


def test_a_rank_that_is_lost_in_forward_is_all_that_is_said() -> None:
    def train(comm: Any) -> None:
        layer = nn.Linear(2, 2, bias=False)
        nn.init.ones_(layer.weight)
        model = fully_shard(layer, comm)
        if comm.rank == 0:
            model(torch.ones(1, 2))  # warnings are errors here

    with pytest.raises(ddp_lab.RankFailed, match="rank 1 has returned") as failed:
        ddp_lab.launch(train, 2, transport="threads")
    assert set(failed.value.failures) == {0}


MISUSE = {
    "values": "ranks disagree on 0.weight: rank 0 has float32 .*values.*, rank 1 has",
    "shapes": r"rank 0 has .*\(2, 3\).*, rank 1 has .*\(2, 4\)",
    "tied": "rank 0: 2.weight is shared with weight, which an earlier call",
    "meta": "0.weight has no values",
    "no module": "no torch module: got list",
    "dtype": "got compute_dtype=torch.int32",
    "no ranks": "no communicator: got 3",
    "twice": "Sequential is sharded already",
    "moved": "a share was replaced: 0.weight on rank",
}


def misuse(comm: Any, how: str) -> None:
    torch.manual_seed(comm.rank if how == "values" else 0)
    width = 3 + (comm.rank == 1) if how == "shapes" else 3
    model: Any = nn.Sequential(nn.Linear(width, 2), nn.Linear(2, 2))
    if how == "tied":
        model.append(nn.Linear(2, 2))
        model[2].weight = model[1].weight
        fully_shard(model[1], comm)
    if how == "meta":
        model.to("meta")
    if how == "no module":
        model = [1]
    dtype: Any = torch.int32 if how == "dtype" else None
    fully_shard(model, 3 if how == "no ranks" else comm, compute_dtype=dtype)
    if how == "twice":
        fully_shard(model, comm)
    if how == "moved":
        model.double()(torch.ones(1, 3).double())


def misuse_all(comm: Any) -> int:
    for how, says in MISUSE.items():
        with pytest.raises(ddp_lab.DdpLabError, match=says):
            misuse(comm, how)
    comm.barrier()
    return len(MISUSE)


def test_misuse_is_named_on_all_ranks() -> None:
    assert ddp_lab.launch(misuse_all, 2, timeout_s=60) == [len(MISUSE)] * 2
