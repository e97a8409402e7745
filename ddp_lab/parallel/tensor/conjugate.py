"""Communication inside autograd: what a layer's forward sends, its backward sends the other way.

Each function stands beside its conjugate: the forward of one is the backward of the other.

    in every rank   ->  copy    ...  reduce  ->    in every rank
    in every rank   <- reduce   ...   copy   <-    in every rank          backward

May import: torch, communicator, errors.
Source: Shoeybi et al., Megatron-LM, 2019 (f and g).
"""

from typing import Any

import torch
from torch import Tensor

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument


class CopyForwardReduceBackward(torch.autograd.Function):
    """Megatron's f: every rank uses all of x, so its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator) -> Tensor:
        ctx.comm = comm
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.comm.all_reduce(grad), None


class ReduceForwardCopyBackward(torch.autograd.Function):
    """Megatron's g: every rank has an addend, so its gradient is that of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator) -> Tensor:
        return comm.all_reduce(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class GatherForwardSplitBackward(torch.autograd.Function):
    """Every rank has a share along `dim` and gets all of them; of the gradient it keeps its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return _gather(x, comm, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _share(grad, ctx.comm, ctx.dim), None, None


class SplitForwardGatherBackward(torch.autograd.Function):
    """Every rank has all of x and keeps its share along `dim`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, comm: Communicator, dim: int) -> Tensor:
        ctx.comm, ctx.dim = comm, dim
        return _share(x, comm, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _gather(grad, ctx.comm, ctx.dim), None, None


def through(function: type[torch.autograd.Function], x: Tensor, *args: Any) -> Tensor:
    """Return `x` sent through one of the functions above."""
    result: Tensor = function.apply(x, *args)  # type: ignore[no-untyped-call]
    return result


def _gather(x: Tensor, comm: Communicator, dim: int) -> Tensor:
    rows = comm.all_gather(x)
    return torch.cat(tuple(rows), dim) if dim % x.dim() else rows.flatten(0, 1)


def _share(x: Tensor, comm: Communicator, dim: int) -> Tensor:
    """Return this rank's part of `x`, of equal ones along `dim`."""
    if x.shape[dim] % comm.size:
        raise InvalidArgument(
            f"tensor parallel: axis {dim} cannot be shared out: got {x.shape[dim]} on rank "
            f"{comm.rank}, expected a multiple of {comm.size} ranks. Pad it, or use fewer ranks."
        )
    return x.chunk(comm.size, dim)[comm.rank].clone()
