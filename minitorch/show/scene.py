"""A scene: a picture with steps, as plain data. The player plays it, the poster is one step of it.

A mark is one SVG element with the positions at which it is seen, and the CSS classes that it has
then. Position 0 is before the first step. Nothing here knows what the picture is about.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ALWAYS = 1 << 30
"""A position after every scene's end."""

When = tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class Mark:
    """An SVG element.

    Attributes:
        shape: "rect", "text", "path", "circle" or "line".
        attrs: its geometry.
        when: (from, to, classes): from the first position up to, not including, the second.
        text: what a text says.
        tip: what hovering says.
        arrow: whether a path ends in an arrowhead.
    """

    shape: str
    attrs: dict[str, float | str]
    when: When
    text: str = ""
    tip: str = ""
    arrow: bool = False


@dataclass(frozen=True)
class Travel:
    """A dot that moves along a path: of a kind ("", "grad", "dead"), perhaps backwards."""

    d: str
    kind: str = ""
    back: bool = False


@dataclass(frozen=True)
class Step:
    """What a position means: a sentence, some details, and what travels on the way to it."""

    text: str
    rows: tuple[str, ...] = ()
    travels: tuple[Travel, ...] = ()


@dataclass(frozen=True)
class Drag:
    """A value that can be dragged: its name, and the scene that each of its values makes.

    `at` is which of the scenes comes first; from one to the next the share of their steps is kept.
    """

    name: str
    values: tuple[float, ...]
    scenes: "tuple[Scene, ...]"
    at: int


@dataclass(frozen=True)
class Scene:
    """A picture with steps.

    In a notebook it shows itself as the player; where no widget can be, as a still picture.

    Attributes:
        title, hint: what it shows, and how to read it.
        legend: (classes, words) of each kind of mark that needs explaining.
        panes: (name, top, bottom) of the parts of a picture that is too tall for a hall.
        drag: a value that can be dragged, or None.
        tab: its name among several scenes.
        summary: all of it in two sentences, for those who cannot see it.
        steps: at least one; the first is the position before anything has happened.
        still: the position that the poster shows.
    """

    title: str
    hint: str
    tab: str
    summary: str
    width: float
    height: float
    marks: tuple[Mark, ...]
    steps: tuple[Step, ...]
    still: int
    legend: tuple[tuple[str, str], ...] = ()
    panes: tuple[tuple[str, float, float], ...] = ()
    drag: Drag | None = None

    def as_dict(self) -> dict[str, object]:
        """Return the scene as what JSON can hold."""
        return {
            "title": self.title,
            "hint": self.hint,
            "tab": self.tab,
            "width": round(self.width),
            "height": round(self.height),
            "marks": [_mark(mark) for mark in self.marks],
            "steps": [asdict(step) for step in self.steps],
            "legend": [*self.legend],
            "panes": [*self.panes],
            "drag": self.drag
            and vars(self.drag) | {"scenes": [scene.as_dict() for scene in self.drag.scenes]},
        }

    def player(self) -> Any:
        """Return the widget that plays it."""
        from minitorch.show.widget import Player

        return Player([self])

    def save(self, path: str | Path) -> Path:
        """Write it as an HTML page that plays without kernel or network."""
        from minitorch.show.page import page

        path = Path(path)
        path.write_text(page([self]), encoding="utf-8")
        return path

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        return bundle([self])

    def __repr__(self) -> str:
        return self.summary


def bundle(scenes: Sequence[Scene]) -> Any:
    """Return what a notebook shows: the player, with a poster and a text where it cannot be."""
    from minitorch.show.page import make_poster

    if has_kernel() and find_spec("anywidget") is not None:
        from minitorch.show.widget import Player

        return Player(scenes)._repr_mimebundle_()
    return make_poster(scenes)


def has_kernel() -> bool:
    """Tell whether this is a notebook's process: a terminal has no place for widgets."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _mark(mark: Mark) -> dict[str, object]:
    numbers = {
        key: round(value, 1) if isinstance(value, float) else value
        for key, value in mark.attrs.items()
    }
    shape: dict[str, object] = {"shape": mark.shape, "attrs": numbers, "when": [*mark.when]}
    fields = {"text": mark.text, "tip": mark.tip, "arrow": mark.arrow}
    return shape | {key: value for key, value in fields.items() if value}


@dataclass
class Canvas:
    """Collects marks. Places are in pixels from the upper left corner."""

    marks: list[Mark] = field(default_factory=list)

    def rect(
        self, x: float, y: float, w: float, h: float, when: When | str, rx: float = 3, tip: str = ""
    ) -> None:
        """Add a rectangle."""
        attrs: dict[str, float | str] = {"x": x, "y": y, "width": w, "height": h, "rx": rx}
        self.marks.append(Mark("rect", attrs, always(when), tip=tip))

    def text(self, x: float, y: float, text: str, when: When | str = "", tip: str = "") -> None:
        """Add a line of text; its place is the start of its baseline unless a class says."""
        self.marks.append(Mark("text", {"x": x, "y": y}, always(when), text, tip))

    def path(self, d: str, when: When | str, arrow: bool = False) -> None:
        """Add a path."""
        self.marks.append(Mark("path", {"d": d}, always(when), arrow=arrow))

    def line(self, x1: float, y1: float, x2: float, y2: float, when: When | str) -> None:
        """Add a straight line."""
        attrs: dict[str, float | str] = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        self.marks.append(Mark("line", attrs, always(when)))


def always(when: When | str) -> When:
    """Return classes that hold at every position as intervals; empty intervals are left out."""
    spans = ((0, ALWAYS, when),) if isinstance(when, str) else when
    return tuple(span for span in spans if span[0] < span[1])


def phases(changes: Sequence[tuple[int, str | None]]) -> When:
    """Return intervals from (position, classes from there on); None hides."""
    intervals = []
    for i, (start, classes) in enumerate(changes):
        end = changes[i + 1][0] if i + 1 < len(changes) else ALWAYS
        if classes is not None and start < end:
            intervals.append((start, end, classes))
    return tuple(intervals)


def light_up(base: str, moments: Mapping[int, str]) -> When:
    """Return `base` at all positions but `moments`, which have classes of their own."""
    changes: list[tuple[int, str | None]] = [(0, base)]
    for at in sorted(moments):
        changes += [(at, moments[at]), (at + 1, base)]
    return phases(changes)


def forever(start: int, classes: str) -> When:
    """Return classes from a position on."""
    return ((start, ALWAYS, classes),)


def since(start: int, before: str, after: str) -> When:
    """Return classes before a position, and others from there on."""
    return phases([(0, before), (start, after)])
