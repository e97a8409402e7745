"""One step of data-parallel training, predicted: buckets, overlap, and what stays exposed.

Communication may cost compute something even where it is hidden: where a rank's own core moves the
bytes, backward goes on more slowly meanwhile. `contention` is the share that is lost.

May import: the standard library.
Source: Li et al., PyTorch Distributed, VLDB 2020, section 3.2; the recurrence is the usual one of
a single server (the link) that takes jobs (buckets) in order.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


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
    """A predicted step; seconds from the start of the forward pass.

    `ready_at` is when each layer's gradient was ready. `forward` and `backward` are those of a
    rank that no communication slows.
    """

    forward: float
    backward: float
    buckets: tuple[BucketSpan, ...]
    ready_at: tuple[float, ...] = ()

    @property
    def compute_time(self) -> float:
        """Forward and backward, where nothing slows them."""
        return self.forward + self.backward

    @property
    def compute_ended_at(self) -> float:
        """When the last gradient was ready; later than `compute_time` where compute was slowed."""
        return self.ready_at[-1] if self.ready_at else self.compute_time

    @property
    def step_time(self) -> float:
        """When compute and communication are both over."""
        return max([self.compute_ended_at, *(bucket.ended_at for bucket in self.buckets)])

    @property
    def communication_time(self) -> float:
        """All all-reduces together, hidden or not."""
        return sum(bucket.ended_at - bucket.began_at for bucket in self.buckets)

    @property
    def exposed_communication(self) -> float:
        """What communication adds to the step, by what it takes and by what it slows."""
        return self.step_time - self.compute_time

    @property
    def hidden_communication(self) -> float:
        """Communication that runs beside compute."""
        end = self.compute_ended_at
        return self.communication_time - sum(
            bucket.ended_at - max(bucket.began_at, end)
            for bucket in self.buckets
            if bucket.ended_at > end
        )


def ddp(
    forward: float | Sequence[float],
    backward: Sequence[float],
    n_bytes: Sequence[float],
    bucket_bytes: float,
    all_reduce: Callable[[float], float],
    overlap: bool = True,
    contention: float = 0.0,
    reply: Callable[[float], float] | None = None,
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
        contention: the share of its speed, 0 to 1, that compute loses while a bucket travels: 0
            where other hardware moves the bytes, 1 where the rank's only core does.
        reply: seconds of a bucket's way back, which has a link of its own: with parameter servers
            the next bucket is on its way out meanwhile. Default none.
    Raises:
        ValueError: lengths differ, a time or size is negative or not a number, or contention is
            more than 1.
    """
    layers: Any = forward if hasattr(forward, "__iter__") else [forward]
    forward_time = float(sum(layers))
    _check(forward_time, backward, n_bytes, bucket_bytes, contention)
    core, link = _Core(forward_time, 1.0 - contention), _Link(all_reduce, reply)
    full: list[tuple[list[int], float, float]] = []
    ready_at: list[float] = []
    for layers in _fill(n_bytes, bucket_bytes):
        total = sum(n_bytes[layer] for layer in layers)
        ready_at += [core.work(backward[layer]) for layer in layers]
        full.append((layers, total, core.now))
        if overlap:
            core.slowed.append(link.send(*full[-1], core.now))
    for bucket in [] if overlap else full:
        link.send(*bucket, core.now)
    return DdpStep(forward_time, float(sum(backward)), tuple(link.buckets), tuple(ready_at))


class _Link:
    """What averages one bucket at a time, in order."""

    def __init__(
        self, all_reduce: Callable[[float], float], reply: Callable[[float], float] | None
    ) -> None:
        self.buckets: list[BucketSpan] = []
        self._all_reduce = all_reduce
        self._reply = reply
        self._free_at = self._ended_at = 0.0

    def send(self, layers: Sequence[int], n_bytes: float, ready: float, at: float) -> BucketSpan:
        """Average a bucket, from `at` on or from when the link is free."""
        began = max(at, self._free_at)
        self._free_at = began + (self._all_reduce(n_bytes) if n_bytes else 0.0)
        self._ended_at = max(self._ended_at, self._free_at)
        if self._reply is not None and n_bytes:
            self._ended_at += self._reply(n_bytes)
        bucket = BucketSpan(tuple(layers), n_bytes, ready, began, self._ended_at)
        self.buckets.append(bucket)
        return bucket


class _Core:
    """What computes: at speed 1, and more slowly while one of these buckets travels."""

    def __init__(self, now: float, speed_beside: float) -> None:
        self.now = now
        self.slowed: list[BucketSpan] = []  # in order of time
        self._speed = speed_beside

    def work(self, seconds: float) -> float:
        """Do what takes so many seconds at speed 1; return when it is done."""
        for bucket in self.slowed:
            free = min(seconds, max(0.0, bucket.began_at - self.now))
            self.now, seconds = self.now + free, seconds - free
            left = bucket.ended_at - self.now
            if seconds <= 0 or left <= 0:
                continue
            done = min(seconds, left * self._speed)
            self.now = self.now + done / self._speed if done == seconds else bucket.ended_at
            seconds -= done
        self.now += seconds
        return self.now


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
    forward: float,
    backward: Sequence[float],
    n_bytes: Sequence[float],
    bucket_bytes: float,
    contention: float,
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
        "contention": [contention],
    }
    for name, values in named.items():
        bad = next((v for v in values if not v >= 0), None)
        if bad is not None:
            raise ValueError(
                f"ddp: {name} cannot be negative: got {bad}. Pass seconds or bytes, 0 or more."
            )
    if contention > 1:
        raise ValueError(
            f"ddp: contention is a share of compute's speed: got {contention}, expected at most 1. "
            "Pass 1 where compute stands still while a bucket travels."
        )
