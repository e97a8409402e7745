"""Figures of lab 00: the roofline of a machine with tasks on it, and the years of the course."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib import pyplot as plt

# year, what, band; each with its paper
YEARS = (
    (2004, "MapReduce", 0),  # Dean and Ghemawat, OSDI
    (2012, "Spark", 1),  # Zaharia et al., NSDI
    (2012, "AlexNet", 2),  # Krizhevsky et al., NIPS
    (2014, "parameter server", 1),  # Li et al., OSDI
    (2016, "TensorFlow", 2),  # Abadi et al., OSDI
    (2017, "Transformer", 3),  # Vaswani et al., NIPS
    (2019, "PyTorch", 2),  # Paszke et al., NeurIPS
    (2020, "GPT-3", 3),  # Brown et al., NeurIPS
)
BANDS = ("one pass over records", "many passes, until it converges", "networks", "transformers")


@dataclass(frozen=True)
class Point:
    """A task on the roofline: its operations, the bytes that it moves, and how long it took."""

    operations: float
    n_bytes: float
    seconds: float


def draw_roofline(rates: Mapping[str, float], tasks: Mapping[str, Point]) -> None:
    """Draw what this machine can reach at each number of operations a byte, and the tasks on it.

    Source: Williams, Waterman & Patterson, Commun. ACM 52(4), 2009.
    """
    _, ax = plt.subplots()
    x = np.geomspace(1 / 64, 1024, 200)
    peak = rates["multiplications"]
    for color, kind in (("C1", "disk bytes"), ("C0", "memory bytes")):
        reached = np.minimum(peak, x * rates[kind])
        ax.loglog(x, reached, "-", color=color, label=f"at most, from {kind.split()[0]}")
    for marker, (name, task) in zip("osD^v", tasks.items(), strict=False):
        at = task.operations / task.n_bytes, task.operations / task.seconds
        ax.plot(*at, marker, color="C2", markersize=9, linestyle="none", label=name)
    ax.set(xlabel="operations a byte", ylabel="operations a second", title="This machine")
    ax.legend(loc="lower right")
    plt.show()


def draw_years() -> None:
    """Draw when systems of each kind came."""
    _, ax = plt.subplots(figsize=(8, 2.9))
    for at, (year, event, band) in enumerate(YEARS):
        ax.plot(year, band, "o", color=f"C{band}")
        below = band in {earlier[2] for earlier in YEARS[:at]} and at % 2  # neighbours in turns
        beside = (6, -14 if below else 5)
        ax.annotate(event, (year, band), xytext=beside, textcoords="offset points")
    ax.set(yticks=range(len(BANDS)), yticklabels=BANDS, ylim=(-0.6, 3.6), xlim=(2003, 2023))
    ax.set_xticks(range(2004, 2024, 4))
    ax.set_title("What a system was made for")
    plt.show()
