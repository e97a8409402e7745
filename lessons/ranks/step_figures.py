"""Figures of labs 10 and 11: training steps taken apart, and when buckets are launched."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt

from lessons.ranks.readiness import launches
from lessons.ranks.steps import PARTS, Step, ends

HATCHES = ("", "//", "xx", "..", "--")


def draw_steps(
    steps: Mapping[str, Step], title: str, unit: str, waits: Sequence[float] = ()
) -> None:
    """Draw {kind: its step}, and marks where they would end with the predicted `waits`."""
    _, ax = plt.subplots()
    left, rows = np.zeros(len(steps)), np.arange(len(steps))
    for name, hatch in zip(PARTS, HATCHES, strict=True):
        width = np.array([step[name] for step in steps.values()])
        if name != "hidden communication":
            ax.barh(rows, width, 0.5, left, label=name, hatch=hatch)
            left = left + width
        elif width.any():  # runs beside compute: a bar of its own
            beside = [step["forward"] for step in steps.values()]
            ax.barh(rows + 0.35, width, 0.15, beside, label=name, hatch=hatch)
    if len(waits):
        marks = ends(list(steps.values()), waits)
        ax.plot(marks, rows, "wD", markeredgecolor="k", label="end, by the predicted wait")
    ax.set_yticks(rows, list(steps))
    ax.invert_yaxis()
    ax.set(xlabel=f"time, {unit}", title=title)
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=3, fontsize="small")
    plt.show()


def draw_launches(
    rows: Mapping[str, Sequence[Sequence[int]]], at: Sequence[float], title: str
) -> None:
    """Draw when the buckets of each row are launched; a circle where equal layers would be."""
    seen = np.argsort(at)
    _, ax = plt.subplots()
    for row, buckets in enumerate(rows.values()):
        times = launches(buckets, at)
        ax.barh([row], 1 - times[0], 0.4, times[0], color=f"C{row}", alpha=0.15)
        ax.plot(times, [row] * len(times), "|", color=f"C{row}", markersize=28, markeredgewidth=3)
        places = [max(np.flatnonzero(np.isin(seen, b))) // 2 + 1 for b in buckets]
        circles = np.maximum.accumulate(places) / (len(at) / 2)
        ax.plot(circles, [row] * len(buckets), "ko", fillstyle="none")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel="launch of each bucket, as a fraction of backward", title=title)
    ax.set(xlim=(0, 1.03), ylim=(-0.5, len(rows) - 0.5))
    plt.show()
