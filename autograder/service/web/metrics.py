"""What Prometheus is told: every request by its route, and the queue as it is at that moment."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import Scope

from autograder.service.web.course import Course

# A page of one screen, a list of a thousand, an export, an upload over a slow line.
_SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0)

_METHODS = {"GET", "HEAD", "POST", "PUT", "DELETE"}
_OTHER = "other"  # whatever else a client makes up is counted together


class Metrics(Collector):
    """The numbers of one course; errors are requests whose `status` is 400 or more.

    `others` are those of the other courses on its server, which are told with it by their names.
    """

    def __init__(self, course: Course, others: "Mapping[str, Metrics] | None" = None) -> None:
        self._course = course
        self._others = others or {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._requests = Counter(
            "course_requests",
            "Requests, by what they were answered with.",
            labelnames=("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "course_request_seconds",
            "How long requests took, their answers included.",
            labelnames=("method", "route"),
            registry=self._registry,
            buckets=_SECONDS,
        )

    def count_request(self, scope: Scope, status: int | None, seconds: float) -> None:
        """Count a request, with the route that the application has found for it."""
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        route = getattr(scope.get("route"), "path", _OTHER)
        self._requests.labels(method, route, status or "none").inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(_Whole(self))

    def families(self) -> Iterator[Metric]:
        """Yield everything, the others' with the label `course`."""
        families = {family.name: family for family in self._registry.collect()}
        for course, metrics in self._others.items():
            for family in metrics.families():
                named = [s._replace(labels={**s.labels, "course": course}) for s in family.samples]
                families[family.name].samples += named
        yield from families.values()

    def collect(self) -> Iterable[Metric]:
        """Return the state of the queue."""
        tally, reasons = self._course.queue.tally, self._course.queue.reasons()
        waiting = self._course.store.claims.waiting()
        yield _gauge("submissions_waiting", "Submissions that wait.", waiting.waiting)
        yield _gauge("submissions_grading", "Submissions being graded.", waiting.grading)
        yield _gauge("submissions_parked", "Submissions put aside.", waiting.parked)
        yield _gauge("oldest_seconds", "How long the first has waited.", waiting.oldest_s)
        yield _gauge("queue_paused", "Labs that cannot be graded now.", len(reasons))
        paused = GaugeMetricFamily(
            "course_lab_paused", "Why a lab is paused.", labels=("lab", "reason")
        )
        for lab, reason in reasons.items():
            paused.add_metric((lab, reason), 1)
        yield paused
        says = "Time of gradings."
        yield CounterMetricFamily("course_grading_seconds", says, value=tally.graded_s)
        ended = CounterMetricFamily("course_gradings", "How gradings ended.", labels=("outcome",))
        for outcome, count in tally.outcomes.items():
            ended.add_metric((outcome,), count)
        yield ended


class _Whole(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.families()


def _gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"course_{name}", says, value=value)
