"""Several groups over the same ranks, whose collectives run beside each other.

One group runs its collectives one after another; where that leaves the link idle, between the
rounds of a ring or in a single thread's copying, a second group fills the gap.

    model = DistributedDataParallel(module, process_group=RoundRobin([comm, comm.split(0)]))
    model = DistributedDataParallel(module, process_group=RoundRobin([dist.new_group(), ...]))

May import: reduction_group, transport.
Source: Li et al., PyTorch Distributed, VLDB 2020, sections 3.3 and 5.4.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ddp_lab.data_parallel.reduction_group import Group, Work
from ddp_lab.transport.base import NDArray


class RoundRobin:
    """What to pass as `process_group`: Communicators, or torch.distributed groups, in their order.

    All join the same ranks, each rank with the same number in every one.

    Raises:
        ValueError: there is none.
        TypeError: they are of more than one kind.
    """

    def __init__(self, groups: Sequence[Any]) -> None:
        self.groups = tuple(groups)
        if not self.groups:
            raise ValueError(
                "RoundRobin: nothing to take turns: got no groups, expected one or more. "
                "Pass [comm, comm.split(0)] or several dist.new_group()."
            )
        kinds = {type(group) for group in self.groups}
        if len(kinds) > 1:
            raise TypeError(
                "RoundRobin: groups are of different kinds: got "
                f"{', '.join(sorted(kind.__name__ for kind in kinds))}, expected one. "
                "Pass Communicators, or process groups of torch.distributed."
            )

    def over(self, group_for: Callable[[Any], Group]) -> "RoundRobinGroup":
        """Return the groups, each made a `Group`, as one `Group`."""
        return RoundRobinGroup([group_for(group) for group in self.groups])


class RoundRobinGroup:
    """All-reduces go to the groups in turn; everything else to the first.

    Every rank makes the same calls in the same order, so that the turns agree.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self._turn = 0
        places = [(group.rank, group.size) for group in self.groups]
        if len(set(places)) > 1:
            raise ValueError(
                f"RoundRobin: groups are of different ranks: got (rank, size) {places}, expected "
                "the same in each. Split with the same color and key on every rank."
            )

    @property
    def rank(self) -> int:
        """This rank."""
        return self.groups[0].rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.groups[0].size

    def empty(self, numel: int, dtype: Any) -> Any:
        """Return a flat buffer of the first group's memory; the transport is one for all."""
        return self.groups[0].empty(numel, dtype)

    def all_reduce(self, flat: Any, op: str = "sum", at_wait: bool = False) -> Work:
        """Start an all-reduce in place on the group whose turn it is."""
        group = self.groups[self._turn]
        self._turn = (self._turn + 1) % len(self.groups)
        return group.all_reduce(flat, op, at_wait)

    def broadcast(self, flat: Any, root: int) -> None:
        """Overwrite `flat` with rank `root`'s."""
        self.groups[0].broadcast(flat, root)

    def counters(self, values: Sequence[int] | NDArray) -> Any:
        """Return `values` as an int64 array that `all_reduce` takes."""
        return self.groups[0].counters(values)
