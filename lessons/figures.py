"""Figures of several labs: curves, and one that grows while training runs."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from IPython.display import display
from matplotlib import pyplot as plt

Curve: TypeAlias = tuple[Any, Any, str]  # xs, ys and a format of matplotlib's


class GrowingCurve:
    """A figure of one curve in a notebook, drawn again while training goes on.

    Args:
        steps: how many values there will be.
        middle: of how many neighbours the median is drawn; each value is then a dot.
        labels: of the axes, and the title.
    """

    def __init__(
        self, steps: int, *, ylim: tuple[float, float] = (0.02, 4), middle: int = 0, **labels: str
    ) -> None:
        self.half, dot = middle // 2, "." if middle else ""
        self.figure, ax = plt.subplots()
        (self.line,) = ax.semilogy([], [], label=f"median of {middle}")
        (self.dots,) = ax.semilogy([], [], color="C4", ls="", marker=dot, ms=3, label="each")
        ax.set(xlim=(0, steps), ylim=ylim, **labels)
        if middle:
            ax.legend(loc="upper right")
        plt.close(self.figure)  # shown below, where it grows
        self.handle: Any = display(self.figure, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, values: Sequence[float]) -> None:
        """Draw the values so far."""
        at = range(len(values))
        near = [values[max(0, i - self.half) : i + self.half + 1] for i in at]
        self.line.set_data(at, [median(some) for some in near])
        self.dots.set_data(at, values)
        self.handle.update(self.figure)


def draw_curves(
    curves: Mapping[str, Curve],
    *,
    x: str,
    y: str,
    title: str,
    log: str = "",
    low: float | None = None,
    marks: Mapping[str, float] | None = None,
) -> None:
    """Draw each {label: (xs, ys, format)} in one figure.

    Args:
        x: what the horizontal axis shows, with its unit; `y` the vertical one.
        log: which of the axes are logarithmic: "", "x", "y" or "xy".
        low: where the vertical axis begins.
        marks: horizontal lines at these values, with their names.
    """
    _, ax = plt.subplots()
    for label, (xs, ys, line) in curves.items():
        ax.plot(xs, ys, line, label=label)
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    for name, value in (marks or {}).items():
        ax.axhline(value, color="C4", linewidth=1, linestyle=":")
        ax.text(0.01, value, name, color="C4", transform=ax.get_yaxis_transform(), va="bottom")
    ax.set(xlabel=x, ylabel=y, title=title)
    if low is not None:
        ax.set_ylim(bottom=low)
    ax.legend()
    plt.show()
