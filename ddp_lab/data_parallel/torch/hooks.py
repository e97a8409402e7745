"""Communication hooks: what torch accepts as one, and those that it has built in.

May import: torch, averaging, grad_bucket.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket as C10dGradBucket

from ddp_lab.data_parallel.averaging import Averaging
from ddp_lab.data_parallel.hooks.grad_bucket import GradBucket

BUCKETS = (C10dGradBucket, GradBucket)  # what a hook may say that its bucket is


class TensorWork:
    """A work that gives a tensor once it is done."""

    def __init__(self, work: Any, tensor: torch.Tensor) -> None:
        self._work = work
        self._tensor = tensor

    def wait(self) -> torch.Tensor:
        """Return the tensor, averaged."""
        self._work.wait()
        return self._tensor


def average_as(dtype: torch.dtype | None) -> Callable[[Averaging, GradBucket], TensorWork]:
    """Return a hook that averages buckets as `dtype`; None leaves them as they are."""

    def average(averaging: Averaging, bucket: GradBucket) -> TensorWork:
        flat = bucket.buffer()
        flat = flat.to(dtype or flat.dtype).div_(averaging.divisor())
        return TensorWork(averaging.group.all_reduce(flat), flat)

    return average
