"""Loss curves of several runs, drawn while they train.

curves = TrainingCurves(y_label="loss")
curves                                         # show it, then train
for step in range(steps):
    curves.add("ring", train_step())
"""

import math
from typing import Any

import traitlets

from ddp_lab.data_parallel.svg_text import line, picture, text, ticks
from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, module

KINDS = ("backward", "exposed", "hidden", "forward")  # colours of the poster, as in the chart
DASHES = ("", "7 4", "2 3")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 320, 64, 44, 44
MOST = 2000  # points of a run that are kept: beyond it every other one goes


class TrainingCurves(Chart):
    """A line a run; points are added one at a time, and the picture follows.

    A run with more than 2,000 points keeps every second one, and from then on every second that
    comes: what is drawn stays the whole run.
    """

    _esm = module("training_curves.js")
    state_names = ("runs", "title", "x_label", "y_label", "log_y")
    runs = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode("Training").tag(sync=True)
    x_label = traitlets.Unicode("step").tag(sync=True)
    y_label = traitlets.Unicode("loss").tag(sync=True)
    log_y = traitlets.Bool(False).tag(sync=True)

    def __init__(self, runs: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._every: dict[str, int] = {}
        self._seen: dict[str, int] = {}
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

    def heading(self) -> str:
        """Return its title."""
        title: str = self.title
        return title

    def summary(self) -> str:
        """Return where every run stands, in a sentence."""
        ends = [
            f"{name} {points[-1][1]:.4g} at {points[-1][0]:g}"
            for name, points in self._drawable().items()
        ]
        return f"{self.title}: {self.y_label} {'; '.join(ends)}." if ends else f"{self.title}."

    def _drawable(self) -> dict[str, list[list[float]]]:
        runs = {
            name: [point for point in points if point[1] is not None]
            for name, points in self.runs.items()
        }
        return {name: points for name, points in runs.items() if points}

    def poster(self) -> str:
        """Return the curves as SVG, on linear axes."""
        runs = self._drawable()
        xs = [x for points in runs.values() for x, _ in points] or [0.0]
        ys = [y for points in runs.values() for _, y in points] or [0.0]
        right, top, foot = max(*xs, 1e-9), max(*ys, 0.0), min(*ys, 0.0)

        def at(x: float, y: float) -> tuple[float, float]:
            height = (HEIGHT - TOP - BOTTOM) * (y - foot) / ((top - foot) or 1.0)
            return LEFT + (WIDTH - LEFT - 170) * x / right, HEIGHT - BOTTOM - height

        base = HEIGHT - BOTTOM
        marks = [text(10, 22, f"{self.title}: {self.y_label}")]
        marks.append(line([(LEFT, TOP - 8), (LEFT, base), (WIDTH - 170, base)], "faint"))
        for tick in ticks(top):
            marks.append(text(LEFT - 8, at(0, tick)[1] + 4, f"{tick:g}", "end"))
        for tick in ticks(right):
            marks.append(text(at(tick, foot)[0], base + 18, f"{tick:g}", "middle"))
        marks.append(text(WIDTH - 170, base + 36, self.x_label, "end"))
        for number, (name, points) in enumerate(runs.items()):
            kind, dash = KINDS[number % 4], DASHES[number // 4 % 3]
            marks.append(line([at(x, y) for x, y in points], kind, 2, dash))
            y = TOP + 20 * number
            marks.append(line([(WIDTH - 150, y), (WIDTH - 120, y)], kind, 2, dash))
            marks.append(text(WIDTH - 112, y + 4, name))
        return picture(WIDTH, HEIGHT, self.summary(), marks)
