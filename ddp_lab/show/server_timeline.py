"""Workers and a parameter server on a clock, recomputed while one moves sliders.

    ServerTimeline(consistency="ssp", staleness=2, workers=6)

The browser computes what `ddp_lab.simulate.parameter_server` computes, from the same draws.
"""

from typing import Any

import numpy as np
import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.parameter_server.consistency import CONSISTENCIES, Progress
from ddp_lab.show.chart import Axis, Chart, module
from ddp_lab.show.svg_text import box, line, picture, text
from ddp_lab.simulate.parameter_server import ServerRun, run_on_clock
from ddp_lab.transport.base import NDArray

MOST_WORKERS, MOST_BACKUPS, STEPS = 12, 4, 14
WIDTH, LEFT, ROW, GAP, TOP = 720, 80, 20, 8, 64
SERVER = 44  # where the line of the server's updates lies
JITTER = 0.2  # of a step that is not late


class ServerTimeline(Chart):
    """A run of some workers; every trait is a slider of the same name.

    Args:
        title: what stands above.
        seed: which steps are late, and the small differences between the others.
        at: where controls stand at first: consistency, workers, staleness, backups, share (of
            steps that are late), late (by how many steps).
    Raises:
        InvalidArgument: a control cannot stand there.
    """

    _esm = module("server_timeline.js")
    title = traitlets.Unicode().tag(sync=True)
    draws: Any = traitlets.List().tag(sync=True)
    consistency = traitlets.Unicode("sync").tag(sync=True)
    workers = traitlets.Int(6).tag(sync=True)
    staleness = traitlets.Int(2).tag(sync=True)
    backups = traitlets.Int(0).tag(sync=True)
    share = traitlets.Float(0.1).tag(sync=True)
    late = traitlets.Float(4.0).tag(sync=True)

    def __init__(
        self, title: str = "Workers and a parameter server", seed: int = 0, **at: Any
    ) -> None:
        rng = np.random.default_rng(seed)
        draws = rng.random((MOST_WORKERS + MOST_BACKUPS, STEPS)).round(4).tolist()
        super().__init__(title=title, draws=draws, **at)
        fits = 1 <= self.workers <= MOST_WORKERS and 0 <= self.backups <= MOST_BACKUPS
        if self.consistency not in CONSISTENCIES or not fits or min(self.staleness, self.late) < 0:
            raise InvalidArgument(
                f"ServerTimeline: no such run: got {self.consistency!r}, {self.workers} workers, "
                f"{self.backups} backups, staleness {self.staleness}, late by {self.late}, "
                f"expected one of {', '.join(CONSISTENCIES)}, 1 to {MOST_WORKERS} workers, 0 to "
                f"{MOST_BACKUPS} backups, and the rest 0 or more."
            )

    def times(self) -> NDArray:
        """Return how long each worker takes for each step."""
        backups = self.backups if self.consistency == "sync" else 0
        drawn = np.array(self.draws)[: self.workers + backups]
        return np.asarray(1 + JITTER * drawn + self.late * (drawn < self.share))

    def run(self) -> ServerRun:
        """Return what the picture shows, by `ddp_lab.simulate`."""
        times = self.times()
        backups = len(times) - self.workers
        everybody = range(len(times))
        return run_on_clock(times, Progress(self.consistency, everybody, self.staleness, backups))

    def summary(self) -> str:
        run = self.run()
        return (
            f"{self.title}: {self.workers} workers, {self.consistency}: {STEPS} steps in "
            f"{run.makespan:.3g} times one that is not late; {run.dropped} gradients dropped, "
            f"{run.waited:.3g} waited in all."
        )

    def poster(self) -> str:
        run, count = self.run(), len(self.times())
        end = max(run.makespan, *(span.ended_at for span in run.spans))
        scale = (WIDTH - LEFT - 24) / end
        marks = [text(10, 22, self.heading()), text(LEFT - 8, SERVER + 4, "server", "end")]
        marks.append(line([(LEFT, SERVER), (LEFT + end * scale, SERVER)], "faint"))
        for worker in range(count):
            y = TOP + worker * (ROW + GAP)
            marks.append(text(LEFT - 8, y + 15, f"worker {worker + 1}", "end"))
        for span in run.spans:
            y, kind = TOP + span.worker * (ROW + GAP), "exposed" if span.dropped else "backward"
            width = (span.ended_at - span.began_at) * scale - 1
            marks.append(box(LEFT + span.began_at * scale, y, width, ROW, kind))
        for when in run.applied_at:
            marks.append(box(LEFT + when * scale - 1, SERVER - 7, 2, 14, "hidden"))
        foot = TOP + count * (ROW + GAP)
        marks.append(line([(LEFT, foot), (LEFT + end * scale, foot)], "faint"))
        for tick in Axis(0.0, end).marks():
            marks.append(text(LEFT + tick * scale, foot + 16, f"{tick:g}", "middle"))
        return picture(WIDTH, foot + 28, self.summary(), marks)
