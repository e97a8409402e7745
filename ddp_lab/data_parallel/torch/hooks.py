"""Communication hooks: what torch accepts as one, and those that it has built in.

May import: torch, averaging, comm_hooks, grad_bucket.
"""

from collections.abc import Callable

import torch
from torch._C._distributed_c10d import GradBucket as C10dGradBucket

from ddp_lab.data_parallel.averaging import Averaging
from ddp_lab.data_parallel.hooks.comm_hooks import Later
from ddp_lab.data_parallel.hooks.grad_bucket import GradBucket

BUCKETS = (C10dGradBucket, GradBucket)  # what a hook may say that its bucket is


def average_as(dtype: torch.dtype | None) -> Callable[[Averaging, GradBucket], Later]:
    """Return a hook that averages buckets as `dtype`; None leaves them as they are."""

    def average(averaging: Averaging, bucket: GradBucket) -> Later:
        flat = bucket.buffer()
        flat = flat.to(dtype or flat.dtype).div_(averaging.divisor)
        return Later(averaging.group.all_reduce(flat), lambda: flat)

    return average
