"""Communication hooks: what torch accepts as one, and the two that it has built in.

May import: torch, averaging, grad_bucket.
"""

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


def sum_hook(averaging: Averaging, bucket: GradBucket) -> TensorWork:
    """Average the bucket."""
    flat = bucket.buffer().div_(averaging.divisor())
    return TensorWork(averaging.group.all_reduce(flat), flat)


def fp16_sum_hook(averaging: Averaging, bucket: GradBucket) -> TensorWork:
    """Average the bucket in half precision: half the bytes, 11 bits of mantissa."""
    flat = bucket.buffer().to(torch.float16).div_(averaging.divisor())
    return TensorWork(averaging.group.all_reduce(flat), flat)
