"""The ranks that share something: a communicator, whatever the caller has.

May import: communicator, errors; torch_group inside functions.
"""

import sys
from typing import Any
from weakref import WeakKeyDictionary

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument

_of_groups: "WeakKeyDictionary[Any, Communicator]" = WeakKeyDictionary()
_separate: "WeakKeyDictionary[Communicator, dict[str, Communicator]]" = WeakKeyDictionary()


def communicator_of(operation: str, comm: Any) -> Communicator:
    """Return `comm`, or the communicator of a torch process group; all its ranks call this.

    Raises:
        InvalidArgument: it is neither.
    """
    if isinstance(comm, Communicator):
        return comm
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(comm, torch.distributed.ProcessGroup):
        raise InvalidArgument(
            f"{operation}: no communicator: got {comm!r}, expected a ddp_lab.Communicator or a "
            "torch process group. Use ddp_lab.launch, ddp_lab.init or torch.distributed.new_group."
        )
    if comm not in _of_groups:
        communicator = getattr(comm, "comm", None)  # a group of this package's backend has one
        if not isinstance(communicator, Communicator):
            from ddp_lab.parallel.torch_group import GroupCommunicator

            communicator = GroupCommunicator(comm)
        _of_groups[comm] = communicator
    return _of_groups[comm]


def separate(comm: Communicator, purpose: str) -> Communicator:
    """Return a communicator of the same ranks with an order of calls of its own; all ranks call it.

    It is the same one for the same `purpose` every time.
    """
    by_purpose = _separate.setdefault(comm, {})
    if purpose not in by_purpose:
        over_torch = getattr(comm, "separate_group", None)
        group = comm.split(0, comm.rank) if over_torch is None else over_torch()
        assert group is not None
        by_purpose[purpose] = group
    return by_purpose[purpose]
