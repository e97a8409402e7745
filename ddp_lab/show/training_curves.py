"""Loss curves of several runs, drawn while they train.

curves = TrainingCurves(y_label="loss")
curves                                         # show it, then train
for step in range(steps):
    curves.add("ring", train_step())
curves.note("ring", "3.3 KiB a step")          # beside its name
"""

import math
from typing import Any

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, Plot, axis_of, module
from ddp_lab.show.svg_text import KINDS, line, picture, text

DASHES = ("", "7 4", "2 3")
THICK = (5, 3.4, 2.1, 1.1)  # a line is thinner than those below it, so that none hides another
WIDTH, HEIGHT, LEFT, TOP = 720, 320, 64, 44
RIGHT, BASE = WIDTH - 240, HEIGHT - 44  # where the curves end; the names stand beside them
MOST = 2000  # points of a run that are kept: beyond it every other one goes


class TrainingCurves(Chart):
    """A line a run; points are added one at a time, and the picture follows.

    A run with more than 2,000 points keeps every second one, and from then on every second that
    comes: what is drawn stays the whole run.
    """

    _esm = module("training_curves.js")
    runs = traitlets.Dict().tag(sync=True)
    notes = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode("Training").tag(sync=True)
    x_label = traitlets.Unicode("step").tag(sync=True)
    y_label = traitlets.Unicode("loss").tag(sync=True)
    log_y = traitlets.Bool(False).tag(sync=True)

    def __init__(self, runs: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._every: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        with self.hold_trait_notifications():  # told once, not for each point
            for name, values in (runs or {}).items():
                for value in values:
                    self.add(name, value)

    def add(self, run: str, value: Any, step: float | None = None) -> None:
        """Add a point to a run; without `step` the points count from 0.

        Raises:
            InvalidArgument: the value is not one number.
        """
        try:
            y = float(value)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"TrainingCurves: not a number: got {value!r} for {run!r}. Pass loss.item()."
            ) from error
        seen = self._seen.get(run, 0)
        self._seen[run] = seen + 1
        if seen % self._every.get(run, 1):
            return
        x = seen if step is None else float(step)
        points = [*self.runs.get(run, []), [x, y if math.isfinite(y) else None]]
        if len(points) > MOST:
            points = points[::2]
            self._every[run] = 2 * self._every.get(run, 1)
        self.runs = {**self.runs, run: points}  # a new dict: else nobody hears of it

    def note(self, run: str, words: str) -> None:
        """Say something beside a run's name, such as what it sends."""
        self.notes = {**self.notes, run: words}

    def summary(self) -> str:
        ends = [
            f"{name} {points[-1][1]:.4g} at {points[-1][0]:g}"
            + (f" ({self.notes[name]})" if name in self.notes else "")
            for name, points in self._drawable().items()
        ]
        return f"{self.title}: {self.y_label} {'; '.join(ends)}." if ends else f"{self.title}."

    def _drawable(self, *, positive: bool = False) -> dict[str, list[list[float]]]:
        """Return the finite points of each run that has any; the positive ones, if asked."""
        runs = {
            name: [p for p in points if p[1] is not None and (p[1] > 0 or not positive)]
            for name, points in self.runs.items()
        }
        return {name: points for name, points in runs.items() if points}

    def poster(self) -> str:
        runs = self._drawable(positive=self.log_y)
        across = axis_of((x for points in runs.values() for x, _ in points), logarithmic=False)
        up = axis_of((y for points in runs.values() for _, y in points), logarithmic=self.log_y)
        plot = Plot(across, up, LEFT, RIGHT, TOP, BASE)
        below, beside = ([(mark, f"{mark:g}") for mark in axis.marks()] for axis in (across, up))
        words = f"{self.x_label}; the height is logarithmic" if self.log_y else self.x_label
        marks = [text(10, 22, f"{self.title}: {self.y_label}"), *plot.frame(below, beside, words)]
        for number, (name, points) in enumerate(runs.items()):
            look = KINDS[number % 4], THICK[number % 4], DASHES[number // 4 % 3]
            y = TOP + 36 * number
            marks.append(line([plot.at(*point) for point in points], *look))
            marks += plot.legend(y, name, *look)
            marks.append(text(RIGHT + 58, y + 19, self.notes.get(name, "")))
        return picture(WIDTH, HEIGHT, self.summary(), marks)
