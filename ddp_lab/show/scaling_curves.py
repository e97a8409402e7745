"""How training scales, recomputed while one moves sliders, with published points beside it.

    ScalingCurves()                                   # the runs of `published`
    ScalingCurves(model="VGG-16, P100s", gbit=100)

The browser computes what `ddp_lab.simulate.training` computes for data parallelism.
"""

from typing import Any

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Axis, Chart, Plot, module
from ddp_lab.show.svg_text import line, picture, text
from ddp_lab.simulate import published
from ddp_lab.simulate.cluster import cluster
from ddp_lab.simulate.published import CitedRun
from ddp_lab.simulate.training import MIB, training

DEVICES = tuple(2**k for k in range(11))
WIDTH, HEIGHT, LEFT, TOP = 720, 320, 64, 44
RIGHT, BASE = WIDTH - 170, HEIGHT - 44


class ScalingCurves(Chart):
    """Efficiency by number of devices, with and without overlap; every trait is a slider.

    Args:
        runs: what can be chosen, by name; those of `published.cited_runs` unless given.
        model: the name of the one to begin with.
        at: where sliders stand at first, if not as in that run: devices, gbit, latency_us,
            bucket_mib, servers (0: as many as devices), strategy.
    Raises:
        InvalidArgument: no run of that name.
    """

    _esm = module("scaling_curves.js")
    title = traitlets.Unicode("Data-parallel training, predicted and published").tag(sync=True)
    models = traitlets.Dict().tag(sync=True)
    model = traitlets.Unicode().tag(sync=True)
    strategy = traitlets.Unicode("all_reduce").tag(sync=True)
    devices = traitlets.Int(512).tag(sync=True)
    gbit = traitlets.Float(25.0).tag(sync=True)
    latency_us = traitlets.Float(10.0).tag(sync=True)
    bucket_mib = traitlets.Float(64.0).tag(sync=True)
    servers = traitlets.Int(0).tag(sync=True)

    def __init__(self, runs: dict[str, CitedRun] | None = None, model: str = "", **at: Any) -> None:
        self._runs = published.cited_runs() if runs is None else dict(runs)
        name = model or next(iter(self._runs), "")
        if name not in self._runs:
            raise InvalidArgument(
                f"ScalingCurves: no such run: got {name!r}, expected one of "
                f"{', '.join(self._runs)}. Choose one of these names."
            )
        models = {name: _facts(run) for name, run in self._runs.items()}
        super().__init__(models=models, model=name, **models[name]["run"] | at)

    def efficiency(self, devices: int, overlap: bool = True) -> float:
        """Return what a curve shows there, by `ddp_lab.simulate.training`."""
        run = self._runs[self.model]
        full = run.cluster.devices_per_host
        hosts = cluster(
            max(1, devices // full),
            full,
            run.cluster.flops,
            run.cluster.intra,
            (self.latency_us * 1e-6, 8e-9 / self.gbit),
        )
        return training(
            run.workload,
            hosts,
            dp=devices,
            batch=devices * run.each,
            strategy=self.strategy,
            servers=self.servers or None if self.strategy == "parameter_server" else None,
            bucket_bytes=self.bucket_mib * MIB,
            overlap=overlap,
        ).efficiency

    def summary(self) -> str:
        run = self._runs[self.model]
        best, worst = (self.efficiency(self.devices, overlap) for overlap in (True, False))
        cited = ", ".join(f"{share:.1%} on {p}" for p, share in run.points)
        return (
            f"{self.model} on {self.devices} devices: {best:.1%} with overlap, {worst:.1%} without."
            f" Published: {cited} ({run.source})."
        )

    def poster(self) -> str:
        across, up = Axis(1, DEVICES[-1], logarithmic=True), Axis(0.0, 1.0)
        plot = Plot(across, up, LEFT, RIGHT, TOP, BASE)
        levels = [(share, f"{share:.0%}") for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
        marks = [text(10, 22, f"{self.title}: {self.model}")]
        marks += plot.frame([(p, str(p)) for p in DEVICES], levels, "devices")
        for y, name, overlap, kind, dash in (
            (TOP, "with overlap", True, "backward", ""),
            (TOP + 20, "without", False, "hidden", "7 4"),
        ):
            curve = [plot.at(p, self.efficiency(p, overlap)) for p in DEVICES]
            marks += [line(curve, kind, 2, dash), *plot.legend(y, name, kind, 2, dash)]
        for x, height in (plot.at(*point) for point in self._runs[self.model].points):
            marks.append(line([(x - 5, height), (x + 5, height)], "exposed", 3))
            marks.append(line([(x, height - 5), (x, height + 5)], "exposed", 3))
        marks.append(text(RIGHT + 58, TOP + 44, "+ published"))
        return picture(WIDTH, HEIGHT, self.summary(), marks)


def _facts(run: CitedRun) -> dict[str, Any]:
    """Return a run as JSON-ready data: seconds of each layer's forward, and its bytes."""
    hosts = run.cluster
    alpha, beta = hosts.inter
    return {
        "source": run.source,
        "per_host": hosts.devices_per_host,
        "intra": list(hosts.intra),
        "forward": [layer.flops * run.each / hosts.flops for layer in run.workload],
        "n_bytes": [layer.param_bytes for layer in run.workload],
        "points": [[p, share, run.source] for p, share in run.points],
        "run": {
            "strategy": run.strategy,
            "devices": max(p for p, _ in run.points),
            "gbit": 8e-9 / beta,
            "latency_us": alpha * 1e6,
            "bucket_mib": run.bucket_bytes / MIB,
            "servers": 0,
        },
    }
