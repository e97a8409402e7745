"""A `ddp_lab.Communicator` as a `Group` of NumPy arrays.

May import: NumPy, reduction_group, transport. The communicator comes from outside.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ddp_lab.data_parallel.reduction_group import AtWait, Group, Work
from ddp_lab.transport.base import NDArray


class CommunicatorGroup(Group):
    """Reduces flat arrays in place, on the communicator's own thread, in the order of the calls.

    `algorithm` is a name of `ddp_lab.algorithms("all_reduce")`, a learner's own included.
    """

    def __init__(self, communicator: Any, algorithm: str = "auto") -> None:
        self.communicator = communicator
        self.algorithm = algorithm
        self.rank: int = communicator.rank
        self.size: int = communicator.size

    def empty(self, numel: int, dtype: Any) -> Any:
        return self.communicator.empty((numel,), dtype)

    def all_reduce(self, flat: Any, op: str = "sum", at_wait: bool = False) -> Work:
        call = partial(self.communicator.all_reduce, flat, op, self.algorithm, out=flat)
        work: Work = AtWait(call) if at_wait else call(async_op=True)
        return work

    def broadcast(self, flat: Any, root: int) -> None:
        flat[...] = self.communicator.broadcast(flat, root)

    def counters(self, values: Sequence[int] | NDArray) -> Any:
        return np.array(values, dtype=np.int64)


def is_communicator(value: Any) -> bool:
    """Whether `value` has what a `CommunicatorGroup` needs of a communicator."""
    names = ("rank", "size", "all_reduce", "broadcast", "empty", "split")
    return all(hasattr(value, name) for name in names)
