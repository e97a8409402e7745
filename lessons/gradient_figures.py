"""Figures of lab 01: what a formula, a step, a batch and a wrong gradient cost."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def plot_formula(sizes: Sequence[int], taken_s: Sequence[float]) -> None:
    """Plot the time of the formula over the weights, beside a constant times their cube."""
    _, ax = plt.subplots()
    ax.loglog(sizes, np.array(taken_s) * 1e3, "o-", label="measured")
    model = taken_s[-1] * (np.array(sizes) / sizes[-1]) ** 3
    ax.loglog(sizes, model * 1e3, color="C4", lw=1, ls=":", label="a constant times d cubed")
    ax.set_xticks(sizes, labels=[str(size) for size in sizes], minor=False)
    ax.minorticks_off()
    ax.set(xlabel="weights d", ylabel="time in ms", title="What the formula costs")
    ax.legend()
    plt.show()


def plot_distances(ways: Mapping[str, Floats], model: Floats) -> None:
    """Plot the distance to the minimum over the step for some learning rates."""
    _, ax = plt.subplots()
    for name, way in ways.items():
        ax.semilogy(way, label=name)
    ax.semilogy(model, color="C4", lw=7, ls="-", alpha=0.35, label="model for 0.5")
    ax.set(xlabel="step", ylabel="distance to the formula's weights", ylim=(1e-2, 1e1))
    ax.set_title("A longer step is faster, up to a limit")
    ax.legend(fontsize="small")
    plt.show()


def plot_differences(steps: Floats, central: object, forward: object) -> None:
    """Plot the error of differences over the step, beside the two errors that a step has."""
    _, ax = plt.subplots()
    ax.loglog(steps, forward, "s", label="forward differences")
    ax.loglog(steps, central, "o", label="central differences")
    ax.loglog(steps, 1e-16 / steps, color="C4", lw=1, ls=":", label="digits lost: $\\varepsilon/h$")
    label = "curve bends: $h^2/6$, and $h/2$"
    ax.loglog(steps, steps**2 / 6, color="C4", lw=1, ls="--", label=label)
    ax.loglog(steps, steps / 2, color="C4", lw=1, ls="--")
    ax.set(xlabel="step h", ylabel="relative error", ylim=(1e-13, 1))
    ax.set_title("Every step has two errors")
    ax.legend(fontsize="small")
    plt.show()


def plot_activations(z: Floats, curves: Mapping[str, Floats], slopes: Mapping[str, Floats]) -> None:
    """Plot three activations, and their slopes beside them."""
    _, axes = plt.subplots(1, 2, figsize=(8.6, 3))
    for ax, lines, title in zip(axes, (curves, slopes), ("activation", "its slope"), strict=True):
        for name, line in lines.items():
            ax.plot(z, line, label=name)
        ax.set(xlabel="z", title=title, ylim=(-1.1, 2))
    axes[0].legend(fontsize="small")
    plt.show()


def plot_batches(batches: Sequence[int], curves: Mapping[str, tuple[Floats, Floats]]) -> None:
    """Plot {name: (measured, predicted)} seconds of a forward pass over the pictures."""
    _, ax = plt.subplots()
    for (name, (measured, line)), marker in zip(curves.items(), "os", strict=False):
        ax.loglog(batches, measured * 1e6, marker + "-", label=name)
        ax.loglog(batches, line * 1e6, color="C4", lw=1, ls=":")
    label = "a fixed time plus a time for each picture"
    ax.loglog([], [], color="C4", lw=1, ls=":", label=label)
    ax.set(xlabel="pictures in the batch", ylabel="time in µs", title="A forward pass")
    ax.legend()
    plt.show()


def plot_losses(losses: Mapping[str, Sequence[float]], title: str, wide: str = "") -> None:
    """Plot losses over the step, averaged over an epoch of 23 steps; `wide` is a broad one."""
    _, ax = plt.subplots()
    for name, values in losses.items():
        (line,) = ax.semilogy(np.convolve(values, np.ones(23) / 23, mode="valid"), label=name)
        if name == wide:
            line.set(linewidth=6, alpha=0.35)
    ax.set(xlabel="step", ylabel="loss in nats, mean of an epoch", title=title)
    ax.legend(fontsize="small")
    plt.show()


def plot_lengths(residual: Floats, plain: Floats) -> None:
    """Plot the length of the gradient at each layer, with skips and without."""
    _, ax = plt.subplots()
    depth = np.arange(1, len(plain) + 1)
    ax.semilogy(depth, residual, "o-", label="with skips")
    ax.semilogy(depth, plain, "s--", label="without")
    model = plain[-1] * 2 ** ((depth - 16) / 2)
    ax.semilogy(depth, model, color="C4", lw=1, ls=":", label="half the mean square at each layer")
    ax.set(xlabel="layer", ylabel="length of the gradient", title="What reaches the first layers")
    ax.legend()
    plt.show()


def resnet50_parameters() -> Iterator[tuple[int, ...]]:
    """Yield the shape of each parameter of ResNet-50 (He et al. 2016, table 1)."""

    def conv(n_in: int, n_out: int, k: int) -> Iterator[tuple[int, ...]]:
        yield from [(n_out, n_in, k, k), (n_out,), (n_out,)]  # filter; scale and shift behind it

    yield from conv(3, 64, 7)
    n_in = 64
    for width, blocks in zip([64, 128, 256, 512], [3, 4, 6, 3], strict=True):
        for block in range(blocks):
            yield from conv(n_in, width, 1)
            yield from conv(width, width, 3)
            yield from conv(width, 4 * width, 1)
            if block == 0:
                yield from conv(n_in, 4 * width, 1)  # the skip changes width, too
            n_in = 4 * width
    yield from [(1000, 2048), (1000,)]
