"""When a bucket may be launched: the rule that keeps every rank's collectives in one order.

A bucket that is full is launched only after all buckets before it. Ranks may finish their
gradients in different orders; were a bucket sent as soon as it is full, rank 0's first
all-reduce would meet rank 1's first, whatever they hold, and the sums would be silently wrong.

May import: the standard library.
"""

from collections.abc import Callable, Sequence
from typing import Any


class LaunchOrder:
    """Counts gradients that are ready and says which buckets may go, in fixed order.

    Invariant: buckets 0 .. `launched`-1 have been handed out, each once, in that order.
    """

    def __init__(self, buckets: Sequence[Sequence[int]] = ()) -> None:
        self._pending: list[int] = []
        self.bucket_of: dict[int, int] = {}
        self.ready: dict[int, None] = {}  # parameter indices, in the order of their arrival
        self.arrange(buckets)

    def arrange(self, buckets: Sequence[Sequence[int]]) -> None:
        """Take other buckets, and start an iteration."""
        self._sizes = [len(bucket) for bucket in buckets]
        self.bucket_of.clear()
        self.bucket_of.update((i, b) for b, bucket in enumerate(buckets) for i in bucket)
        self.reset()

    def reset(self) -> None:
        """Start an iteration: no gradient is ready, no bucket launched."""
        self._pending[:] = self._sizes
        self.ready.clear()
        self.launched = 0

    def close(self) -> None:
        """End an iteration: `counter` counts no more until the next one."""
        self._pending[:] = [0] * len(self._sizes)

    def counter(self, index: int, otherwise: Callable[[], None]) -> Callable[[Any], None]:
        """Return a hook that marks gradient `index`, or calls `otherwise` to do so.

        That is what there is more to do for: the first gradient of an iteration, the last one of
        a bucket, one that comes twice, and any while no iteration is under way. Most hooks only
        count, and a step may call thousands.
        """
        ready, pending, bucket_of = self.ready, self._pending, self.bucket_of

        def count(_param: Any) -> None:
            bucket = bucket_of[index]
            left = pending[bucket]
            if left > 1 and ready and index not in ready:
                ready[index] = None
                pending[bucket] = left - 1
            else:
                otherwise()

        return count

    def mark(self, index: int) -> range:
        """Note that gradient `index` is ready; return the buckets that may be launched now.

        Raises:
            ValueError: this gradient was ready before in this iteration.
        """
        if index in self.ready:
            raise ValueError(f"mark: gradient {index} is ready twice in one iteration.")
        self.ready[index] = None
        self._pending[self.bucket_of[index]] -= 1
        first = self.launched
        while not self.complete and not self._pending[self.launched]:
            self.launched += 1
        return range(first, self.launched)

    @property
    def complete(self) -> bool:
        """Whether every bucket has been launched."""
        return self.launched == len(self._sizes)

    @property
    def missing(self) -> list[int]:
        """Indices of the parameters that have no gradient yet, ascending."""
        return sorted(i for i in self.bucket_of if i not in self.ready)
