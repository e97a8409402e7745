"""A roofline to drag along: what a task can do on a device, by the operations that a byte gets.

    Roofline()                                     three GPUs, and the viewer's own device
    Roofline(own={"flops": 6e10, "bytes": 9e9})    with measured rates as well, of lab 00 say

On its page a button times the browser's device: a copy, and multiplications with additions.
"""

from collections.abc import Mapping

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Axis, Chart, Plot, module
from ddp_lab.show.svg_text import box, line, picture, text

# float32 operations and bytes a second, without tensor cores, by NVIDIA's data sheets.
DEVICES = {
    "V100 SXM2": (15.7e12, 900e9),
    "A100 SXM4 80GB": (19.5e12, 2039e9),
    "H100 SXM5": (67e12, 3350e9),
}
# operations a byte of float32: a comparison a byte; a sum of two arrays; each weight used once;
# each weight used by 64 rows; n/6 for a product of n by n
TASKS = {
    "sum of two arrays": 1 / 12,
    "matrix times vector": 2 / 4,
    "batch of 64 times a matrix": 2 * 64 / 4,
    "product of 1024 by 1024": 1024 / 6,
}
OWN = "measured"
LEFT, RIGHT, TOP, BASE = 84, 620, 44, 300


def attainable(intensity: float, flops: float, bandwidth: float) -> float:
    """Return the operations a second that a task of so many operations a byte can do."""
    return min(flops, intensity * bandwidth)


class Roofline(Chart):
    """The roof of a device, and a task below it.

    Args:
        own: `flops` and `bytes` a second that were measured; they are a device of their own.
        device: whose roof is drawn.
        log_intensity: the task's operations a byte, as a power of two: -6 to 10.
        title: what stands above.
    Raises:
        InvalidArgument: an unknown device, or rates that are not above 0.
    """

    _esm = module("roofline.js")
    title = traitlets.Unicode("What does a task wait for?").tag(sync=True)
    devices = traitlets.Dict().tag(sync=True)
    tasks = traitlets.Dict(TASKS).tag(sync=True)
    device = traitlets.Unicode("A100 SXM4 80GB").tag(sync=True)
    log_intensity = traitlets.Float(-1.0).tag(sync=True)

    def __init__(self, own: Mapping[str, float] | None = None, **at: object) -> None:
        devices = {name: list(rates) for name, rates in DEVICES.items()}
        if own is not None:
            devices[OWN] = [own.get("flops", 0.0), own.get("bytes", 0.0)]
            at = {"device": OWN} | at
        super().__init__(devices=devices, **at)
        rates = devices.get(self.device, [0.0, 0.0])
        if min(rates) <= 0:
            raise InvalidArgument(
                f"Roofline: no roof for {self.device!r}: got rates {rates}, expected one of "
                f"{', '.join(devices)}, and flops and bytes a second above 0."
            )

    def summary(self) -> str:
        flops, bandwidth = self.devices[self.device]
        intensity = 2.0**self.log_intensity
        share = attainable(intensity, flops, bandwidth) / flops
        kind = "computing" if share == 1 else "memory"
        return (
            f"{self.heading()} On {self.device}, {intensity:.3g} operations a byte reach at most "
            f"{share:.1%} of its peak: {kind} bounds the task. The corner is at "
            f"{flops / bandwidth:.3g} operations a byte."
        )

    def poster(self) -> str:
        flops, bandwidth = self.devices[self.device]
        across = Axis(2.0**-6, 2.0**10, logarithmic=True)
        up = Axis(flops / 2**13, 2 * flops, logarithmic=True)
        plot = Plot(across, up, LEFT, RIGHT, TOP, BASE)

        def at(intensity: float) -> tuple[float, float]:
            return plot.at(intensity, max(attainable(intensity, flops, bandwidth), up.low))

        below, peak = [(mark, f"{mark:g}") for mark in across.marks()], f"{flops / 1e12:.3g} T/s"
        marks = [text(10, 22, f"{self.heading()} {self.device}")]
        marks += plot.frame(below, [(flops, peak)], "operations a byte")
        marks.append(line([at(across.low), at(flops / bandwidth), at(across.high)], "backward", 3))
        for name, intensity in TASKS.items():
            x, y = at(intensity)
            marks.append(line([(x, y), (x, BASE)], "faint", 1, "2 4"))
            marks.append(box(x - 4, y - 4, 8, 8, "hidden", name))
        x, y = at(2.0**self.log_intensity)
        marks.append(box(x - 6, y - 6, 12, 12, "exposed", "the task"))
        return picture(RIGHT + 30, BASE + 48, self.summary(), marks)
