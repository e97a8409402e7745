"""Communication hooks: what is accepted as one, and the two that torch has built in.

May import: torch, torch_reducer.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket as C10dGradBucket

from ddp_lab.data_parallel.torch_reducer import GradBucket, TorchReducer

Future = torch.futures.Future[torch.Tensor]


def check_comm_hook(hook: Callable[[Any, Any], Any]) -> None:
    """Raise unless `hook` can be called as hook(state, bucket) and says nothing else.

    Raises:
        TypeError: it cannot be called.
        ValueError: its annotations are of another type than a bucket, or a future of a tensor.
    """
    if not callable(hook):
        raise TypeError(
            f"register_comm_hook: Communication hook must be callable: got {type(hook).__name__}, "
            "expected hook(state, bucket). Pass a function."
        )
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    if bucket is not None and bucket.annotation not in (
        inspect.Parameter.empty,
        C10dGradBucket,
        GradBucket,
    ):
        raise ValueError(
            "register_comm_hook: Communication hook: bucket annotation should be dist.GradBucket: "
            f"got {bucket.annotation}. Correct or drop the annotation."
        )
    if signature.return_annotation not in (inspect.Signature.empty, Future):
        raise ValueError(
            "register_comm_hook: Communication hook: return annotation should be "
            f"torch.futures.Future[torch.Tensor]: got {signature.return_annotation}. "
            "Correct or drop the annotation."
        )


def sum_hook(reducer: TorchReducer, bucket: GradBucket) -> Any:
    """Average the bucket; returns a work whose wait gives the flat tensor."""
    flat = bucket.buffer().div_(reducer.divisor())
    return _Result(reducer.group.all_reduce(flat), flat)


def fp16_sum_hook(reducer: TorchReducer, bucket: GradBucket) -> Any:
    """Average the bucket in half precision: half the bytes, 10 bits of mantissa."""
    flat = bucket.buffer().to(torch.float16).div_(reducer.divisor())
    return _Result(reducer.group.all_reduce(flat), flat)


class _Result:
    """A work that gives a tensor once it is done."""

    def __init__(self, work: Any, tensor: torch.Tensor) -> None:
        self._work = work
        self._tensor = tensor

    def wait(self) -> torch.Tensor:
        self._work.wait()
        return self._tensor
