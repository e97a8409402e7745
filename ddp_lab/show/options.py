"""Four ways to train with several workers: a clock, memory and quality of each.

    DistributionOptions(quality, workers=4)     quality: {way: {workers: share right}}, recorded

The clock and the memory are computed; the quality of copies, parts and averages was trained.
"""

from collections.abc import Mapping
from typing import NamedTuple

import traitlets

from ddp_lab.collectives.closed_forms import all_reduce_time
from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, module
from ddp_lab.show.svg_text import box, picture, text

WAYS = {
    "copies": "copies, other hyperparameters",
    "end": "parts of the data, averaged at the end",
    "each": "parts of the data, gradients averaged",
    "model": "parts of the model, a pipeline",
}
WORKERS = (1, 2, 4, 8)
STEPS, MICROBATCHES = 600, 8
DATA_BYTES, ACTIVATION_BYTES = 2**30, 8 * 2**20  # of the whole set; of a batch, at a cut
COPIES = 4  # weights, gradients, two moments
ALPHA_S = 20e-6
MIB = 2**20
LEFT, WIDE, ROW, TOP = 20, 220, 58, 70


class Row(NamedTuple):
    """What a way costs each worker."""

    compute_s: float
    send_s: float
    memory_bytes: float


def rows(workers: int, batch_s: float, model_bytes: float, bandwidth: float) -> dict[str, Row]:
    """Return what each way costs: all take the same number of steps over the same data.

    `batch_s` is a step on one worker. Copies take every step whole; the others share it out.
    """
    whole, held = STEPS * batch_s, COPIES * model_bytes
    bubble = (MICROBATCHES + workers - 1) / MICROBATCHES
    cut_s = 2 * (ALPHA_S * MICROBATCHES + ACTIVATION_BYTES / bandwidth) if workers > 1 else 0.0
    reduce_s = all_reduce_time("ring", model_bytes, workers, ALPHA_S, 1 / bandwidth)
    part = DATA_BYTES / workers
    return {
        "copies": Row(whole, 0.0, held + DATA_BYTES),
        "end": Row(whole / workers, reduce_s, held + part),
        "each": Row(whole / workers, STEPS * reduce_s, held + part),
        "model": Row(whole / workers * bubble, STEPS * cut_s, held / workers + ACTIVATION_BYTES),
    }


class DistributionOptions(Chart):
    """Bars of time, memory and quality for each way.

    Args:
        quality: {way: {workers: share right}}, of trainings that were done.
        workers: one of 1, 2, 4, 8.
        model_mib, gbytes, batch_ms: the parameters, the link's GB/s, a step on one worker.
        title: what stands above.
    Raises:
        InvalidArgument: qualities or workers that are missing.
    """

    _esm = module("options.js")
    title = traitlets.Unicode("Ways to train with several workers").tag(sync=True)
    quality = traitlets.Dict().tag(sync=True)
    workers = traitlets.Int(4).tag(sync=True)
    model_mib = traitlets.Float(256.0).tag(sync=True)
    gbytes = traitlets.Float(1.0).tag(sync=True)
    batch_ms = traitlets.Float(512.0).tag(sync=True)

    def __init__(self, quality: Mapping[str, Mapping[str, float]], **at: object) -> None:
        super().__init__(quality={way: dict(of) for way, of in quality.items()}, **at)
        lacking = [w for w in WAYS if str(self.workers) not in self.quality.get(w, {})]
        if lacking or self.workers not in WORKERS:
            raise InvalidArgument(
                f"DistributionOptions: nothing to show for {self.workers} workers: got no quality "
                f"of {', '.join(lacking)}, expected one for each way and 1, 2, 4 or 8 workers."
            )

    def costs(self) -> dict[str, Row]:
        """Return the cost of each way as the controls stand."""
        return rows(self.workers, self.batch_ms / 1e3, self.model_mib * MIB, self.gbytes * 1e9)

    def summary(self) -> str:
        results = [
            f"{WAYS[way]}: {row.compute_s + row.send_s:.3g} s simulated, "
            f"{row.memory_bytes / 2**30:.3g} GiB, {self.quality[way][str(self.workers)]:.1%} right"
            for way, row in self.costs().items()
        ]
        return f"{self.heading()}, {self.workers} of them. {'; '.join(results)}."

    def poster(self) -> str:
        costs = self.costs()
        longest = max(row.compute_s + row.send_s for row in costs.values())
        largest = max(row.memory_bytes for row in costs.values())
        marks = [text(10, 22, f"{self.heading()}: {self.workers}")]
        for k, head in enumerate(("time, simulated", "memory of a worker", "right, as trained")):
            marks.append(text(LEFT + k * (WIDE + 20), 44, head))
        for place, (way, row) in enumerate(costs.items()):
            y = TOP + place * ROW
            share = self.quality[way][str(self.workers)]
            marks.append(text(LEFT, y - 6, WAYS[way]))
            computed, sent = (WIDE * s / longest for s in (row.compute_s, row.send_s))
            marks.append(box(LEFT, y, computed, 22, "backward", "computing"))
            marks.append(box(LEFT + computed, y, sent, 22, "exposed", "communication"))
            memory = WIDE * row.memory_bytes / largest
            marks.append(box(LEFT + WIDE + 20, y, memory, 22, "hidden", "memory"))
            marks.append(
                box(LEFT + 2 * (WIDE + 20), y, WIDE * share, 22, "forward", f"{share:.1%}")
            )
        return picture(LEFT + 3 * (WIDE + 20), TOP + len(WAYS) * ROW, self.summary(), marks)
