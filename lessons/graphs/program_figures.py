"""Figures of programs of steps and of what was measured on them; drawn with matplotlib."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from lessons.graphs.program_memory import Plan
from lessons.graphs.programs import Program

KIB = 1024


def positions(program: Program) -> list[tuple[float, float]]:
    """Return where to draw each step: a row by its longest path from an input, rows centred."""
    depth: list[int] = []
    place: list[int] = []
    taken: dict[int, int] = {}
    for step in program.steps:
        depth.append(max((depth[j] + 1 for j in step.inputs), default=0))
        taken[depth[-1]] = taken.get(depth[-1], -1) + 1
        place.append(taken[depth[-1]])
    return [(p - taken[d] / 2, -d) for p, d in zip(place, depth, strict=True)]


def draw(**programs: Program) -> None:
    """Draw programs side by side, inputs at the top, outputs with a thick border."""
    _, axes = plt.subplots(1, len(programs), squeeze=False)
    for ax, (title, program) in zip(axes[0], programs.items(), strict=True):
        at = positions(program)
        for i, step in enumerate(program.steps):
            for j in step.inputs:
                ax.plot(*zip(at[i], at[j], strict=True), "C4-", linewidth=1, zorder=1, marker="")
            box: dict[str, Any] = {"boxstyle": "round", "facecolor": "white"}
            box |= {"edgecolor": "C0", "linewidth": 2.5 if i in program.outputs else 0.8}
            label = step.attr[0] if step.op == "input" else step.op
            ax.text(*at[i], label, ha="center", va="center", bbox=box, zorder=2, fontsize=8)
        ax.set(title=f"{title.replace('_', ' ')}: {len(program.steps)} steps", xticks=[], yticks=[])
        ax.margins(0.25, 0.12)
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    plt.show()


def plot_orders(
    by_work: Sequence[float], by_clock: Sequence[float], chains: Sequence[Sequence[int]]
) -> None:
    """Plot the gain in time of better orders over their gain in multiplications."""
    _, ax = plt.subplots()
    ax.loglog(by_work, by_clock, "o", label="measured")
    ax.loglog([1, 300], [1, 300], color="C4", linewidth=1, label="if only the work counted")
    for work, ratio, sizes in zip(by_work, by_clock, chains, strict=True):
        name = " x ".join(map(str, sizes))
        ax.annotate(name, (work, ratio), (8, -10), textcoords="offset points", fontsize=8)
    ax.set(xlabel="multiplications, as read / best order", ylabel="time, as read / best order")
    ax.set(title="What a better order of products gains", xlim=(1, 1500))
    ax.legend()
    plt.show()


def plot_merges(
    gains: Mapping[str, Sequence[float]],
    shapes: Sequence[Sequence[int]],
    predicted: Sequence[Any],
    at: int,
) -> None:
    """Plot one bar a shape for each kind of weights; predictions stand at shape `at`."""
    _, ax = plt.subplots()
    for k, (kind, values) in enumerate(gains.items()):
        ax.bar(np.arange(len(shapes)) + 0.4 * k, values, 0.38, label=f"weights: {kind}")
    for k, guess in enumerate(predicted):
        if guess is not ...:
            ax.plot(at + 0.4 * k, guess, "kD", label="" if k else "your predictions")
    ax.axhline(1, color="C4", linewidth=1)
    ax.set_xticks(np.arange(len(shapes)) + 0.2, [" x ".join(map(str, s)) for s in shapes])
    ax.set(ylabel="time before / after", title="Two products merged: rows x middle x columns")
    ax.set_ylim(0, 1.35 * max(1, *(value for values in gains.values() for value in values)))
    ax.legend(ncols=3)
    plt.show()


def plot_fusion(n_bytes: Sequence[int], speedups: Sequence[float], by_traffic: float) -> None:
    """Plot the gain of fusion over the size of an array, beside what traffic alone would give."""
    _, ax = plt.subplots()
    ax.semilogx(n_bytes, speedups, "o-", label="measured")
    ax.set_ylim(0, 1.3 * max(by_traffic, *speedups))
    label = f"if only memory counted: {by_traffic:.3g}"
    ax.axhline(by_traffic, color="C1", linestyle="--", label=label)
    ax.axhline(1, color="C4", linewidth=1)
    ax.set(xlabel="bytes of one array", ylabel="time before / after", title="Five operators fused")
    ax.legend()
    plt.show()


def map_arenas(**plans: Plan) -> None:
    """Draw arenas side by side: time to the right, bytes upwards, one box for each value."""
    _, axes = plt.subplots(1, len(plans), squeeze=False)
    for ax, (title, plan) in zip(axes[0], plans.items(), strict=True):
        for i, (first, last) in plan.lives.items():
            box = (plan.offsets[i] / KIB, plan.sizes[i] / KIB)
            colour = f"C{i % 6}"
            ax.broken_barh([(first, last - first + 1)], box, facecolor=colour, edgecolor="white")
        ax.axhline(plan.peak / KIB, color="C4", linewidth=1)
        share = f"{plan.peak / plan.total:.0%} of {plan.total / KIB:,.0f} KiB"
        ax.set(title=f"{title.replace('_', ' ')}: {share}", xlabel="step")
        ax.set(ylabel="place in the arena, KiB")
    plt.show()


def plot_alive(expected: Sequence[int], counted: Sequence[int], total: int, device: str) -> None:
    """Plot the bytes alive at each step, by a plan and by the allocator's count."""
    _, ax = plt.subplots()
    ax.step(
        range(len(counted)), np.array(expected) / KIB**2, where="mid", label="by your lifetimes"
    )
    ax.plot(np.array(counted) / KIB**2, "C1o", label=f"counted by the allocator on {device}")
    ax.axhline(total / KIB**2, color="C4", linewidth=1, linestyle=":", label="nothing ever freed")
    ax.set(xlabel="step", ylabel="MiB alive", title="Four layers and their gradients")
    ax.set_ylim(0, None)
    ax.legend()
    plt.show()


def plot_shares(names: Sequence[str], measures: Mapping[str, Sequence[float]]) -> None:
    """Plot each measure of some programs as a share of the first program's."""
    fig, axes = plt.subplots(1, len(measures), sharey=True, figsize=(8.6, 3.6))
    rows = np.arange(len(names))[::-1]
    for ax, (title, values) in zip(axes, measures.items(), strict=True):
        shares = np.array(values) / values[0]
        ax.barh(rows, shares, color="C0")
        ax.bar_label(ax.containers[0], [f"{share:.0%}" for share in shares], padding=3, fontsize=8)
        ax.set(title=title, xticks=[0, 0.5, 1], xlim=(0, 1.5))
        ax.set_yticks(rows, names)
        ax.grid(axis="y", visible=False)
    fig.supxlabel("share of the program as written", fontsize="medium")
    plt.show()


def plot_losses(**losses: Sequence[float]) -> None:
    """Plot losses over training steps; the first as a broad band under the others."""
    _, ax = plt.subplots()
    for k, (name, values) in enumerate(losses.items()):
        (line,) = ax.plot(values, linestyle="-", marker="", label=name.replace("_", " "))
        line.set(linewidth=1.5, alpha=1) if k else line.set(linewidth=5, alpha=0.35)
    ax.set(xlabel="training step", ylabel="loss (squared error)", title="Digits")
    ax.set(yscale="log", yticks=[0.3, 1, 3, 10], yticklabels=["0.3", "1", "3", "10"])
    ax.minorticks_off()
    ax.legend()
    plt.show()
