"""Figures of notebooks, by matplotlib. May import: show; matplotlib inside functions."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from ddp_lab.show.watch import Recording

Curve: TypeAlias = tuple[Any, Any, str]  # xs, ys and a format of matplotlib's


def draw_messages(recordings: Mapping[str, Recording]) -> None:
    """Draw the messages of each {title: recording}, round by round, side by side."""
    from matplotlib import pyplot as plt

    stories = {title: seen.story().rounds for title, seen in recordings.items()}
    _, axes = plt.subplots(1, len(stories), sharey=True, squeeze=False)
    n = max(len(seen.inputs) for seen in recordings.values())
    for ax, (title, rounds) in zip(axes[0], stories.items(), strict=True):
        for at, hops in enumerate(rounds):
            for hop in hops:
                arrow = {"arrowstyle": "-|>", "color": f"C{at % 6}", "linewidth": 1.6}
                ax.annotate("", (at + 1, hop.dst), (at, hop.src), arrowprops=arrow)
        ends = {"xlim": (-0.2, len(rounds) + 0.2), "xticks": range(len(rounds) + 1)}
        ax.set(title=title, xlabel="round", **ends, yticks=range(n), ylim=(n - 0.5, -0.5))
        ax.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("rank")
    plt.show()


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
    from matplotlib import pyplot as plt

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
