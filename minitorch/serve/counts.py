"""What has happened to one model's queries: counters, and quantiles of late times.

May import: NumPy.
"""

from collections import deque
from dataclasses import dataclass, field
from functools import partial

import numpy as np

WINDOW = 4096  # the times that quantiles are taken of
COUNTERS = ("served", "late", "failed", "batches", "cache_hits", "restarts")
Times = deque[float]
recent_times = partial(Times, maxlen=WINDOW)


def quantiles(times_ms: Times) -> dict[str, float]:
    """Return the median and the 99th percentile, 0 of none."""
    p50, p99 = np.quantile(times_ms, (0.5, 0.99)) if times_ms else (0.0, 0.0)
    return {"p50": float(p50), "p99": float(p99)}


@dataclass(slots=True)
class Counts:
    """What has happened to one model's queries."""

    served: int = 0  # answered by it in time
    late: int = 0
    failed: int = 0  # on which it raised, or ended
    batches: int = 0
    queries: int = 0  # computed, in all batches
    cache_hits: int = 0  # also of queries that joined an equal one
    restarts: int = 0  # processes that have followed one that ended
    latency_ms: Times = field(default_factory=recent_times)

    def as_dict(self) -> dict[str, object]:
        """Return them as `Server.metrics` says them."""
        mean = self.queries / self.batches if self.batches else 0.0
        counters = {name: getattr(self, name) for name in COUNTERS}
        return counters | {"mean_batch": mean, "latency_ms": quantiles(self.latency_ms)}
