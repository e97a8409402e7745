"""Shared-out layers compute what the whole ones do, at the communication that is due."""

import copy

import pytest
import torch
from torch import Tensor, nn

from ddp_lab import launch
from ddp_lab.errors import DdpLabError
from ddp_lab.parallel import (
    ColumnParallelLinear,
    RowParallelLinear,
    VocabParallelEmbedding,
    parallelize,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


class Mlp(nn.Module):
    def __init__(self, width: int = 8, bias: bool = True) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 4 * width, bias)
        self.fc2 = nn.Linear(4 * width, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.tanh(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.wte = nn.Embedding(12, 8)
        self.norm = nn.LayerNorm(8)
        self.attn = nn.MultiheadAttention(8, 4, batch_first=batch_first)
        self.mlp = Mlp()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=x.dtype)
        h = self.norm(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(x)


BLOCK_PLAN = {"wte": "vocab", "*.fc1": "column", "*.fc2": "row"}


def share_of(name: str, whole: Tensor, comm) -> Tensor:
    """Return what a rank must have of a parameter, or of its gradient."""
    if name.endswith("fc2.weight"):
        return whole.chunk(comm.size, 1)[comm.rank]
    if name.endswith(("wte.weight", "fc1.weight", "fc1.bias")):
        return whole.chunk(comm.size, 0)[comm.rank]
    return whole


def against_the_whole(comm, whole: nn.Module, plan: dict[str, str], x: Tensor) -> None:
    whole = copy.deepcopy(whole)
    own = parallelize(copy.deepcopy(whole), comm, plan)
    assert [name for name, _ in own.named_parameters()] == [n for n, _ in whole.named_parameters()]
    y, expected = own(x), whole(x)
    torch.testing.assert_close(y, expected, **CLOSE)
    for out in (y, expected):
        out.square().sum().backward()
    grads = dict(own.named_parameters())
    for name, param in whole.named_parameters():
        torch.testing.assert_close(grads[name], share_of(name, param, comm), **CLOSE)
        torch.testing.assert_close(grads[name].grad, share_of(name, param.grad, comm), **CLOSE)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_parallelized_module_is_the_module_itself(ranks: int) -> None:
    torch.manual_seed(0)
    ids = torch.randint(0, 12, (3, 5))
    launch(against_the_whole, ranks, Block().double(), BLOCK_PLAN, ids, transport="threads")
    plan = {"fc1": "column", "fc2": "row"}
    x = torch.randn(2, 3, 8).double()
    launch(against_the_whole, ranks, Mlp(bias=False).double(), plan, x, transport="threads")


class Tied(nn.Module):
    """Words in and words out by one matrix, as in GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.wte(ids)))


def tied(comm, whole, ids) -> None:
    whole = copy.deepcopy(whole)
    own = parallelize(copy.deepcopy(whole), comm, {"wte": "vocab", "head": "column"})
    assert own.head.weight is own.wte.weight
    y, expected = own(ids), whole(ids)
    torch.testing.assert_close(y, expected.chunk(comm.size, -1)[comm.rank], **CLOSE)
    for out in (y, expected):
        out.square().sum().backward()
    grad = whole.wte.weight.grad.chunk(comm.size)[comm.rank]
    torch.testing.assert_close(own.wte.weight.grad, grad, **CLOSE)


def test_tied_weights_stay_tied() -> None:
    torch.manual_seed(0)
    launch(tied, 2, Tied().double(), torch.tensor([[1, 5], [7, 1]]), transport="threads")


def shards(comm) -> list[Tensor]:
    torch.manual_seed(3)
    layers = [
        ColumnParallelLinear(comm, 4, 6, gather_output=True),
        RowParallelLinear(comm, 4, 6, input_is_parallel=False),
        VocabParallelEmbedding(comm, 4, 6),
    ]
    x, ids = torch.ones(3, 4, requires_grad=True), torch.tensor([[0, 3], [1, 1]])
    column, row, embedding = layers
    outs = [column(x), row(x), embedding(ids)]
    sum(out.sum() for out in outs).backward()
    return [*outs, x.grad, *(p for layer in layers for p in layer.parameters())]


def test_layers_made_on_ranks_of_one_seed_are_the_shards_of_torchs() -> None:
    ours = launch(shards, 2)
    torch.manual_seed(3)
    whole = [nn.Linear(4, 6), nn.Linear(4, 6), nn.Embedding(4, 6)]
    x, ids = torch.ones(3, 4, requires_grad=True), torch.tensor([[0, 3], [1, 1]])
    outs = [whole[0](x), whole[1](x), whole[2](ids)]
    sum(out.sum() for out in outs).backward()
    for rank in (0, 1):
        for got, expected in zip(ours[rank], [*outs, x.grad], strict=False):
            torch.testing.assert_close(got, expected)
        weights = ours[rank][4:]
        assert torch.equal(weights[0], whole[0].weight.chunk(2, 0)[rank])
        assert torch.equal(weights[1], whole[0].bias.chunk(2, 0)[rank])
        assert torch.equal(weights[2], whole[1].weight.chunk(2, 1)[rank])
        assert torch.equal(weights[3], whole[1].bias)
        assert torch.equal(weights[4], whole[2].weight.chunk(2, 0)[rank])


def mlp_step(comm, whole, x) -> tuple[Tensor, ...]:
    own = parallelize(copy.deepcopy(whole), comm, {"fc1": "column", "fc2": "row"})
    x = x.clone().requires_grad_()
    y = own(x)
    y.square().sum().backward()
    return y.detach(), x.grad, own.fc2.bias.grad


def test_an_mlp_costs_one_sum_forward_and_one_backward() -> None:
    torch.manual_seed(0)
    whole, x = Mlp().double(), torch.randn(2, 4, 8).double()
    run = launch(mlp_step, 2, whole, x, transport="threads", record=True)
    calls = [span.op.split(":")[0] for span in run.trace.spans if span.rank == 0]
    reductions = [call for call in calls if "reduce" in call]
    theirs = x.clone().requires_grad_()
    expected = whole(theirs)
    expected.square().sum().backward()
    assert reductions == ["all_reduce", "all_reduce"]
    y, grad, _ = run[0]
    assert torch.equal(run[1][0], y)
    torch.testing.assert_close(y, expected, **CLOSE)
    torch.testing.assert_close(grad, theirs.grad, **CLOSE)
    torch.testing.assert_close(run[0][2], whole.fc2.bias.grad, **CLOSE)


def told(comm, make) -> tuple[str, str] | None:
    try:
        make(comm)
    except (DdpLabError, IndexError) as error:
        return type(error).__name__, str(error)
    return None


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (
            lambda c: ColumnParallelLinear(c, 4 + c.rank, 6),
            "Mismatch",
            "disagree on in_features: rank 0 has 4, rank 1 has 5",
        ),
        (
            lambda c: ColumnParallelLinear(c, 4, 7),
            "InvalidArgument",
            "rank 0: out_features cannot be shared out: got 7, expected a multiple of 2 ranks",
        ),
        (lambda c: RowParallelLinear(c, 7, 4), "InvalidArgument", "in_features cannot"),
        (lambda c: VocabParallelEmbedding(c, 7, 4), "InvalidArgument", "num_embeddings cannot"),
        (
            lambda c: parallelize(Mlp(), c, {"fc3": "column"}),
            "InvalidArgument",
            "rank 0: the module has no layer 'fc3': got Mlp with 'fc2', 'fc1'",
        ),
        (
            lambda c: parallelize(Mlp(), c, {"fc1": "col"}),
            "InvalidArgument",
            "the plan for 'fc1' is unknown: got 'col', expected one of column,",
        ),
        (
            lambda c: parallelize(Mlp(), c, {"fc1": "vocab"}),
            "InvalidArgument",
            "'fc1' cannot be shared out as 'vocab': got Linear, expected Embedding",
        ),
        (
            lambda c: parallelize(Mlp(), c, {f"fc{c.rank + 1}": "column"}),
            "Mismatch",
            "disagree on the plan: rank 0 has",
        ),
        (
            lambda c: parallelize(Tied(), c, {"wte": "vocab"}),
            "InvalidArgument",
            "shared out alike: got wte.weight by rows, head.weight by whole",
        ),
        (
            lambda c: parallelize(Mlp(8 + 2 * c.rank), c, {}),
            "Mismatch",
            "disagree on the shape of fc1.weight: rank 0 has (32, 8)",
        ),
        (
            lambda c: parallelize(nn.Linear(1, 1).requires_grad_(c.rank < 2), c, {}),
            "Mismatch",
            "disagree on the weights of weight",
        ),
        (
            lambda c: VocabParallelEmbedding(c, 4, 2)(torch.tensor([4])),
            "IndexError",
            "got 4 to 4, expected 0 to 3",
        ),
        (
            lambda c: RowParallelLinear(c, 8, 3)(torch.ones(1, 8)),
            "InvalidArgument",
            "these are not this rank's inputs: got 8, expected 4. Put a column layer in front",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_refused_on_all_ranks(make, kind: str, says: str) -> None:
    results = launch(told, 2, make, transport="threads", timeout_s=60)
    assert {found for found, _ in results} == {kind}
    assert all(says in text for _, text in results)


def test_an_axis_that_cannot_be_shared_out_is_refused() -> None:
    def make(comm):
        RowParallelLinear(comm, 4, 4, input_is_parallel=False)(torch.ones(2, 3))

    results = launch(told, 2, make, transport="threads", timeout_s=60)
    assert all("axis -1 cannot be shared out: got 3 on rank" in text for _, text in results)
