"""A torch process group as a communicator, with torch's own collectives where they are faster.

Messages over a group are torch messages and copies (`transport.c10d`): good enough for what ranks
agree about. Shares of parameters and gradients are moved by the collectives of the group itself.

May import: torch, communicator, transport.c10d.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ddp_lab.communicator.calls import Call
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.transport.c10d.c10d import C10dTransport

Collective = Callable[..., Any]
# torch 2.13 has new names for two of its collectives, and warns of the old ones.
gather_single: Collective = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
scatter_single: Collective = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


class GroupWork:
    """Collectives of torch under way; `wait` returns their result."""

    def __init__(self, works: list[Any], result: Callable[[], Any]) -> None:
        self._works, self._result = works, result

    def wait(self) -> Any:
        """Return the result."""
        for work in self._works:
            work.wait()
        return self._result()


class GroupCommunicator(Communicator):
    """All the ranks of `group`; those that `split` makes of it send messages alone."""

    def __init__(self, group: Any) -> None:
        super().__init__(C10dTransport(group))
        self._group = group

    def _join(self, members: tuple[int, ...], rank: int, context: int) -> None:
        super()._join(members, rank, context)
        self._is_group = context == 0

    def _execute(self, call: Call) -> Any:
        """Run a collective; all of it is out then, for the group may be destroyed next."""
        result = super()._execute(call)
        self._transport.close()
        return result

    def separate_group(self) -> "GroupCommunicator":
        """Return a communicator over another group of the same ranks."""
        ranks = dist.get_process_group_ranks(self._group)
        kind = dist.get_backend(self._group)
        return GroupCommunicator(
            dist.new_group(ranks, backend=kind, use_local_synchronization=True)
        )

    def all_gather(
        self, x: Any, algorithm: str = "auto", async_op: bool = False, *, out: Any = None
    ) -> Any:
        """Return all ranks' `x`; by the group's collective if it is a tensor, with `out`."""
        if not self._is_group or algorithm != "auto" or not isinstance(out, torch.Tensor):
            return super().all_gather(x, algorithm, async_op, out=out)
        rows, group = out.data, self._group  # `data`: autograd is not to count this as a change
        if x.data_ptr() == rows[self.rank].data_ptr():  # in place: gloo would copy all of it
            works = [
                dist.broadcast(row, group=group, group_src=rank, async_op=True)
                for rank, row in enumerate(rows)
            ]
        else:
            works = [gather_single(rows.view(-1), x.data, group=group, async_op=True)]
        work = GroupWork(works, lambda: out)
        return work if async_op else work.wait()

    def reduce_scatter(
        self, x: Any, op: str = "sum", algorithm: str = "auto", async_op: bool = False
    ) -> Any:
        """Return row `rank` of the reduction; averages of tensors by the group's collective."""
        is_tensor = isinstance(x, torch.Tensor) and x.is_contiguous()
        if not self._is_group or algorithm != "auto" or op != "avg" or not is_tensor:
            return super().reduce_scatter(x, op, algorithm, async_op)
        row = torch.empty_like(x[0])
        scattering = scatter_single(row, x.view(-1), group=self._group, async_op=True)
        work = GroupWork([scattering], lambda: row.div_(self.size))
        return work if async_op else work.wait()
