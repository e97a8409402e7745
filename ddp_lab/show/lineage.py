"""A machine is lost: lineage makes its partition again, ranks of an all-reduce all start again.

    Lineage(partitions=4, steps=6, shuffle=3, cached=2, stored=0)

A dataset of `partitions` goes through `steps`, partition p on machine p. A shuffle reads all
partitions of the step before, any other step its own. Beside it as many ranks train as long, with
an all-reduce in every step. Machine 1 goes when the last step is done.
"""

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, module
from ddp_lab.show.svg_text import box, picture, text

Cell = tuple[int, int]  # partition or rank, step: 1, 2, ...
LOST = 1
MOST = 8
SIDE, GAP, TOP, LEFT = 30, 4, 72, 84


def every(step: int, period: int) -> bool:
    """Return whether a step is one of those that come after each `period` steps; 0 is never."""
    return period > 0 and step % period == 0


def list_recomputed(
    partitions: int, steps: int, shuffle: int, cached: int, stored: int
) -> set[Cell]:
    """Return what lineage computes to have the lost partition of the last step again.

    Results after each `cached` steps are in memory, and lost with machine 1; results after each
    `stored` steps, and what the first step reads, are on disks that last.
    """
    recomputed: set[Cell] = set()
    waiting = [(LOST, steps)]
    while waiting:
        partition, step = waiting.pop()
        recomputed.add((partition, step))
        before = step - 1
        if before == 0 or every(before, stored):
            continue
        parents = range(partitions) if every(step, shuffle) else [partition]
        there = every(before, cached)
        needed = {(p, before) for p in parents if p == LOST or not there}
        waiting += needed - recomputed
    return recomputed


def list_restarted(ranks: int, steps: int, stored: int) -> set[Cell]:
    """Return what ranks of an all-reduce do again: everybody all, since the last checkpoint."""
    first = (steps - 1) // stored * stored if stored > 0 else 0
    return {(rank, step) for rank in range(ranks) for step in range(first + 1, steps + 1)}


class Lineage(Chart):
    """What is computed again when a machine is lost; every trait but the title is a control.

    Args:
        partitions: of the dataset, and ranks: 2 to 8.
        steps: that were done: 1 to 8.
        shuffle, cached, stored: after how many steps each comes again; 0 is never.
        title: what stands above.
    Raises:
        InvalidArgument: a number out of range.
    """

    _esm = module("lineage.js")
    title = traitlets.Unicode("A machine is lost: what is done again?").tag(sync=True)
    partitions = traitlets.Int(4).tag(sync=True)
    steps = traitlets.Int(6).tag(sync=True)
    shuffle = traitlets.Int(4).tag(sync=True)
    cached = traitlets.Int(0).tag(sync=True)
    stored = traitlets.Int(0).tag(sync=True)

    def __init__(self, **at: object) -> None:
        super().__init__(**at)
        periods = (self.shuffle, self.cached, self.stored)
        if not (2 <= self.partitions <= MOST and 1 <= self.steps <= MOST and min(periods) >= 0):
            raise InvalidArgument(
                f"Lineage: no such run: got {self.partitions} partitions, {self.steps} steps, "
                f"periods {periods}, expected 2 to {MOST}, 1 to {MOST}, and 0 or more."
            )

    def pieces(self) -> tuple[set[Cell], set[Cell]]:
        """Return what lineage, and what all-reduce, does again."""
        n, steps = self.partitions, self.steps
        again = list_recomputed(n, steps, self.shuffle, self.cached, self.stored)
        return again, list_restarted(n, steps, self.stored)

    def summary(self) -> str:
        again, begun = self.pieces()
        whole = self.partitions * self.steps
        return (
            f"{self.heading()} After {self.steps} steps on {self.partitions} machines lineage does "
            f"{len(again)} of {whole} pieces again, all-reduce {len(begun)}."
        )

    def poster(self) -> str:
        across = LEFT + self.steps * (SIDE + GAP) + 40
        marks = [text(10, 22, self.heading())]
        for k, (name, again) in enumerate(
            zip(("lineage", "all-reduce"), self.pieces(), strict=True)
        ):
            marks.append(text(k * across + 10, TOP - 28, f"{name}: {len(again)} again"))
            for machine in range(self.partitions):
                y = TOP + machine * (SIDE + GAP)
                marks.append(text(k * across + 10, y + 20, f"machine {machine}"))
                for step in range(1, self.steps + 1):
                    x = k * across + LEFT + (step - 1) * (SIDE + GAP)
                    kind = "exposed" if (machine, step) in again else "backward"
                    marks.append(box(x, y, SIDE, SIDE, kind, f"machine {machine}, step {step}"))
        return picture(2 * across, TOP + self.partitions * (SIDE + GAP) + 10, self.summary(), marks)
