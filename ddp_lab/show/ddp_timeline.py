"""One step of data-parallel training, recomputed while one moves sliders; beside it a real one.

    DdpTimeline(layers=24, forward_ms=9, backward_ms=18, mib=100, ranks=8)
    DdpTimeline.of(profile, ranks=2, recorded=run.typical())      # layers and a step as measured

The browser computes what `ddp_lab.simulate.ddp` computes, with a ring's closed form for the link.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import traitlets

from ddp_lab.collectives.closed_forms import all_reduce_time
from ddp_lab.data_parallel.bucketing import MIB
from ddp_lab.data_parallel.measurement.backward_profile import BackwardProfile
from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes, union
from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Axis, Chart, module
from ddp_lab.show.svg_text import box, line, picture, text
from ddp_lab.simulate.ddp import DdpStep, ddp

HUES = {"forward": "dl-d", "backward": "dl-a", "optimizer": "dl-d"}  # of recorded compute
KINDS = {"dl-a": "backward", "dl-b": "exposed", "dl-c": "hidden", "dl-d": "forward"}  # as a poster
WIDTH, LEFT, LANE, TOP = 720, 96, 28, 52


class DdpTimeline(Chart):
    """A step of one rank; every trait is a slider of the same name.

    Args:
        layers: so many equal ones.
        forward_ms, backward_ms: of a rank alone.
        mib: of all gradients.
        ranks: how many average them, in a ring.
        recorded: a step to draw below, such as `measure(...).typical()`.
        title: what stands above.
        at: where sliders stand at first: bucket_mib, bandwidth_gb_s, latency_us, contention.
    Raises:
        InvalidArgument: no layers, no ranks, or a negative time or size.
    """

    _esm = module("ddp_timeline.js")
    case = traitlets.Dict().tag(sync=True)
    recorded: Any = traitlets.List().tag(sync=True)
    measured = traitlets.Dict().tag(sync=True)
    bucket_mib = traitlets.Float(25.0).tag(sync=True)
    bandwidth_gb_s = traitlets.Float(10.0).tag(sync=True)
    latency_us = traitlets.Float(10.0).tag(sync=True)
    layers = traitlets.Int(0).tag(sync=True)
    contention = traitlets.Float(0.0).tag(sync=True)

    def __init__(
        self,
        layers: int = 24,
        forward_ms: float = 9.0,
        backward_ms: float = 18.0,
        mib: float = 100.0,
        ranks: int = 8,
        recorded: StepTimes | None = None,
        title: str = "A step of data-parallel training",
        **at: float,
    ) -> None:
        if min(layers, ranks) < 1 or not all(x >= 0 for x in (forward_ms, backward_ms, mib)):
            raise InvalidArgument(
                f"DdpTimeline: no such step: got {layers} layers, {ranks} ranks, {forward_ms} and "
                f"{backward_ms} ms, {mib} MiB, expected 1 or more layers and ranks, and the rest "
                "0 or more."
            )
        case = {
            "title": title,
            "ranks": ranks,
            "forward": forward_ms / 1e3,
            "backward": backward_ms / 1e3,
            "n_bytes": mib * MIB,
            "layers": [],
        }
        super().__init__(case=case, recorded=spans(recorded), layers=layers, **at)

    @classmethod
    def of(
        cls,
        profile: BackwardProfile,
        ranks: int,
        recorded: StepTimes | None = None,
        title: str = "A step of data-parallel training, as measured",
        measured: Mapping[str, float] | None = None,
        **at: float,
    ) -> "DdpTimeline":
        """Return the timeline of a model whose backward was profiled, layer by layer.

        `measured` is where the sliders stood in the recorded step, where they open elsewhere: a
        button brings them there.
        """
        total_ms, total_mib = sum(profile.backward) * 1e3, sum(profile.n_bytes) / MIB
        chart = cls(1, profile.forward * 1e3, total_ms, total_mib, ranks, recorded, title, **at)
        layers = zip(profile.backward, profile.n_bytes, strict=True)
        chart.case = {**chart.case, "layers": [{"backward": s, "n_bytes": n} for s, n in layers]}
        chart.layers = 0
        chart.measured = dict(measured or {})
        return chart

    def step(self, overlap: bool = True) -> DdpStep:
        """Return what the picture shows, by `ddp_lab.simulate.ddp`."""
        case: dict[str, Any] = self.case
        count = max(int(self.layers), 1)
        backward = [case["backward"] / count] * count
        n_bytes = [case["n_bytes"] / count] * count
        if self.layers == 0 and case["layers"]:
            backward = [layer["backward"] for layer in case["layers"]]
            n_bytes = [layer["n_bytes"] for layer in case["layers"]]
        alpha, beta = self.latency_us * 1e-6, 1e-9 / self.bandwidth_gb_s
        return ddp(
            case["forward"],
            backward,
            n_bytes,
            self.bucket_mib * MIB,
            lambda n: all_reduce_time("ring", n, case["ranks"], alpha, beta),
            overlap,
            self.contention,
        )

    def heading(self) -> str:
        title: str = self.case["title"]
        return title

    def summary(self) -> str:
        step, apart = self.step(), self.step(overlap=False)
        buckets = f"{len(step.buckets)} bucket{'' if len(step.buckets) == 1 else 's'}"
        return (
            f"{self.heading()}: {step.step_time * 1e3:.3g} ms with {buckets}, "
            f"{apart.step_time * 1e3:.3g} ms without overlap; communication adds "
            f"{step.exposed_communication * 1e3:.3g} ms."
        )

    def poster(self) -> str:
        step = self.step()
        limit = max([step.step_time, 1e-9, *(span["end"] for span in self.recorded)])
        scale = (WIDTH - LEFT - 24) / limit
        lanes = list(dict.fromkeys(span["lane"] for span in self.recorded))
        marks = [text(10, 22, self.heading()), *_lanes(step, scale)]
        for row, lane in enumerate(lanes, 2):
            marks += _draw(lane, [s for s in self.recorded if s["lane"] == lane], row, scale)
        foot = TOP + (2 + len(lanes)) * (LANE + 12)
        marks.append(line([(LEFT, foot), (LEFT + limit * scale, foot)], "faint"))
        for tick in Axis(0.0, limit * 1e3).marks():
            marks.append(text(LEFT + tick / 1e3 * scale, foot + 16, f"{tick:g} ms", "middle"))
        return picture(WIDTH, foot + 28, self.summary(), marks)


def _draw(lane: str, spans: list[dict[str, Any]], row: int, scale: float) -> list[str]:
    """Return a lane of the recorded step, in the colours of the chart."""
    top = TOP + row * (LANE + 12)
    name = "link" if lane == "communication" else lane
    marks = [text(LEFT - 8, top + 12, "recorded", "end"), text(LEFT - 8, top + 26, name, "end")]
    for span in spans:
        width = (span["end"] - span["start"]) * scale - 0.5
        kind = KINDS[span["hue"]]
        marks.append(box(LEFT + span["start"] * scale, top, width, LANE, kind, span["name"]))
    return marks


def _lanes(step: DdpStep, scale: float) -> list[str]:
    def at(seconds: float) -> float:
        return LEFT + seconds * scale

    second = TOP + LANE + 12
    marks = [text(LEFT - 8, TOP + 19, "compute", "end"), text(LEFT - 8, second + 19, "link", "end")]
    marks.append(box(LEFT, TOP, step.forward * scale, LANE, "forward", "forward"))
    begins = [step.forward, *step.ready_at]
    for began, ended in zip(begins, step.ready_at, strict=False):
        marks.append(box(at(began), TOP, (ended - began) * scale - 0.5, LANE, "backward"))
    for bucket in step.buckets:
        kind = "exposed" if bucket.ended_at > step.compute_ended_at else "hidden"
        width = (bucket.ended_at - bucket.began_at) * scale - 0.5
        marks.append(box(at(bucket.began_at), second, width, LANE, kind))
    return marks


def spans(step: StepTimes | None) -> list[dict[str, Any]]:
    """Return a recorded step as JSON-ready spans, in seconds from its begin.

    Where the training thread waited there is a gap in compute, and the link is orange.
    """
    if step is None:
        return []
    waiting = union(step.blocked)
    spans: list[dict[str, Any]] = [
        {
            "lane": span.lane,
            "name": span.name,
            "start": (start - step.start_ns) / 1e9,
            "end": (end - step.start_ns) / 1e9,
            "hue": hue,
        }
        for span in step.spans()
        if span not in step.blocked
        for start, end, hue in _colour(span, waiting)
    ]
    return sorted(spans, key=lambda stretch: float(stretch["start"]))  # a name fits until the next


def _colour(span: Span, waiting: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yield the stretches of a span, cut where waiting begins and ends, with their colours."""
    talks = span.lane == "communication"
    edges = {span.start_ns, span.end_ns, *(edge for stretch in waiting for edge in stretch)}
    inside = sorted(edge for edge in edges if span.start_ns <= edge <= span.end_ns)
    for start, end in pairwise(inside):
        waited = any(first <= start and end <= last for first, last in waiting)
        if talks or not waited:
            own = "dl-b" if waited else "dl-c"
            yield start, end, own if talks else HUES.get(span.name, "dl-a")
