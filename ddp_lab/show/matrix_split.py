"""Two products of matrices shared out over ranks, by columns and by rows: who has and sends what.

    MatrixSplit(way="column_row", ranks=4, rows=512, width=1024, times=4)

H = relu(X W1), Z = H W2; X and Z are whole on every rank before and after.
"""

import traitlets

from ddp_lab.errors import InvalidArgument
from ddp_lab.show.chart import Chart, module
from ddp_lab.show.svg_text import KINDS, box, picture, text

WAYS = ("column_row", "row_column", "column_column", "row_row")
TRIPS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}  # (p-1)/p of the array, each
SIDE, GAP, TOP = 104, 36, 64

Collective = tuple[str, int, str]  # name, elements, where


def plan(way: str, rows: int, width: int, hidden: int) -> tuple[dict[str, str], list[Collective]]:
    """Return how each array is cut, "" where ranks have it whole, and what a step sends.

    A product by columns needs its input whole; its gradient there is a sum. A product by rows
    gives addends. What a relu gets has to be a sum.
    """
    wide, narrow = rows * hidden, rows * width
    first, second = way.split("_")
    cuts = {"X": "column" if first == "row" else "", "W1": first, "H": "", "W2": second, "Z": ""}
    if first == "column":
        sent = [("all_reduce", narrow, "backward, in front of W1")]
        if second == "column":
            sent += [("all_gather", wide, "forward, of H")]
            sent += [("reduce_scatter", wide, "backward, of H")]
        else:
            cuts["H"] = "column"
    else:
        sent = [("all_gather", narrow, "backward, of the gradient of X")]
        if second == "row":
            cuts["H"] = "column"
            sent += [("reduce_scatter", wide, "forward, of H")]
            sent += [("all_gather", wide, "backward, of H")]
        else:
            sent += [("all_reduce", wide, "forward, of H"), ("all_reduce", wide, "backward, of H")]
    last = "all_reduce" if second == "row" else "all_gather"
    return cuts, [*sent, (last, narrow, "forward, of Z")]


def ring_bytes(sent: list[Collective], ranks: int) -> float:
    """Return the bytes that each rank sends over a ring, in numbers of 4 bytes."""
    return sum(TRIPS[name] * (ranks - 1) / ranks * 4 * n for name, n, _ in sent)


class MatrixSplit(Chart):
    """Who has which part of X, W1, H, W2 and Z; every trait but the title is a control.

    Args:
        way: how W1 and W2 are cut: `"column_row"`, `"row_column"`, `"column_column"`, `"row_row"`.
        ranks: 1 to 4.
        chosen: the rank that is looked at.
        rows, width: of X; `times` is how many times as wide H is.
        title: what stands above.
    Raises:
        InvalidArgument: an unknown way, or a number out of range.
    """

    _esm = module("matrix_split.js")
    title = traitlets.Unicode("Two products, shared out").tag(sync=True)
    way = traitlets.Unicode("column_row").tag(sync=True)
    ranks = traitlets.Int(2).tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)
    rows = traitlets.Int(512).tag(sync=True)
    width = traitlets.Int(1024).tag(sync=True)
    times = traitlets.Int(4).tag(sync=True)

    def __init__(self, **at: object) -> None:
        super().__init__(**at)
        if self.way not in WAYS or not 1 <= self.ranks <= 4 or min(self.rows, self.width) < 1:
            raise InvalidArgument(
                f"MatrixSplit: no such products: got {self.way!r} on {self.ranks} ranks, "
                f"{self.rows} rows, width {self.width}, expected one of {', '.join(WAYS)}, 1 to 4 "
                "ranks and sizes of 1 or more."
            )

    def summary(self) -> str:
        _, sent = plan(self.way, self.rows, self.width, self.width * self.times)
        mib = ring_bytes(sent, self.ranks) / 2**20
        names = ", ".join(f"{name} {where}" for name, _, where in sent)
        return (
            f"{self.heading()}: {self.way} on {self.ranks} ranks needs {len(sent)} collectives "
            f"({names}); each rank sends {mib:.3g} MiB over a ring."
        )

    def poster(self) -> str:
        cuts, _ = plan(self.way, self.rows, self.width, self.width * self.times)
        marks = [text(10, 22, self.heading())]
        for place, (name, cut) in enumerate(cuts.items()):
            x = 16 + place * (SIDE + GAP)
            marks.append(text(x, TOP - 8, f"{name}: {f'by {cut}s' if cut else 'whole'}"))
            for rank in range(self.ranks if cut else 1):
                share, words = SIDE / self.ranks, f"{name} on rank {rank}"
                kind = KINDS[rank if cut else self.chosen % self.ranks]
                if cut == "column":
                    marks.append(box(x + rank * share, TOP, share - 1, SIDE, kind, words))
                elif cut == "row":
                    marks.append(box(x, TOP + rank * share, SIDE, share - 1, kind, words))
                else:
                    marks.append(box(x, TOP, SIDE, SIDE, kind, words))
        return picture(5 * (SIDE + GAP) + 16, TOP + SIDE + 16, self.summary(), marks)
