"""Figures of lab 03: how a signal keeps its size, how optimizers go, and what a step costs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from ddp_lab.simulate.quoted import FRAMEWORKS_2019, MODELS_2019, fraction_of_fastest

Floats = NDArray[np.float64]


def plot_signals(found: Mapping[str, Floats], spreads: Mapping[str, float]) -> None:
    """Plot the root mean square after each layer, beside the formula, spread ** layer."""
    _, ax = plt.subplots()
    for name, sizes in found.items():
        (line,) = ax.semilogy(sizes, "o", ls="", label=f"weights of size {name}")
        model = spreads[name] ** np.arange(len(sizes))
        ax.semilogy(model, color=line.get_color(), lw=1, ls=":")
    ax.semilogy([], [], color="C4", lw=1, ls=":", label="the formula")
    ax.set(xlabel="layer", ylabel="root mean square")
    ax.set(title="The size of a signal in 20 layers")
    ax.set_xticks(range(0, 21, 4))
    ax.legend(fontsize="small")
    plt.show()


def plot_valley(ways: Mapping[str, Floats], shrink: Sequence[float]) -> None:
    """Plot the distance to the minimum over the step, beside what a factor a step would give."""
    _, ax = plt.subplots()
    steps = np.arange(1, 801)
    for name, way in ways.items():
        ax.semilogy(steps, way, label=name)
    for k, factor in enumerate(shrink):
        ax.semilogy(steps, factor**steps, color="C4", lw=1, ls=":", label="" if k else "the models")
    ax.set(xlabel="step", ylabel="distance to the minimum", ylim=(1e-7, 3), xlim=(0, 800))
    ax.set_title("A valley a hundred times steeper across than along")
    ax.legend()
    plt.show()


def plot_directions(paths: Mapping[str, Floats]) -> None:
    """Plot the weights over the step, one picture for each optimizer."""
    _, axes = plt.subplots(1, len(paths), sharey=True)
    for ax, (title, path) in zip(axes, paths.items(), strict=True):
        for k in range(path.shape[1]):
            ax.plot(path[:, k], label=f"curvature 1e-{k}", color=f"C{k}")
        ax.set(xlabel="step", title=title)
    axes[0].set_ylabel("weight, on its way to 1")
    axes[1].legend(fontsize="small")
    plt.show()


def plot_race(
    counts: Sequence[int], raced: Sequence[Mapping[str, float]], predicted: Mapping[str, Any]
) -> None:
    """Plot the seconds of a step over the pictures of a batch, and print what each way costs.

    Predictions are multiples of PyTorch's time at 64 pictures.
    """
    _, ax = plt.subplots()
    base_ms = raced[list(counts).index(64)]["PyTorch"] * 1e3
    for k, (name, guess) in enumerate(predicted.items()):
        if guess is not ...:
            label = f"{name}, predicted"
            ax.plot(64, guess * base_ms, "_", color=f"C{k}", ms=18, mew=2, label=label)
    for name, marker in zip(raced[0], "osd^", strict=False):
        took = np.array([times[name] for times in raced])
        (line,) = ax.loglog(counts, took * 1e3, marker, ls="", label=name)
        each, start_up = np.polyfit(counts, took, 1, w=1 / took)  # relative errors count
        model = (start_up + each * np.array(counts)) * 1e3
        ax.loglog(counts, model, color=line.get_color(), lw=1, ls=":")
        print(f"{name:14} {start_up * 1e3:6.2f} ms a step, and {each * 1e6:6.1f} µs a picture")
    ax.loglog([], [], color="C4", lw=1, ls=":", label="a time for the step plus one a picture")
    ax.set(xlabel="pictures in the batch", ylabel="time of a step in ms")
    ax.set(title="One network, three ways")
    ax.legend(fontsize="small")
    plt.show()


def plot_frameworks(at_64: Mapping[str, float]) -> None:
    """Plot six published frameworks as shares of the fastest, beside the race of this notebook."""
    _, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.4), width_ratios=(3, 1), sharey=True)
    width = 0.8 / len(FRAMEWORKS_2019)
    for k, name in enumerate(FRAMEWORKS_2019):
        shares = [share or np.nan for share in fraction_of_fastest(name)]
        at = np.arange(len(shares)) + (k - 2.5) * width
        left.bar(at, shares, width, label=name, color=f"C{k}")
    worst = min(share for share in fraction_of_fastest("PyTorch") if share)
    print(f"published: PyTorch at worst {1 - worst:.0%} behind the fastest")
    left.set_xticks(range(len(MODELS_2019)), MODELS_2019, fontsize="small")
    left.set(title="2019, on one GPU", ylabel="speed, share of the fastest", ylim=(0, 1.5))
    left.set_yticks([0, 0.5, 1])
    left.legend(fontsize="small", ncols=3)
    fastest = min(at_64.values())
    right.bar(range(len(at_64)), [fastest / s for s in at_64.values()], color="C9")
    right.set_xticks(range(len(at_64)), at_64, fontsize="small", rotation=25, ha="right")
    right.set_title("yours, on 64 pictures")
    plt.show()


def plot_updates(sizes: Sequence[int], took_s: Mapping[str, Sequence[float]], base: str) -> None:
    """Plot the time of an update over the weights, as a multiple of the way `base`."""
    _, ax = plt.subplots()
    for (name, measured), marker in zip(took_s.items(), "osd^v", strict=False):
        ax.loglog(sizes, np.array(measured) / took_s[base], marker=marker, label=name)
    ax.set(xlabel="weights", ylabel="time over NumPy in place", title="One update of one variable")
    ax.set_yticks([0.5, 1, 2, 4, 8], labels=["0.5", "1", "2", "4", "8"])
    ax.minorticks_off()
    ax.set_ylim(min(0.9, ax.get_ylim()[0]), 2.6 * ax.get_ylim()[1])
    ax.legend(fontsize="small", ncols=2)
    plt.show()
