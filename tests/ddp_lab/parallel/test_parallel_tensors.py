"""Shared-out layers compute what the whole ones do, at the communication that is due."""

import copy

import pytest
import torch
from torch import Tensor, nn

from ddp_lab import launch
from ddp_lab.errors import DdpLabError
from ddp_lab.parallel import (
    ColumnParallelLinear,
    ParallelAttention,
    RowParallelLinear,
    VocabParallelEmbedding,
    parallelize,
)
from ddp_lab.parallel.tensor.layers import sum_gradient

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


BLOCK_PLAN = {"wte": "vocab", "attn": "heads", "*.fc1": "column", "*.fc2": "row"}


def share_of(name: str, whole: Tensor, comm) -> Tensor:
    """Return what a rank must have of a parameter, or of its gradient."""
    if "in_proj" in name:
        return torch.cat([part.chunk(comm.size)[comm.rank] for part in whole.chunk(3)])
    if name.endswith(("fc2.weight", "out_proj.weight")):
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


def encoder(comm, whole, x, mask, padding, weights) -> None:
    own = parallelize(copy.deepcopy(whole), comm, {"": "heads"})
    whole = copy.deepcopy(whole)
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    arguments = {"attn_mask": mask, "key_padding_mask": padding, "need_weights": weights}
    y, w = own(mine, mine, mine, **arguments)
    expected, expected_w = whole(theirs, theirs, theirs, **arguments)
    torch.testing.assert_close(y, expected, **CLOSE)
    (y.square().sum() + (w.square().sum() if weights else 0)).backward()
    (expected.square().sum() + (expected_w.square().sum() if weights else 0)).backward()
    torch.testing.assert_close(mine.grad, theirs.grad, **CLOSE)
    if weights:
        torch.testing.assert_close(w, expected_w, **CLOSE)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_attention_by_heads_takes_the_masks_of_torch(batch_first: bool, weights: bool) -> None:
    torch.manual_seed(0)
    whole = nn.MultiheadAttention(8, 4, batch_first=batch_first).double()
    x = torch.randn(5, 5, 8).double()
    causal = torch.ones(5, 5).triu(1).bool()
    padding = torch.zeros(5, 5, dtype=torch.bool)
    padding[1, 3:] = True
    for mask, left_out in ((None, None), (causal, None), (causal, padding), (None, padding)):
        launch(encoder, 2, whole, x, mask, left_out, weights, transport="threads")
    launch(encoder, 2, whole, x[0], causal, None, weights, transport="threads")


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


def encoder_layer(comm, whole, x) -> None:
    plan = {"self_attn": "heads", "linear1": "column", "linear2": "row"}
    own = parallelize(copy.deepcopy(whole), comm, plan)
    for training in (True, False):
        torch.testing.assert_close(own.train(training)(x), whole(x), **CLOSE)
    with torch.no_grad():
        torch.testing.assert_close(own(x), whole(x), **CLOSE)


def test_torchs_own_encoder_layer_can_be_parallelized() -> None:
    torch.manual_seed(0)
    whole = nn.TransformerEncoderLayer(8, 4, 16, dropout=0.0, batch_first=True).double()
    launch(encoder_layer, 2, whole, torch.randn(2, 5, 8).double(), transport="threads")


def shards(comm) -> list[Tensor]:
    torch.manual_seed(3)
    layers = [
        ColumnParallelLinear(comm, 4, 6, gather_output=True),
        RowParallelLinear(comm, 4, 6, input_is_parallel=False),
        VocabParallelEmbedding(comm, 4, 6),
        ParallelAttention(comm, 4, 2),
    ]
    x, ids = torch.ones(3, 4, requires_grad=True), torch.tensor([[0, 3], [1, 1]])
    column, row, embedding, attention = layers
    outs = [column(x), row(x), embedding(ids), attention(x, x, x)[0]]
    sum(out.sum() for out in outs).backward()
    return [*outs, x.grad, *(p for layer in layers for p in layer.parameters())]


def test_layers_made_on_ranks_of_one_seed_are_the_shards_of_torchs() -> None:
    ours = launch(shards, 2)
    torch.manual_seed(3)
    whole = [nn.Linear(4, 6), nn.Linear(4, 6), nn.Embedding(4, 6), nn.MultiheadAttention(4, 2)]
    x, ids = torch.ones(3, 4, requires_grad=True), torch.tensor([[0, 3], [1, 1]])
    outs = [whole[0](x), whole[1](x), whole[2](ids), whole[3](x, x, x)[0]]
    sum(out.sum() for out in outs).backward()
    for rank in (0, 1):
        for got, expected in zip(ours[rank], [*outs, x.grad], strict=False):
            torch.testing.assert_close(got, expected)
        weights = ours[rank][5:]
        assert torch.equal(weights[0], whole[0].weight.chunk(2, 0)[rank])
        assert torch.equal(weights[1], whole[0].bias.chunk(2, 0)[rank])
        assert torch.equal(weights[2], whole[1].weight.chunk(2, 1)[rank])
        assert torch.equal(weights[3], whole[1].bias)
        assert torch.equal(weights[4], whole[2].weight.chunk(2, 0)[rank])


def mlp_step(comm, whole, x, sequence: bool) -> None:
    own = parallelize(copy.deepcopy(whole), comm, {"fc1": "column", "fc2": "row"})
    x = x.clone().requires_grad_()
    if sequence:
        own.fc1.sequence_dim = own.fc2.sequence_dim = 1
        sum_gradient(own.fc2.bias, comm)
        x = x.detach().chunk(comm.size, 1)[comm.rank].clone().requires_grad_()
    y = own(x)
    y.square().sum().backward()
    return y.detach(), x.grad, own.fc2.bias.grad


@pytest.mark.parametrize("sequence", [False, True])
def test_an_mlp_costs_one_sum_forward_and_one_backward(sequence: bool) -> None:
    torch.manual_seed(0)
    whole, x = Mlp().double(), torch.randn(2, 4, 8).double()
    run = launch(mlp_step, 2, whole, x, sequence, transport="threads", record=True)
    calls = [span.op.split(":")[0] for span in run.trace.spans if span.rank == 0]
    reductions = [call for call in calls if "reduce" in call]
    theirs = x.clone().requires_grad_()
    expected = whole(theirs)
    expected.square().sum().backward()
    parts = [run[rank][:2] for rank in (0, 1)]
    if sequence:
        assert sorted(reductions) == ["all_reduce", "reduce_scatter", "reduce_scatter"]  # of a bias
        y, grad = (torch.cat(rows, 1) for rows in zip(*parts, strict=True))
    else:
        assert reductions == ["all_reduce", "all_reduce"]
        y, grad = parts[0]
        assert torch.equal(parts[1][0], y)
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
        (lambda c: ParallelAttention(c, 6, 3), "InvalidArgument", "num_heads cannot"),
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
    ],
)
def test_what_cannot_be_shared_out_is_refused_on_all_ranks(make, kind: str, says: str) -> None:
    results = launch(told, 2, make, transport="threads", timeout_s=60)
    assert {found for found, _ in results} == {kind}
    assert all(says in text for _, text in results)


def test_a_sequence_that_cannot_be_shared_out_is_refused() -> None:
    def make(comm):
        RowParallelLinear(comm, 4, 4, sequence_dim=0)(torch.ones(3, 2))

    results = launch(told, 2, make, transport="threads", timeout_s=60)
    assert all("axis 0 cannot be shared out: got 3 on rank" in text for _, text in results)
