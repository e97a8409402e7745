"""Which algorithm, for how many ranks and how large an array: steps, bytes and time.

    CollectivesExplorer()                              # 2 to 8 ranks
    CollectivesExplorer(explore(range(2, 17)))

Every number comes from a run of the package's own algorithms on the virtual clock. Beside the
lines may stand points that were measured over a link: `CollectivesExplorer(recorded=record(4))`.
"""

import math
from collections.abc import Iterable
from functools import cache
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
import traitlets

from ddp_lab.collectives.registry import Algorithm, lookup
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.launcher import launch
from ddp_lab.launch.threads import run_threads
from ddp_lab.show.chart import Axis, Chart, Plot, module
from ddp_lab.show.svg_text import KINDS, line, picture, text
from ddp_lab.simulate.collectives import call, collective
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld

COMPARED = {
    "all_reduce": (
        "ring",
        "halving_doubling",
        "recursive_doubling",
        "tree",
        "one_shot",
        "reference",
    ),
    "all_gather": ("ring", "recursive_doubling", "direct", "reference"),
    "broadcast": ("tree", "reference"),
    "reduce_scatter": ("ring", "direct", "reference"),
    "all_to_all": ("direct",),
}
ELEMENTS = 5040  # a multiple of every number of ranks up to 10, and of 12, 14, 15, 16
DASHES = ("", "7 4", "2 3", "9 3 2 3")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 720, 380, 70, 50, 60
LETTER = 7  # pixels, the widest of a name on average
SIZES = [2.0**power for power in range(10, 31)]
RECORDED_LINK = Link(512e-6, 16e-9)  # where the sliders can stand
RECORDED_SIZES = (2**10, 2**14, 2**17, 2**20)


def row(name: str, algorithm: str, ranks: int) -> dict[str, Any]:
    """Return what a run of an algorithm shows, as JSON-ready data.

    `steps` is its time at one second a message and none a byte, `share` that at one second an
    array and none a message; `busiest` is what the busiest rank sends, as a share of the array.

    Raises:
        UnknownAlgorithm: the collective has no algorithm of that name.
    """
    return _row(name, algorithm, ranks, lookup(name, algorithm))


@cache
def _row(name: str, algorithm: str, ranks: int, registered: Algorithm) -> dict[str, Any]:
    """Return a row; what is `registered` is part of the key, since a name can be given anew."""
    world = SimWorld(ranks, Link(0.0, 0.0, 0.0))
    n_bytes = int(np.lcm(ELEMENTS, ranks))  # which split evenly among so many ranks
    results = run_threads(call, world, (name, algorithm, n_bytes), record=True)
    return {
        "collective": name,
        "algorithm": algorithm,
        "ranks": ranks,
        "steps": collective(name, algorithm, 1.0, ranks, 1.0, 0.0),
        "share": collective(name, algorithm, 1.0, ranks, 0.0, 1.0),
        "busiest": max(rank.bytes_sent for rank in results.traffic) / n_bytes,
        "messages": sum(rank.messages_sent for rank in results.traffic),
    }


def explore(
    world_sizes: Iterable[int] = range(2, 9), compared: dict[str, tuple[str, ...]] | None = None
) -> list[dict[str, Any]]:
    """Return a row for each collective, algorithm and number of ranks.

    Raises:
        UnknownAlgorithm: a collective has no algorithm of that name.
    """
    chosen = COMPARED if compared is None else compared
    for name, algorithms in chosen.items():
        for algorithm in algorithms:
            lookup(name, algorithm)
    return [
        row(name, algorithm, ranks)
        for name, algorithms in chosen.items()
        for ranks in world_sizes
        for algorithm in algorithms
    ]


def record(
    ranks: int, link: Link = RECORDED_LINK, sizes: Iterable[int] = RECORDED_SIZES, rounds: int = 5
) -> dict[str, Any]:
    """Return the seconds of all-reduces between hosts of one rank, over a link on the wall clock.

    Of each algorithm and size the quickest of some rounds counts, on the rank that took longest.
    """
    names = tuple(name for name in COMPARED["all_reduce"] if name != "one_shot")
    where: Any = {"transport": "threads", "hosts": ranks, "link": link}
    seconds_of = launch(_measure, ranks, names, tuple(sizes), rounds, **where)
    points = [
        {"algorithm": name, "n": n, "seconds": float(max(rank[name, n] for rank in seconds_of))}
        for name, n in seconds_of[0]
    ]
    at = {"ranks": ranks, "latency_us": link.alpha * 1e6, "bandwidth_gb_s": 1e-9 / link.beta}
    return {**at, "collective": "all_reduce", "points": points}


def _measure(
    comm: Communicator, names: tuple[str, ...], sizes: tuple[int, ...], rounds: int
) -> dict[tuple[str, int], float]:
    best: dict[tuple[str, int], float] = {}
    for name, n in product(names, sizes):
        x = np.zeros(n, np.uint8)
        for _ in range(rounds):
            comm.barrier()
            began = perf_counter()
            comm.all_reduce(x, algorithm=name)
            best[name, n] = min(best.get((name, n), np.inf), perf_counter() - began)
    return best


class CollectivesExplorer(Chart):
    """Time by size of the array, a line an algorithm, and a table; traits but rows are controls.

    `recorded` is what `record` returns: points, drawn where the controls are as it was.
    """

    _esm = module("collectives_explorer.js")
    rows: Any = traitlets.List().tag(sync=True)
    recorded: Any = traitlets.Dict().tag(sync=True)
    collective = traitlets.Unicode("all_reduce").tag(sync=True)
    ranks = traitlets.Int(4).tag(sync=True)
    size_log2 = traitlets.Float(20.0).tag(sync=True)
    latency_us = traitlets.Float(8.0).tag(sync=True)
    bandwidth_gb_s = traitlets.Float(8.0).tag(sync=True)

    def __init__(self, rows: list[dict[str, Any]] | None = None, **at: Any) -> None:
        rows = explore() if rows is None else rows
        at = {"collective": rows[0]["collective"], "ranks": rows[0]["ranks"], **at}
        super().__init__(rows=rows, **at)

    def seconds(self, of: dict[str, Any], n_bytes: float) -> float:
        """Return the time of a row at this size: steps * alpha + share * n * beta."""
        seconds: float = of["steps"] * self.latency_us * 1e-6
        seconds += of["share"] * n_bytes / (self.bandwidth_gb_s * 1e9)
        return seconds

    def chosen(self) -> list[dict[str, Any]]:
        """Return the rows of the collective and number of ranks that are shown."""
        wanted = self.collective, self.ranks
        return [row for row in self.rows if (row["collective"], row["ranks"]) == wanted]

    def heading(self) -> str:
        return "Collectives by algorithm"

    def summary(self) -> str:
        n_bytes = 2**self.size_log2
        best = min(self.chosen(), key=lambda of: self.seconds(of, n_bytes))
        return (
            f"{self.collective} of {n_bytes / 2**20:g} MiB on {self.ranks} ranks: "
            f"{best['algorithm']} is fastest, {self.seconds(best, n_bytes) * 1e3:.3g} ms."
        )

    def poster(self) -> str:
        rows = self.chosen()
        ends = [self.seconds(of, n) for of in rows for n in (SIZES[0], SIZES[-1])]
        right = WIDTH - max(190, 60 + LETTER * max(len(of["algorithm"]) for of in rows))
        across, up = (Axis(min(ns), max(ns), logarithmic=True) for ns in (SIZES, ends))
        plot = Plot(across, up, LEFT, right, TOP, HEIGHT - BOTTOM)
        powers = range(math.ceil(math.log10(up.low)), math.floor(math.log10(up.high)) + 1)
        sizes = ((2.0**10, "1 KiB"), (2.0**20, "1 MiB"), (2.0**30, "1 GiB"))
        marks = [text(10, 22, f"{self.heading()}: {self.collective}, {self.ranks} ranks")]
        marks += plot.frame(sizes, [(10.0**p, _in_words(p)) for p in powers], "size of the array")
        for number, of in enumerate(rows):
            look = KINDS[number % 4], 2, DASHES[(number + number // 4) % 4]
            marks.append(line([plot.at(n, self.seconds(of, n)) for n in SIZES], *look))
            marks += plot.legend(TOP + 20 * number, of["algorithm"], *look)
        marks.append(text(LEFT, TOP - 14, "time, predicted"))
        return picture(WIDTH, HEIGHT, self.summary(), marks)


def _in_words(power: int) -> str:
    """Return that power of ten in seconds."""
    unit, scale = ("s", 0) if power >= 0 else ("ms", 3) if power >= -3 else ("µs", 6)
    return f"{10.0 ** (power + scale):g} {unit}"
