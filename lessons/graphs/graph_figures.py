"""Figures of lab 04: what running a graph costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt


def plot_overhead(
    taken_s: Mapping[str, float], operators: int, base: str, at: str, predicted: Any
) -> None:
    """Plot the cost of an operator in several ways, as multiples of `base`.

    The prediction, the ratio of `at` over `base`, stands at the bar of `at`.
    """
    _, ax = plt.subplots()
    cost_us = {name: 1e6 * seconds / operators for name, seconds in taken_s.items()}
    ax.barh(list(cost_us), list(cost_us.values()))
    for row, cost in enumerate(cost_us.values()):
        ax.text(cost, row, f"   {cost / cost_us[base]:.2f} plans", va="center")
    if predicted is not ...:
        row = list(cost_us).index(at)
        ax.plot(predicted * cost_us[base], row, "D", color="C1", label="your prediction")
        ax.legend(loc="lower right")
    ax.grid(axis="y", visible=False)
    ax.set(xlabel="µs per operator")
    ax.set_title(f"A small training step: {operators} operators, 8 images")
    ax.invert_yaxis()
    ax.margins(x=0.25)
    plt.show()


def plot_widths(
    widths: Sequence[int],
    times_s: Mapping[str, Sequence[float]],
    line_s: Sequence[float],
    there_s: Mapping[str, float],
    device: str,
) -> None:
    """Plot the time of a step over the width, the line that predicts it, and the device's time."""
    _, ax = plt.subplots()
    for (name, measured), marker in zip(times_s.items(), "os^", strict=False):
        ax.loglog(widths, np.array(measured) * 1e3, marker=marker, label=name)
    label = "overhead + slope x width"
    ax.loglog(widths, np.array(line_s) * 1e3, color="C4", linewidth=1, label=label)
    for (name, seen), color in zip(there_s.items(), ("C0", "C2"), strict=True):
        label = f"{name}, {device}"
        ax.plot(widths[-1], seen * 1e3, "*", markersize=12, color=color, label=label)
    ax.set_yticks([0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")
    ax.set_ylim(
        500 * min(line_s[0], *there_s.values()),
        1300 * max(*map(max, times_s.values()), *there_s.values()),
    )
    ax.set_xticks(widths, [str(width) for width in widths], minor=False)
    ax.xaxis.set_minor_formatter("")
    ax.set(
        xlabel="width of the hidden layer", ylabel="ms a step", title="256 images: a step's time"
    )
    ax.legend()
    plt.show()
