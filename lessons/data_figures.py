"""Figures of lab 17: bytes of a step, lineage with what is made again, slots and what waits."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle


class Lineage(Protocol):
    """What the figure needs of an RDD: how many partitions, and which were made."""

    n: int
    made: list[int]


def draw_bytes(moved: Mapping[str, tuple[int, int, int]], *, unit: int) -> None:
    """Draw what each {way: (written, read, sent)} moves in a step, in gradients of `unit` bytes."""
    _, ax = plt.subplots(figsize=(6.8, 2.9))
    at = np.arange(len(moved))
    for place, kind in enumerate(("written", "read", "sent")):
        amounts = [way[place] / unit for way in moved.values()]
        ax.barh(at + 0.25 * (place - 1), amounts, 0.23, color=f"C{place}", label=kind)
    ax.set(xscale="symlog", yticks=at, yticklabels=list(moved), xlabel="gradients' worth of bytes")
    ax.set_title("What one step moves")
    ax.invert_yaxis()
    ax.legend()
    plt.show()


def draw_lineage(
    rdds: Mapping[str, Lineage], *, wide: set[str], lost: Mapping[str, int] | None = None
) -> None:
    """Draw partitions and what they are made of, from left to right; what was made is filled.

    Args:
        rdds: each is made of the one before it.
        wide: names of those that need all partitions of the one before.
        lost: the partition of each that was lost, with a cross.
    """
    _, ax = plt.subplots(figsize=(6.8, 2.9))
    before = 0
    for column, (name, rdd) in enumerate(rdds.items()):
        for i in range(rdd.n):
            parents = range(before) if name in wide else [i] * bool(before)
            draw_partition(ax, column, i, made=i in rdd.made, lost=(lost or {}).get(name) == i)
            for parent in parents:
                ax.plot([column - 0.8, column - 0.2], [parent, i], "-", color="C4", linewidth=0.8)
        before = rdd.n
    rows = max(rdd.n for rdd in rdds.values())
    ax.set(xticks=range(len(rdds)), yticks=range(rows), ylim=(rows - 0.5, -0.5))
    ax.set_xticklabels(list(rdds))
    ax.set(ylabel="partition", title="Lineage: filled were made again, a cross was lost")
    ax.grid(visible=False)
    plt.show()


def draw_partition(ax: Axes, column: int, row: int, *, made: bool, lost: bool) -> None:
    """Draw one partition as a box."""
    box = Rectangle((column - 0.2, row - 0.3), 0.4, 0.6, edgecolor="C0", linewidth=1.5)
    box.set_facecolor("C0" if made else "none")
    ax.add_patch(box)
    if lost:
        ax.plot(column, row, "x", color="C5", markersize=12, markeredgewidth=3)


def draw_slots(
    free: Sequence[float], starts: Sequence[float], together: float, seconds: float
) -> None:
    """Draw the slots when tasks start apart, and when they start `together`; pale is waiting.

    Args:
        free: when each slot is free.
        starts: when each task starts, of those apart, in order.
    """
    _, axes = plt.subplots(1, 2, sharex=True, sharey=True, figsize=(8, 2.9))
    until = list(free)
    for start in starts:
        slot = until.index(start)
        axes[0].broken_barh([(start, seconds)], (slot - 0.4, 0.8), color="C0", edgecolor="white")
        until[slot] += seconds
    for slot, moment in enumerate(free):
        axes[1].broken_barh([(moment, together - moment)], (slot - 0.4, 0.8), color="C1", alpha=0.3)
        axes[1].broken_barh([(together, seconds)], (slot - 0.4, 0.8), color="C0", edgecolor="white")
        for ax in axes:
            ax.broken_barh([(0, moment)], (slot - 0.4, 0.8), color="C4")
    for ax, title in zip(axes, ("Each as a slot is free", "All together"), strict=True):
        ax.set(xlabel="time (s)", title=title)
    axes[0].set_ylabel("slot (grey: another's task)")
    plt.show()
