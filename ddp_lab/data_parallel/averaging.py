"""How a bucket is averaged over the ranks: by an all-reduce, or by a communication hook.

May import: grad_bucket, reduction_group.
"""

from typing import Any

from ddp_lab.data_parallel.hooks.grad_bucket import CommHook, GradBucket
from ddp_lab.data_parallel.reduction_group import AtWait, Group, Work


class Averaging:
    """Averages buckets over a group: by an all-reduce and a divisor, or by a communication hook.

    The divisor is the number of ranks, unless some have no inputs left.
    """

    def __init__(self, group: Group) -> None:
        self.hook: tuple[CommHook, Any] | None = None  # and its state
        self.join(group)

    def join(self, group: Group) -> None:
        """Go on over this group."""
        self.group = group
        self.divisor: float = group.size

    def scale(self) -> float:
        """Return by what gradients are multiplied in a bucket: a hook divides by itself."""
        return 1.0 if self.hook else 1.0 / self.divisor

    def start(self, bucket: Any, slots: Any) -> Work:
        """Start to average what a bucket holds; `slots` are its parameters'."""
        if self.hook is None:
            # Backward is over when the last bucket is full: this thread has nothing else to do.
            return self.group.all_reduce(bucket.flat, at_wait=bucket.is_last)
        hook, state = self.hook
        future = hook(state, GradBucket(bucket, slots.params))
        return AtWait(lambda: slots.put(bucket.flat, future.wait()))
