"""Buckets in memory: flat buffers of the transport, and views of them that are gradients.

May import: bucketing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ddp_lab.data_parallel.bucketing import ParamSpec


@dataclass
class Bucket:
    """A flat buffer and, for each parameter in it, the view that holds its gradient.

    `lent` has the places of the views that `deliver` has made gradients. Whoever holds such a
    gradient may keep it: then its memory must not be written to.
    """

    index: int
    params: tuple[int, ...]
    starts: list[int]
    is_last: bool = False
    flat: Any = None
    views: list[Any] = field(default_factory=list)
    lent: set[int] = field(default_factory=set)


class Slots(Protocol):
    """The gradients of a model, as arrays. `module_protocol.py` and `torch/slots.py` have one."""

    specs: list[ParamSpec]
    params: Any  # a sequence of the parameters themselves
    untouched: set[int]  # parameters that no rank used: `deliver` leaves them as they are

    def views(self, flat: Any, indices: Sequence[int], starts: Sequence[int]) -> list[Any]:
        """Cut `flat` into one view a parameter, each of its parameter's shape."""

    def dtype(self, index: int) -> Any:
        """Return what `Group.empty` takes to make a buffer for this parameter."""

    def gather(self, bucket: Bucket, scale: float) -> None:
        """Write gradient x `scale` into each view; zeros where there is no gradient."""

    def put(self, flat: Any, result: Any) -> None:
        """Write what a communication hook gave into a bucket's buffer, unless it is that."""

    def deliver(self, bucket: Bucket) -> None:
        """Make what the views hold the parameters' gradients; note those handed on in `lent`."""

    def take_back(self, bucket: Bucket) -> bool:
        """Return whether lent views may be overwritten: only their parameters hold them."""

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
        """Call `finish` once the backward now running has accumulated every gradient."""
