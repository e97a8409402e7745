"""This package as a backend of `torch.distributed`: import it, then

    torch.distributed.init_process_group("ddp_lab")

Ranks on one machine share memory, found through torch's own store; others are joined by TCP.
Collectives run on a thread of their own, so that torch's DistributedDataParallel overlaps them
with its backward pass. Algorithms can be chosen by name, a learner's too:
`ddp_lab.torch_backend.use_algorithm("all_reduce", "ring")`.

When a rank fails: the end of its process, and an error inside a collective, reach the others at
once. A rank that raised anywhere else and lives on, held by a notebook or a debugger, tells nobody:
the others wait for it until `init_process_group(timeout=...)` is over. That is so over any backend,
and DistributedDataParallel over a torch group notices no more than its backend does. Under
`ddp_lab.launch` an exception ends its rank, and all others are told.
"""

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ddp_lab.collectives.registry import lookup
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.torch_backend import gloo_names
from ddp_lab.torch_backend.process_group import ProcessGroup
from ddp_lab.torch_backend.rendezvous import Roster, join, meet, share_waits
from ddp_lab.torch_backend.tensor_collectives import ALGORITHMS


def use_algorithm(collective: str, name: str) -> None:
    """Use the algorithm `name` for a collective in all groups of this process from now on.

    Raises:
        UnknownAlgorithm: the collective has no such algorithm.
    """
    if name != "auto":
        lookup(collective, name)
    ALGORITHMS[collective] = name


def create(store: Any, rank: int, size: int, timeout: timedelta) -> ProcessGroup:
    """Return a new group of `size` ranks that see the same store."""
    return _create(store, rank, meet(store, rank, size, timeout.total_seconds()), timeout)


def create_for_torch(options: Any, _: Any) -> ProcessGroup:
    """Return a new group as torch asks for it; ranks of its default group need not meet again."""
    world, ranks, store = dist.group.WORLD, options.global_ranks_in_group, options.store
    if not isinstance(world, ProcessGroup):
        return create(store, options.group_rank, options.group_size, options.timeout)
    part = world.roster.part(ranks, options.group_id)
    if part is None:
        group = create(store, options.group_rank, options.group_size, options.timeout)
    else:
        group = _create(store, options.group_rank, part, options.timeout)
    share_waits(world.comm._transport, group.comm._transport, ranks)
    return group


def _create(store: Any, rank: int, roster: Roster, timeout: timedelta) -> ProcessGroup:
    timeout_s = timeout.total_seconds()
    return ProcessGroup(
        Communicator(join(store, rank, roster, timeout_s)), timeout_s, roster, store
    )


dist.Backend.register_backend("ddp_lab", create_for_torch, extended_api=True, devices=["cpu"])
gloo_names.share()

__all__ = ["ProcessGroup", "create", "use_algorithm"]
