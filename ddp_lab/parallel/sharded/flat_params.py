"""The parameters of one unit of ZeRO-3: shares that stay, whole ones that come and go.

A module saves views of its whole parameters for backward. These views stay valid when the memory
beneath them is freed and allocated again, because a storage can be resized. So the whole parameters
are the same objects in every step, and have memory only while they are needed. Autograd does not
notice: the transport writes into that memory directly, and autograd counts only changes that go
through it. torch's fully_shard works in the same way.

May import: torch, communicator, errors, flat_layout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakMethod

import torch
from torch import Tensor, nn

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.sharded.flat_layout import FlatLayout, empty


@dataclass
class Owner:
    """A module that has a parameter under a name; `name` is the qualified one."""

    module: nn.Module
    attribute: str
    name: str


Params = list[tuple[nn.Parameter, list[Owner]]]


class FlatParams:
    """Parameters of one dtype that are gathered and reduced together.

    `shares` are this rank's parameters, views of `row`; `whole` has memory between `gather` and
    `free`, and `params` are the views of it that a forward pass finds. Invariant: `params` are
    leaves of autograd and never replaced.
    """

    def __init__(
        self,
        gathers: Communicator,
        reduces: Communicator,
        params: Params,
        compute_dtype: torch.dtype | None,
    ) -> None:
        self.gathers, self.reduces = gathers, reduces
        self.shares = shares = [param for param, _ in params]
        self.owners = [owners for _, owners in params]
        self.layout = FlatLayout([p.shape for p in shares], gathers.size)
        self.trains = shares[0].requires_grad
        self.row = empty(gathers, self.layout.row, shares[0].detach())
        self.pass_number = -1  # the forward pass for which it was gathered
        self.is_whole = False
        self.arrived: set[int] = set()  # parameters that have a gradient in this backward pass
        self.on_arrival: Callable[[], object] = bool
        self._gathering: Any = None
        self._grads: Tensor | None = None
        self._reducing: Any = None
        self._reduced: Tensor | None = None
        self._keep_own_row(gathers.rank)
        floating = shares[0].is_floating_point()
        self._make_whole(gathers.size, (compute_dtype if floating else None) or shares[0].dtype)

    @torch.no_grad()
    def _keep_own_row(self, rank: int) -> None:
        self.row.zero_()
        parts, in_row = self.layout.parts(rank), self.layout.shares(self.row, rank)
        for i, share in enumerate(self.shares):
            in_row[i].copy_(share.reshape(-1)[parts[i]])
            share.data = in_row[i]
            share.grad = None
            share._ddp_lab_share = self, i  # type: ignore[attr-defined]

    def _make_whole(self, size: int, dtype: torch.dtype) -> None:
        device = self.row.device
        self.whole = torch.empty(size * self.layout.row, dtype=dtype, device=device)
        self.params = [
            nn.Parameter(view, requires_grad=self.trains) for view in self.layout.views(self.whole)
        ]
        if self.trains:
            arrive = WeakMethod(self._arrive)  # autograd's references are not seen by the collector
            for i, param in enumerate(self.params):
                hook: Any = param.register_post_accumulate_grad_hook
                hook(partial(_call_if_alive, arrive, i))
        self.whole.untyped_storage().resize_(0)

    # Parameters

    def gather(self, pass_number: int) -> None:
        """Start to gather the whole parameters, unless they are there for this forward pass."""
        if self._gathering is not None or (self.is_whole and self.pass_number == pass_number):
            return
        self.pass_number = pass_number
        self._check_shares()
        self.whole.untyped_storage().resize_(self.whole.nbytes)
        own = self.row.to(self.whole.dtype)  # itself, where that is its own
        rows = self.whole.view(self.layout.ranks, -1)
        self._gathering = self.gathers.all_gather(own, out=rows, async_op=True)

    def wait(self) -> None:
        """Wait for the whole parameters that `gather` asked for."""
        gathering, self._gathering = self._gathering, None
        if gathering is not None:
            gathering.wait()
            self.is_whole = True

    @property
    def has_memory(self) -> bool:
        """Whether the whole parameters have memory."""
        return self.is_whole or self._gathering is not None

    def free(self) -> None:
        """Free the memory of the whole parameters."""
        self.wait()
        self.whole.untyped_storage().resize_(0)
        self.is_whole = False

    def install(self, params: Sequence[nn.Parameter]) -> None:
        """Put `params` or `shares` into the modules, under their names there."""
        for owners, param in zip(self.owners, params, strict=True):
            for owner in owners:
                if type(owner.module).__setattr__ is nn.Module.__setattr__:
                    owner.module._parameters[owner.attribute] = param
                else:  # as recurrent layers, which keep a list of their own
                    setattr(owner.module, owner.attribute, param)

    def _check_shares(self) -> None:
        """Check that the modules still have the shares, in the memory that other ranks read."""
        begin, width = self.row.data_ptr(), self.row.element_size()
        end = begin + self.row.numel() * width
        for share, param, owners in zip(self.shares, self.params, self.owners, strict=True):
            current = owners[0].module._parameters[owners[0].attribute]
            at = share.data_ptr()
            lies_here = not share.numel() or begin <= at <= end - share.numel() * width
            if (
                (current is share or current is param)
                and lies_here
                and share.dtype == self.row.dtype
            ):
                if self.trains:
                    param.requires_grad_(share.requires_grad)
                continue
            raise InvalidArgument(
                f"fully_shard: a share was replaced: {owners[0].name} on rank {self.gathers.rank} "
                f"is not the {self.row.dtype} tensor that fully_shard left there. Convert or move "
                "the module before, and load into the shares in place."
            )

    # Gradients

    def _arrive(self, i: int, param: Tensor) -> None:
        """Move a gradient into the flat one, adding to what a use before has left there."""
        assert param.grad is not None
        if self._grads is None:
            self._grads = empty(self.reduces, self.whole.numel(), self.row)
        start = self.layout.starts[i]
        into = self._grads[start : start + param.numel()].view(param.shape)
        if i in self.arrived:
            into += param.grad
        else:
            into.copy_(param.grad.to_dense() if param.grad.is_sparse else param.grad)
        param.grad = None
        self.arrived.add(i)
        self.on_arrival()

    @property
    def complete(self) -> bool:
        """Whether all gradients have come."""
        return len(self.arrived) >= sum(param.requires_grad for param in self.params)

    def reduce(self) -> None:
        """Start to average the gradients over all ranks, each of which gets its row of them."""
        grads = self._grads
        if grads is None:
            grads = empty(self.reduces, self.whole.numel(), self.row)
        for i, view in enumerate(self.layout.views(grads)):
            if i not in self.arrived:
                view.zero_()
        grads[self.layout.numel :] = 0
        rows = grads.view(self.layout.ranks, -1)
        self._grads = None
        self._reducing = self.reduces.reduce_scatter(rows, "avg", async_op=True)

    def wait_for_gradients(self) -> None:
        """Wait until this rank has its row of the averages; then the whole ones need no memory."""
        if self._reducing is not None:
            self._reduced = self._reducing.wait()
            self._reducing = None

    def keep_gradients(self, used: Sequence[bool]) -> None:
        """Add what has been reduced to the shares' gradients, where any rank had one."""
        reduced, self._reduced = self._reduced, None
        self.arrived.clear()
        assert reduced is not None
        grads = self.layout.shares(reduced, self.gathers.rank)
        for share, grad, is_used in zip(self.shares, grads, used, strict=True):
            if not is_used:
                continue
            if share.grad is None:
                share.grad = grad
            else:
                share.grad += grad

    def drop_gradients(self) -> None:
        """Drop what a backward pass that failed has left."""
        self._grads = self._reducing = self._reduced = None
        self.arrived.clear()


def _call_if_alive(method: "WeakMethod[Callable[..., None]]", *args: Any) -> None:
    call = method()
    if call is not None:
        call(*args)
