"""A schedule at work: its loop nest, and the blocks of A, B and C that each round touches."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from minitorch.compile.schedule import Schedule, reach
from minitorch.errors import ArgumentError
from minitorch.show.numbers import in_bytes
from minitorch.show.scene import Canvas, Scene, Step

LEFT, TOP, ROOM, GAP = 24.0, 40.0, 210.0, 54.0
LINE = 18.0  # a line of the loop nest
MOST = 64  # rounds to go through, from the first on
HINT = "The block of C stays in registers while k runs. Bytes are those of the tile."
LEGEND = (
    ("bar faded", "tile that the caches hold"),
    ("bar", "touched by one round of the two inner loops"),
    ("bar grad", "block of C, in registers"),
)


Spans = dict[str, tuple[int, int]]  # start and end, by axis


class Round(NamedTuple):
    """Where one register block is computed: in which tile, and where there."""

    tile: Spans
    block: Spans


def walk_schedule(schedule: Schedule, *, title: str = "A schedule at work") -> Scene:
    """Return the loops of a schedule of a product, to be gone through block by block.

    Raises:
        ArgumentError: no schedule of a product.
    """
    if not isinstance(schedule, Schedule) or schedule.task.operator != "matmul":
        raise ArgumentError("walk_schedule: expected a Schedule of a matmul.")
    every = list(rounds_of(schedule))
    rounds, total = every[:MOST], len(every)
    view = _View(schedule)
    canvas = Canvas()
    view.matrices(canvas)
    for at, round_ in enumerate(rounds, 1):
        view.parts(canvas, at, round_)
    bottom = view.listing(canvas)
    steps = [Step(f"{schedule.task}: {total:,} rounds of the inner loops. Nothing is touched yet.")]
    steps += [_step(schedule, at, total, round_) for at, round_ in enumerate(rounds, 1)]
    return Scene(
        title, HINT, "Loops", _summary(schedule, total), view.width, bottom,
        tuple(canvas.marks), tuple(steps), min(2, len(steps) - 1), LEGEND,
    )  # fmt: skip


def rounds_of(s: Schedule) -> Iterator[Round]:
    """Give the rounds in the order in which the loops run."""
    sizes = dict(zip("mnk", s.task.axes, strict=True))
    tiles = dict(zip("mnk", s.tiles, strict=True))
    blocks = {"m": s["rows"], "n": s.columns}
    for starts in product(*(range(0, sizes[a], tiles[a]) for a in s["order"])):
        tile = {
            a: (at, min(at + tiles[a], sizes[a])) for a, at in zip(s["order"], starts, strict=True)
        }
        for j, i in product(*(range(*tile[a], blocks[a]) for a in "nm")):
            rows = (i, min(i + blocks["m"], tile["m"][1]))
            columns = (j, min(j + blocks["n"], tile["n"][1]))
            yield Round(tile, {"m": rows, "n": columns, "k": tile["k"]})


class _View:
    """Where the matrices are on the canvas: A left, B and C right of it, to one scale."""

    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        m, n, k = schedule.task.axes
        self.scale = ROOM / max(m, n, k)
        right = LEFT + max(k * self.scale, 90.0) + GAP
        far = right + max(n * self.scale, 90.0) + GAP
        self.at = {
            "A": (LEFT, "mk", "bar"), "B": (right, "kn", "bar"), "C": (far, "mn", "bar grad"),
        }  # fmt: skip
        self.width = max(far + max(n * self.scale, 90.0) + LEFT, 640.0)
        self.sizes = {"m": m, "n": n, "k": k}

    def place(self, name: str, spans: Spans) -> tuple[float, float, float, float]:
        """Return x, y, width and height of a part of a matrix."""
        x, axes, _ = self.at[name]
        top, bottom = spans[axes[0]]
        left, right = spans[axes[1]]
        s = self.scale
        return x + left * s, TOP + top * s, (right - left) * s, (bottom - top) * s

    def matrices(self, canvas: Canvas) -> None:
        whole = {axis: (0, size) for axis, size in self.sizes.items()}
        for name, (x, axes, _) in self.at.items():
            canvas.rect(*self.place(name, whole), "box", rx=0)
            shape = " x ".join(str(self.sizes[axis]) for axis in axes)
            canvas.text(x, TOP - 12, name, "bold")
            canvas.text(x + 16, TOP - 12, shape, "small muted")

    def parts(self, canvas: Canvas, at: int, round_: Round) -> None:
        """Add what one round touches, seen at one position."""
        for name, (_, _, shade) in self.at.items():
            now = (at, at + 1)
            canvas.rect(*self.place(name, round_.tile), ((*now, f"{shade} faded"),), rx=0)
            canvas.rect(*self.place(name, round_.block), ((*now, shade),), rx=0)

    def listing(self, canvas: Canvas) -> float:
        """Write the loop nest and the bytes of a tile below; return where the picture ends."""
        y = TOP + max(self.sizes["m"], self.sizes["k"]) * self.scale + 34
        for line in str(self.s).splitlines():
            canvas.text(LEFT, y, line, "code")
            y += LINE
        for name, n_bytes in self.s.tile_bytes.items():
            sentence = f"tile of {name}: {in_bytes(n_bytes)}, {reach(n_bytes)}"
            canvas.text(LEFT, y + 8, sentence, "small muted")
            y += LINE
        return y + 10


def _step(s: Schedule, at: int, total: int, round_: Round) -> Step:
    rows, columns, terms = (f"{a} to {b - 1}" for a, b in (round_.block[x] for x in "mnk"))
    m, n, k = (b - a for a, b in (round_.block[x] for x in "mnk"))
    loads, work = (m + n) * k, m * n * k
    text = f"Round {at:,} of {total:,}: rows {rows}, columns {columns}, k {terms}."
    details = f"{work:,} multiply-adds, {loads:,} numbers loaded: {work / loads:.1f} for each"
    return Step(text, (details,))


def _summary(s: Schedule, total: int) -> str:
    return (
        f"The product {s.task} in {total:,} rounds of a block of {s['rows']} rows by "
        f"{s['vectors']} vectors of {s['lanes']}. A tile touches "
        + ", ".join(f"{in_bytes(n)} of {name}" for name, n in s.tile_bytes.items())
        + "."
    )
