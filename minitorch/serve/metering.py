"""What a server counts, and the same as Prometheus reads it.

May import: minitorch.extras; prometheus_client, inside functions.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch.extras import missing

WINDOW = 4096  # the latencies that quantiles are taken of


@dataclass(slots=True)
class Counts:
    """What has happened to one model's queries.

    Attributes:
        served: answered by it in time.
        late: not answered in time.
        failed: on which it raised, or ended.
        queries: computed, in all batches.
    """

    served: int = 0
    late: int = 0
    failed: int = 0
    batches: int = 0
    queries: int = 0
    cache_hits: int = 0
    latency_ms: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))

    def as_dict(self, restarts: int) -> dict[str, Any]:
        """Return them as `Server.metrics` says them."""
        p50, p99 = np.quantile(self.latency_ms, (0.5, 0.99)) if self.latency_ms else (0.0, 0.0)
        return {
            "served": self.served,
            "late": self.late,
            "failed": self.failed,
            "batches": self.batches,
            "mean_batch": self.queries / self.batches if self.batches else 0.0,
            "latency_ms": {"p50": float(p50), "p99": float(p99)},
            "cache_hits": self.cache_hits,
            "restarts": restarts,
        }


COUNTERS = {
    "served": "queries answered in time",
    "late": "queries not answered in time",
    "failed": "queries on which the model raised",
    "batches": "batches computed",
    "cache_hits": "queries answered from the cache, or together with an equal one",
    "restarts": "processes started again",
}


def prometheus(metrics: Callable[[], dict[str, Any]]) -> Callable[[], bytes]:
    """Return what gives the metrics of a server as text for Prometheus."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
        from prometheus_client.registry import Collector
    except ImportError as error:
        raise ModuleNotFoundError(missing("serve", "serve", error)) from error

    class Now(Collector):
        """Asks the server at each scrape."""

        def collect(self) -> Iterable[Any]:
            found = metrics()
            for name, words in COUNTERS.items():
                family = CounterMetricFamily(f"serve_{name}", words, labels=["model"])
                for model, counts in found["models"].items():
                    family.add_metric([model], counts[name])
                yield family
            size = GaugeMetricFamily("serve_mean_batch", "queries a batch", labels=["model"])
            times = GaugeMetricFamily(
                "serve_latency_ms", "from asked to answered", labels=["model", "quantile"]
            )
            for model, counts in found["models"].items():
                size.add_metric([model], counts["mean_batch"])
                times.add_metric([model, "0.5"], counts["latency_ms"]["p50"])
                times.add_metric([model, "0.99"], counts["latency_ms"]["p99"])
            weights = GaugeMetricFamily(
                "serve_weight", "weight of a model in an app", labels=["app", "model"]
            )
            for app, kept in found["apps"].items():
                for model, weight in kept["weights"].get(None, {}).items():
                    weights.add_metric([app, model], weight)  # of users there may be too many
            yield from (size, times, weights)

    registry = CollectorRegistry()
    registry.register(Now())
    return lambda: generate_latest(registry)
