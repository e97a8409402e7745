"""Boxes and arrows of a scene: `layout` says where, this makes the marks."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from minitorch.show.layout import Point, place
from minitorch.show.scene import Canvas, When, always

CHAR_W, LINE_H, PAD = 7.3, 16.0, 8.0  # a monospace glyph of 12 px, rounded up
BOLD_W, SMALL_W = 7.9, 6.6  # of the proportional font, bold and small
MARGIN = 12.0
LONGEST = 40  # letters of a line; a name that is longer is cut in its middle


@dataclass(frozen=True)
class Line:
    """A line of text in a box: what it says, and when in which classes."""

    text: str
    when: When | str = ""
    row: int = -1
    """Which line of the box it is; the next one unless given. Lines of one row take turns."""

    @property
    def shown(self) -> str:
        """The part of the text that fits into the box."""
        if len(self.text) <= LONGEST:
            return self.text
        half = (LONGEST - 1) // 2
        return f"{self.text[: LONGEST - 1 - half]}…{self.text[-half:]}"


@dataclass(frozen=True)
class Boxed:
    """A box of a diagram: its lines, its classes over time, and when it is ringed."""

    key: Hashable
    lines: tuple[Line, ...]
    when: When | str = "box"
    rings: tuple[int, ...] = ()
    tip: str = ""
    round: bool = False

    @property
    def rows(self) -> int:
        """How many lines it has room for."""
        count = 0
        for line in self.lines:
            count = max(count, (line.row if line.row >= 0 else count) + 1)
        return count

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        widest = max((len(line.shown) * _glyph(line) for line in self.lines), default=4 * CHAR_W)
        return widest + 2 * PAD, self.rows * LINE_H + 10


def _glyph(line: Line) -> float:
    """Return the width of a letter of this line, rounded up."""
    classes = line.when if isinstance(line.when, str) else line.when[0][2] if line.when else ""
    return BOLD_W if "bold" in classes else SMALL_W if "small" in classes else CHAR_W


@dataclass(frozen=True)
class Wire:
    """An arrow of a diagram, its classes over time beside "wire"."""

    source: Hashable
    target: Hashable
    when: When | str = "wire"


Paths = Mapping[tuple[Hashable, Hashable], Sequence[str]]
"""The paths between two boxes, by source and target."""


@dataclass(frozen=True)
class Drawn:
    """Where things ended up: the size of the diagram, and the paths of the wires."""

    width: float
    height: float
    paths: Paths


def draw(
    canvas: Canvas, boxes: Sequence[Boxed], wires: Sequence[Wire],
    x: float = 0.0, y: float = 0.0, room: float = 0.0,
) -> Drawn:  # fmt: skip
    """Add a diagram to a canvas, its upper left corner at (x, y), in the middle of some room."""
    sizes = {box.key: box.size for box in boxes}
    layout = place(sizes, [(wire.source, wire.target) for wire in wires])
    width = layout.width + 2 * MARGIN
    left, top = x + max((room - width) / 2, 0.0) + MARGIN, y + MARGIN
    paths: dict[tuple[Hashable, Hashable], list[str]] = {}
    for wire, points in zip(wires, layout.paths, strict=True):
        d = curve([(px + left, py + top) for px, py in points])
        paths.setdefault((wire.source, wire.target), []).append(d)
        canvas.path(d, wire.when, arrow=True)
    for box in boxes:
        cx, cy = layout.centers[box.key]
        _draw_box(canvas, box, cx + left, cy + top)
    return Drawn(width, layout.height + 2 * MARGIN, paths)


def _draw_box(canvas: Canvas, box: Boxed, cx: float, cy: float) -> None:
    width, height = box.size
    left, top = cx - width / 2, cy - height / 2
    canvas.rect(left, top, width, height, box.when, rx=10 if box.round else 4, tip=box.tip)
    if box.rings:
        when = tuple((at, at + 1, "ring") for at in box.rings)
        canvas.rect(left - 3, top - 3, width + 6, height + 6, when, rx=12 if box.round else 6)
    row = 0
    for line in box.lines:
        at = line.row if line.row >= 0 else row
        row = max(row, at + 1)
        when = tuple((a, b, f"{classes} middle") for a, b, classes in always(line.when))
        canvas.text(cx, top + 5 + (at + 1) * LINE_H - 4, line.shown, when)


def curve(path: Sequence[Point]) -> str:
    """Return a polyline as one smooth curve in SVG's words: vertical where it meets a layer."""
    (x, y), *points = path
    d = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in points:
        middle = (y + ny) / 2
        d.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(d)
