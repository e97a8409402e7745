"""One step of data-parallel training, predicted: buckets, overlap, and what stays exposed.

May import: the standard library.
Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2; the recurrence is the usual one of
a single server (the link) that takes jobs (buckets) in order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class BucketSpan:
    """One bucket: its layers, and when it was ready, sent off, and averaged; seconds."""

    layers: tuple[int, ...]
    n_bytes: float
    ready_at: float
    began_at: float
    ended_at: float


@dataclass(frozen=True)
class DdpStep:
    """A predicted step; seconds from the start of the forward pass."""

    forward: float
    backward: float
    buckets: tuple[BucketSpan, ...]

    @property
    def compute_time(self) -> float:
        """Forward and backward."""
        return self.forward + self.backward

    @property
    def step_time(self) -> float:
        """When compute and communication are both over."""
        return max([self.compute_time, *(bucket.ended_at for bucket in self.buckets)])

    @property
    def communication_time(self) -> float:
        """All all-reduces together, hidden or not."""
        return sum(bucket.ended_at - bucket.began_at for bucket in self.buckets)

    @property
    def exposed_communication(self) -> float:
        """What communication adds to the step."""
        return self.step_time - self.compute_time

    @property
    def hidden_communication(self) -> float:
        """Communication that runs beside compute."""
        return self.communication_time - sum(
            bucket.ended_at - max(bucket.began_at, self.compute_time)
            for bucket in self.buckets
            if bucket.ended_at > self.compute_time
        )


def ddp(
    forward: float | Sequence[float],
    backward: Sequence[float],
    n_bytes: Sequence[float],
    bucket_bytes: float,
    all_reduce: Callable[[float], float],
    overlap: bool = True,
) -> DdpStep:
    """Return the predicted step of one rank; all ranks are alike.

    Gradients become ready one after another, as backward goes through the layers. A bucket is full
    once its bytes reach `bucket_bytes`; full buckets are averaged one at a time, in order, each
    taking `all_reduce(bytes)`. With `overlap` that runs beside the rest of backward; without,
    it begins when backward has ended.

    Args:
        forward: seconds of the forward pass, or of each layer of it.
        backward: seconds of each layer's backward, in order of readiness (last layer first).
        n_bytes: bytes of each layer's gradients, in the same order.
        bucket_bytes: size at which a bucket is closed; 0 makes a bucket of every layer.
        all_reduce: seconds for that many bytes, such as `cost.all_reduce_time` with the rest bound.

    Raises:
        ValueError: lengths differ, or a time or size is negative or not a number.
    """
    forward_time = float(forward) if isinstance(forward, int | float) else float(sum(forward))
    _check(forward_time, backward, n_bytes, bucket_bytes)
    ready_at, now = [], forward_time
    for seconds in backward:
        now += seconds
        ready_at.append(now)
    buckets: list[BucketSpan] = []
    link_free = 0.0
    for layers in _fill(n_bytes, bucket_bytes):
        total = sum(n_bytes[layer] for layer in layers)
        ready = ready_at[layers[-1]]
        began = max(ready if overlap else now, link_free)
        link_free = began + (all_reduce(total) if total else 0.0)
        buckets.append(BucketSpan(tuple(layers), total, ready, began, link_free))
    return DdpStep(forward_time, now - forward_time, tuple(buckets))


def _fill(n_bytes: Sequence[float], bucket_bytes: float) -> list[list[int]]:
    """Return the layers of each bucket: closed once its bytes reach the limit."""
    buckets: list[list[int]] = []
    filling: list[int] = []
    filled = 0.0
    for layer, size in enumerate(n_bytes):
        filling.append(layer)
        filled += size
        if filled >= bucket_bytes:
            buckets.append(filling)
            filling, filled = [], 0.0
    return [*buckets, filling] if filling else buckets


def _check(
    forward: float, backward: Sequence[float], n_bytes: Sequence[float], bucket_bytes: float
) -> None:
    if len(backward) != len(n_bytes):
        raise ValueError(
            f"ddp: one time and one size a layer: got {len(backward)} backward times and "
            f"{len(n_bytes)} sizes. Pass both in order of readiness."
        )
    named = {
        "forward": [forward],
        "backward": backward,
        "n_bytes": n_bytes,
        "bucket_bytes": [bucket_bytes],
    }
    for name, values in named.items():
        bad = next((v for v in values if not v >= 0), None)
        if bad is not None:
            raise ValueError(
                f"ddp: {name} cannot be negative: got {bad}. Pass seconds or bytes, 0 or more."
            )
