"""Layers whose weights are shared out over ranks: Megatron's column and row products.

    Y = X [A_0 A_1]            column: each rank has some outputs; X is copied to all
    Z = [Y_0 Y_1] [B_0; B_1]   row: each rank has some inputs; Z is the sum of what all have

A column and then a row layer need one all-reduce forward, behind the row, and one backward, in
front of the column; what lies between them works on each rank's own share.

Shapes: B batch, T sequence, E embedding, H heads, D of a head.

May import: torch, agreement, communicator, conjugate, errors.
Source: Shoeybi et al., Megatron-LM, 2019.
"""

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree
from ddp_lab.parallel.tensor.conjugate import (
    CopyForwardReduceBackward,
    GatherForwardScatterBackward,
    GatherForwardSplitBackward,
    ReduceForwardCopyBackward,
    ScatterForwardGatherBackward,
    SplitForwardGatherBackward,
    through,
)


class ShardedLayer(nn.Module):
    """A layer of which each rank has a share; `of` makes it from a whole one."""

    @classmethod
    def of(cls, comm: Communicator, whole: Any) -> Self:
        """Return this rank's share of a layer of torch's, which all ranks have."""
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        made._take(comm, whole)
        return made.train(whole.training)

    def _take(self, comm: Communicator, whole: Any) -> None:
        raise NotImplementedError


class ColumnParallelLinear(ShardedLayer):
    """A linear layer of which each rank computes `out_features / size` outputs.

    Made from the same random numbers, its shards are the rows of torch's `nn.Linear`.

    Args:
        comm: the ranks that share the layer.
        in_features: inputs, all of which each rank gets.
        out_features: outputs, a multiple of the number of ranks.
        bias: whether there is one.
        gather_output: return all outputs on every rank, instead of this rank's.
        sequence_dim: the axis along which the ranks share out the input's rows, such as 1 of
            (B, T, E); None where each has them all.

    Raises:
        InvalidArgument, Mismatch: on every rank; sizes that cannot be shared out, or that differ.
    """

    def __init__(
        self,
        comm: Communicator,
        in_features: int,
        out_features: int,
        bias: bool = True,
        gather_output: bool = False,
        *,
        sequence_dim: int | None = None,
    ) -> None:
        super().__init__()
        facts: dict[str, Any] = {"in_features": in_features, "out_features": out_features}
        facts |= {"bias": bias, "gather_output": gather_output, "sequence_dim": sequence_dim}
        agree(comm, "ColumnParallelLinear", facts, uneven(comm, out_features=out_features))
        self._take(comm, nn.Linear(in_features, out_features, bias), gather_output, sequence_dim)

    def _take(
        self,
        comm: Communicator,
        whole: nn.Linear,
        gather_output: bool = False,
        sequence_dim: int | None = None,
    ) -> None:
        self.comm, self.gather_output, self.sequence_dim = comm, gather_output, sequence_dim
        self.weight = shard(whole.weight, comm, 0)
        self.bias = None if whole.bias is None else shard(whole.bias, comm, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return this rank's outputs, or all of them."""
        if self.sequence_dim is None:
            x = through(CopyForwardReduceBackward, x, self.comm)
        else:
            x = through(GatherForwardScatterBackward, x, self.comm, self.sequence_dim)
        y = functional.linear(x, self.weight, self.bias)
        if self.gather_output:
            y = through(GatherForwardSplitBackward, y, self.comm, -1)
        return y


class RowParallelLinear(ShardedLayer):
    """A linear layer of which each rank has `in_features / size` inputs; outputs are sums.

    Its bias is whole on every rank, and added once, behind the sum.

    Args:
        comm: the ranks that share the layer.
        in_features: inputs, a multiple of the number of ranks.
        out_features: outputs, all of which each rank gets.
        bias: whether there is one.
        input_is_parallel: each rank is given its inputs only; else all, and takes its own.
        sequence_dim: the axis along which to share out the output's rows; None to give each rank
            all of them.

    Raises:
        InvalidArgument, Mismatch: on every rank; sizes that cannot be shared out, or that differ.
    """

    def __init__(
        self,
        comm: Communicator,
        in_features: int,
        out_features: int,
        bias: bool = True,
        input_is_parallel: bool = True,
        *,
        sequence_dim: int | None = None,
    ) -> None:
        super().__init__()
        facts: dict[str, Any] = {"in_features": in_features, "out_features": out_features}
        facts |= {
            "bias": bias,
            "input_is_parallel": input_is_parallel,
            "sequence_dim": sequence_dim,
        }
        agree(comm, "RowParallelLinear", facts, uneven(comm, in_features=in_features))
        whole = nn.Linear(in_features, out_features, bias)
        if whole.bias is not None:
            whole.bias.data = comm.broadcast(whole.bias.detach())
        self._take(comm, whole, input_is_parallel, sequence_dim)

    def _take(
        self,
        comm: Communicator,
        whole: nn.Linear,
        input_is_parallel: bool = True,
        sequence_dim: int | None = None,
    ) -> None:
        self.comm, self.input_is_parallel, self.sequence_dim = comm, input_is_parallel, sequence_dim
        self.weight = shard(whole.weight, comm, 1)
        self.bias = whole.bias
        if self.bias is not None and sequence_dim is not None:
            sum_gradient(self.bias, comm)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, the same on every rank, or this rank's rows of them."""
        if not self.input_is_parallel:
            x = through(SplitForwardGatherBackward, x, self.comm, -1)
        y = functional.linear(x, self.weight)
        if self.sequence_dim is None:
            y = through(ReduceForwardCopyBackward, y, self.comm)
        else:
            y = through(ScatterForwardGatherBackward, y, self.comm, self.sequence_dim)
        return y if self.bias is None else y + self.bias


class VocabParallelEmbedding(ShardedLayer):
    """An embedding of which each rank has `num_embeddings / size` rows; outputs are whole.

    Raises:
        InvalidArgument, Mismatch: on every rank; sizes that cannot be shared out, or that differ.
    """

    def __init__(self, comm: Communicator, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        facts = {"num_embeddings": num_embeddings, "embedding_dim": embedding_dim}
        problem = uneven(comm, num_embeddings=num_embeddings)
        agree(comm, "VocabParallelEmbedding", facts, problem)
        self._take(comm, nn.Embedding(num_embeddings, embedding_dim))

    def _take(self, comm: Communicator, whole: nn.Embedding) -> None:
        self.comm, self.num_embeddings = comm, whole.num_embeddings
        self.weight = shard(whole.weight, comm, 0)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of `ids`: each rank looks up those that it has, and all are summed.

        Raises:
            IndexError: an id is outside of the vocabulary, as with `nn.Embedding`.
        """
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.num_embeddings:
            raise IndexError(
                f"VocabParallelEmbedding: no such id on rank {self.comm.rank}: got "
                f"{int(ids.min())} to {int(ids.max())}, expected 0 to {self.num_embeddings - 1}. "
                "Look at the tokenizer."
            )
        own = ids - self.comm.rank * len(self.weight)
        elsewhere = (own < 0) | (own >= len(self.weight))
        rows = functional.embedding(own.masked_fill(elsewhere, 0), self.weight)
        rows = rows.masked_fill(elsewhere.unsqueeze(-1), 0.0)
        return through(ReduceForwardCopyBackward, rows, self.comm)


class ParallelAttention(ShardedLayer):
    """Attention of which each rank computes `num_heads / size` heads, as `nn.MultiheadAttention`.

    The projections to queries, keys and values are column layers, that of the heads' outputs is a
    row layer: one all-reduce forward, behind it, and one backward for each input that differs.

    Raises:
        InvalidArgument, Mismatch: on every rank; heads that cannot be shared out, or that differ.
    """

    _qkv_same_embed_dim = False  # keeps nn.TransformerEncoderLayer from its fused whole-layer path

    def __init__(
        self,
        comm: Communicator,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        facts = {"embed_dim": embed_dim, "num_heads": num_heads, "dropout": dropout, "bias": bias}
        problem = uneven(comm, num_heads=num_heads)
        agree(comm, "ParallelAttention", facts | {"batch_first": batch_first}, problem)
        whole = nn.MultiheadAttention(embed_dim, num_heads, dropout, bias, batch_first=batch_first)
        self._take(comm, whole)

    def _take(self, comm: Communicator, whole: nn.MultiheadAttention) -> None:
        self.comm, self.batch_first, self.dropout = comm, whole.batch_first, whole.dropout
        self.num_heads = whole.num_heads // comm.size
        self.in_proj_weight = nn.Parameter(_own_heads(whole.in_proj_weight, comm))
        bias = whole.in_proj_bias
        self.in_proj_bias = None if bias is None else nn.Parameter(_own_heads(bias, comm))
        self.out_proj = RowParallelLinear.of(comm, whole.out_proj)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output, and the weights' mean over all heads if they are asked for.

        Masks mean what they mean to `nn.MultiheadAttention`: True is left out, floats are added.
        The weights cost an all-reduce of their own.
        """
        if is_causal and attn_mask is None:
            raise InvalidArgument(
                f"ParallelAttention: is_causal is a hint about a mask: got attn_mask=None on rank "
                f"{self.comm.rank}. Pass the mask too."
            )
        if not average_attn_weights and need_weights:
            raise InvalidArgument(
                f"ParallelAttention: no rank has the weights of each head: got "
                f"average_attn_weights=False on rank {self.comm.rank}. Ask for their mean."
            )
        q, k, v = self._projected(query, key, value)
        added = _added(attn_mask, key_padding_mask, q)
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + added).softmax(-1)
            out_BHTD = functional.dropout(weights, dropout) @ v
        else:
            out_BHTD = functional.scaled_dot_product_attention(q, k, v, added, dropout)
        out_BTE = self.out_proj(out_BHTD.transpose(1, 2).flatten(2))
        if query.dim() == 2:
            out_BTE = out_BTE.squeeze(0)
        elif not self.batch_first:
            out_BTE = out_BTE.transpose(0, 1)
        if not need_weights:
            return out_BTE, None
        mean = weights.sum(1) / (self.num_heads * self.comm.size)
        mean = through(ReduceForwardCopyBackward, mean, self.comm)
        return out_BTE, mean.squeeze(0) if query.dim() == 2 else mean

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Return this rank's heads of queries, keys and values, (B, H, T, D) each."""
        copies: dict[int, Tensor] = {}
        heads = []
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        inputs = (query, key, value)
        for x, weight, bias in zip(inputs, self.in_proj_weight.chunk(3), biases, strict=True):
            if id(x) not in copies:  # self-attention: one all-reduce backward, not three
                copies[id(x)] = through(CopyForwardReduceBackward, x, self.comm)
            y = functional.linear(copies[id(x)], weight, bias)
            y = y.unsqueeze(0) if x.dim() == 2 else y if self.batch_first else y.transpose(0, 1)
            heads.append(y.reshape(*y.shape[:2], self.num_heads, -1).transpose(1, 2))
        return heads


def _added(attn_mask: Tensor | None, padding: Tensor | None, q: Tensor) -> Tensor:
    """Return what is added to the scores (B, H, T, T): minus infinity where a mask leaves out."""
    added = q.new_zeros(1, 1, 1, 1)
    if padding is not None:
        padding = padding.view(-1, 1, 1, padding.shape[-1])
    if attn_mask is not None and attn_mask.dim() == 3:
        raise InvalidArgument(
            f"ParallelAttention: a mask for each head: got shape {tuple(attn_mask.shape)}, "
            "expected (T, T). Pass one mask for all heads."
        )
    for mask in (attn_mask, padding):
        if mask is not None and mask.dtype == torch.bool:
            added = added + torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, -torch.inf)
        elif mask is not None:
            added = added + mask
    return added


def _own_heads(stacked: Tensor, comm: Communicator) -> Tensor:
    """Return this rank's share of each of the three projections that lie in one tensor."""
    parts = [part.chunk(comm.size)[comm.rank] for part in stacked.detach().chunk(3)]
    return torch.cat(parts)


def shard(whole: Tensor, comm: Communicator, dim: int) -> nn.Parameter:
    """Return this rank's share of a parameter along `dim`, in memory of its own."""
    own = whole.detach().chunk(comm.size, dim)[comm.rank]
    copied = own.clone(memory_format=torch.contiguous_format)
    return nn.Parameter(copied, requires_grad=whole.requires_grad)


def sum_gradient(param: Tensor, comm: Communicator) -> None:
    """Have backward sum a parameter's gradient over ranks that each saw a share of the rows."""
    if param.requires_grad:
        param.register_hook(lambda grad: comm.all_reduce(grad))  # type: ignore[no-untyped-call]


def uneven(comm: Communicator, **sizes: Any) -> str | None:
    """Return what is wrong with sizes that the ranks are to share out evenly, None if nothing."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1 or size % comm.size:
            return (
                f"{name} cannot be shared out: got {size!r}, expected a multiple of {comm.size} "
                "ranks. Pad it, or use fewer ranks."
            )
    return None
