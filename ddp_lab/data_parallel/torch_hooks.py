"""Communication hooks: what is accepted as one, and the two that torch has built in.

May import: torch, torch_reducer.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._C._distributed_c10d import GradBucket as C10dGradBucket

from ddp_lab.data_parallel.torch_reducer import GradBucket, TorchReducer


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
    if bucket is not None and _is_wrong(bucket.annotation, (C10dGradBucket, GradBucket)):
        raise ValueError(
            "register_comm_hook: Communication hook: bucket annotation should be dist.GradBucket: "
            f"got {bucket.annotation}. Correct or drop the annotation."
        )
    returned = signature.return_annotation
    if _is_wrong(returned, ()) and not hasattr(returned, "wait"):
        raise ValueError(
            "register_comm_hook: Communication hook: return annotation should be "
            f"torch.futures.Future[torch.Tensor]: got {returned}. Correct or drop the annotation."
        )


def _is_wrong(annotation: Any, right: tuple[type, ...]) -> bool:
    """Whether an annotation names a class, and one that is not right; `Any` and text may be."""
    anything = (inspect.Parameter.empty, Any)  # both are classes
    return isinstance(annotation, type) and annotation not in (*anything, *right)


class Sent:
    """A work that gives a tensor once it is done."""

    def __init__(self, work: Any, tensor: torch.Tensor) -> None:
        self._work = work
        self._tensor = tensor

    def wait(self) -> torch.Tensor:
        """Return the tensor, averaged."""
        self._work.wait()
        return self._tensor


def sum_hook(reducer: TorchReducer, bucket: GradBucket) -> Sent:
    """Average the bucket."""
    flat = bucket.buffer().div_(reducer.divisor())
    return Sent(reducer.group.all_reduce(flat), flat)


def fp16_sum_hook(reducer: TorchReducer, bucket: GradBucket) -> Sent:
    """Average the bucket in half precision: half the bytes, 11 bits of mantissa."""
    flat = bucket.buffer().to(torch.float16).div_(reducer.divisor())
    return Sent(reducer.group.all_reduce(flat), flat)
