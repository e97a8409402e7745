"""Layers whose weights are shared out over ranks: Megatron's column and row products.

    Y = X [A_0 A_1]            column: each rank has some outputs; X is copied to all
    Z = [Y_0 Y_1] [B_0; B_1]   row: each rank has some inputs; Z is the sum of what all have

A column and then a row layer need one all-reduce forward, behind the row, and one backward, in
front of the column; what lies between them works on each rank's own share.

May import: torch, agreement, communicator, conjugate, errors, groups.
Source: Shoeybi et al., Megatron-LM, 2019.
"""

from numbers import Integral
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree
from ddp_lab.parallel.groups import communicator_of
from ddp_lab.parallel.tensor.conjugate import (
    CopyForwardReduceBackward,
    GatherForwardSplitBackward,
    ReduceForwardCopyBackward,
    SplitForwardGatherBackward,
    through,
)


class ShardedLayer(nn.Module):
    """A layer of which each rank has a share; `of` makes it from a whole one."""

    @classmethod
    def of(cls, comm: Communicator, whole: Any) -> Self:
        """Return this rank's share of a layer of torch's, which all ranks have."""
        share = cls.__new__(cls)
        nn.Module.__init__(share)
        share._take(comm, whole)
        return share.train(whole.training)

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
    ) -> None:
        super().__init__()
        comm = communicator_of("ColumnParallelLinear", comm)
        facts: dict[str, Any] = {"in_features": in_features, "out_features": out_features}
        facts |= {"bias": bias, "gather_output": gather_output}
        agree(comm, "ColumnParallelLinear", facts, uneven(comm, out_features=out_features))
        self._take(comm, nn.Linear(in_features, out_features, bias), gather_output)

    def _take(self, comm: Communicator, whole: nn.Linear, gather_output: bool = False) -> None:
        self.comm, self.gather_output = comm, gather_output
        self.weight = shard(whole.weight, comm, 0)
        self.bias = None if whole.bias is None else shard(whole.bias, comm, 0)

    def forward(self, x: Tensor) -> Tensor:
        """Return this rank's outputs, or all of them."""
        x = through(CopyForwardReduceBackward, x, self.comm)
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
    ) -> None:
        super().__init__()
        comm = communicator_of("RowParallelLinear", comm)
        facts: dict[str, Any] = {"in_features": in_features, "out_features": out_features}
        facts |= {"bias": bias, "input_is_parallel": input_is_parallel}
        agree(comm, "RowParallelLinear", facts, uneven(comm, in_features=in_features))
        whole = nn.Linear(in_features, out_features, bias)
        if whole.bias is not None:
            whole.bias.data = comm.broadcast(whole.bias.detach())
        self._take(comm, whole, input_is_parallel)

    def _take(self, comm: Communicator, whole: nn.Linear, input_is_parallel: bool = True) -> None:
        self.comm, self.input_is_parallel = comm, input_is_parallel
        self.weight = shard(whole.weight, comm, 1)
        self.bias = whole.bias

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, the same on every rank.

        Raises:
            InvalidArgument: x has not as many inputs as this rank.
        """
        if not self.input_is_parallel:
            x = through(SplitForwardGatherBackward, x, self.comm, -1)
        if x.shape[-1] != self.weight.shape[1]:
            raise InvalidArgument(
                f"RowParallelLinear: these are not this rank's inputs: got {x.shape[-1]}, expected "
                f"{self.weight.shape[1]}. Put a column layer in front of it, or make it with "
                "input_is_parallel=False, which takes all of them."
            )
        y = functional.linear(x, self.weight)
        y = through(ReduceForwardCopyBackward, y, self.comm)
        return y if self.bias is None else y + self.bias


class VocabParallelEmbedding(ShardedLayer):
    """An embedding of which each rank has `num_embeddings / size` rows; outputs are whole.

    Raises:
        InvalidArgument, Mismatch: on every rank; sizes that cannot be shared out, or that differ.
    """

    def __init__(self, comm: Communicator, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        comm = communicator_of("VocabParallelEmbedding", comm)
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


def shard(whole: Tensor, comm: Communicator, dim: int) -> nn.Parameter:
    """Return this rank's share of a parameter along `dim`, in memory of its own."""
    own = whole.detach().chunk(comm.size, dim)[comm.rank]
    copied = own.clone(memory_format=torch.contiguous_format)
    return nn.Parameter(copied, requires_grad=whole.requires_grad)


def uneven(comm: Communicator, **sizes: Any) -> str | None:
    """Return what is wrong with sizes that the ranks are to share out evenly, None if nothing."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1 or size % comm.size:
            return (
                f"{name} cannot be shared out: got {size!r}, expected a multiple of {comm.size} "
                "ranks. Pad it, or use fewer ranks."
            )
    return None
