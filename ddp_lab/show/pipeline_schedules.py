"""A pipeline's step by its schedule, gone through anew while one moves sliders.

    PipelineSchedules(schedule="1f1b", ranks=4, microbatches=8, ratio=2.0, room=4)

The browser computes what `ddp_lab.simulate.pipeline` computes.
"""

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.pipeline.schedules import INTERLEAVED, SCHEDULES, parse
from ddp_lab.show.chart import Chart, module
from ddp_lab.show.svg_text import box, picture, text
from ddp_lab.simulate.pipeline import PipelineStep, pipeline

NAIVE = "naive"  # GPipe with one micro-batch
KINDS = {"F": "backward", "B": "exposed", "I": "exposed", "W": "forward"}  # as a poster's colours
WIDTH, LEFT, LANE, TOP = 720, 72, 26, 40


class PipelineSchedules(Chart):
    """A step of all ranks; every trait but the title is a control of the same name.

    Args:
        schedule: `"naive"`, `"gpipe"`, `"1f1b"`, `"interleaved_1f1b"` or `"zero_bubble"`.
        ranks, microbatches: how many.
        chunks: stages on each rank, for the last two schedules.
        ratio: how many times as long a backward takes as a forward.
        room: how many micro-batches' activations a rank has room for.
        title: what stands above.
    Raises:
        InvalidArgument: a schedule that it does not know, or a number below 1.
    """

    _esm = module("pipeline_schedules.js")
    title = traitlets.Unicode("A step of a pipeline").tag(sync=True)
    schedule = traitlets.Unicode("1f1b").tag(sync=True)
    ranks = traitlets.Int(4).tag(sync=True)
    microbatches = traitlets.Int(8).tag(sync=True)
    chunks = traitlets.Int(2).tag(sync=True)
    ratio = traitlets.Float(2.0).tag(sync=True)
    room = traitlets.Int(4).tag(sync=True)

    def __init__(self, **at: object) -> None:
        super().__init__(**at)
        names = [NAIVE, *(name for name in SCHEDULES if name != "pipedream")]
        counts = (self.ranks, self.microbatches, self.chunks, self.room)
        if self.schedule not in names or min(counts) < 1 or not self.ratio > 0:
            raise InvalidArgument(
                f"PipelineSchedules: no such step: got {self.schedule!r} with {counts} ranks, "
                f"micro-batches, chunks and room, ratio {self.ratio}, expected one of "
                f"{', '.join(names)}, 1 or more of each, and a ratio above 0."
            )

    def step(self) -> PipelineStep:
        """Return what the picture shows, by `ddp_lab.simulate.pipeline`."""
        name, microbatches, chunks = self.schedule, self.microbatches, 1
        if name == NAIVE:
            name, microbatches = "gpipe", 1
        elif name in INTERLEAVED:
            rounds = max(1, microbatches // self.ranks)
            microbatches, chunks = microbatches // rounds * rounds, self.chunks
        forward = 1 / chunks
        return pipeline(
            name, self.ranks, microbatches, forward, forward * self.ratio, chunks=chunks
        )

    def summary(self) -> str:
        step = self.step()
        chunks = self.chunks if self.schedule in INTERLEAVED else 1
        held = max(step.peak_activations) / chunks
        return (
            f"{self.heading()}: {self.schedule} on {self.ranks} ranks takes {step.makespan:.3g} "
            f"forwards, idle {step.bubble_fraction:.1%}; a rank holds up to "
            f"{held:.3g} {'micro-batch' if held == 1 else 'micro-batches'}."
        )

    def poster(self) -> str:
        step = self.step()
        scale = (WIDTH - LEFT - 16) / step.makespan
        marks = [text(10, 22, self.heading())]
        for rank, spans in enumerate(step.spans):
            y = TOP + rank * (LANE + 8)
            marks.append(text(LEFT - 8, y + 18, f"rank {rank}", "end"))
            for name, began_at, ended_at in spans:
                _, kind, m = parse(name)
                x, width = LEFT + began_at * scale, (ended_at - began_at) * scale - 0.75
                marks.append(box(x, y, width, LANE, KINDS[kind], name))
                if width >= 9 * len(f"{kind}{m}"):
                    marks.append(text(x + width / 2, y + 18, f"{kind}{m}", "middle", "inside"))
        return picture(WIDTH, TOP + self.ranks * (LANE + 8) + 8, self.summary(), marks)
