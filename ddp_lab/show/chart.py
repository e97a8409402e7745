"""What the charts in a notebook have in common: a still picture, axes, words, and a page.

A page is one HTML file that works from `file://`: no kernel, no request.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import anywidget

from ddp_lab.show.svg_text import line, text

HERE = Path(__file__).parent

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>@TITLE@</title>
<style>
body { margin: 1em auto; max-width: 920px; padding: 0 0.5em; font: 16px/1.5 system-ui, sans-serif; }
body { overflow-wrap: anywhere; }
@CSS@
</style>
</head>
<body>
<main>
<div id="player"></div>
<noscript><p>@SUMMARY@</p>@POSTER@</noscript>
</main>
<script type="module">
@MODULE@
// What the picture asks of a notebook's model, without a notebook.
const state = @STATE@;
const model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; },
  save_changes: () => {}, on: () => {}, off: () => {},
};
const player = document.getElementById("player");
render({ model, el: player });
alone(player.firstElementChild);
</script>
</body>
</html>
"""


def texts(*names: str) -> str:
    """Return the text of files of this folder, one after the other."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def module(name: str) -> str:
    """Return the ES module of a chart: what all of them share, and its own."""
    return texts("hall.js", "chart_kit.js", name)


class Chart(anywidget.AnyWidget):
    """A widget that also has a poster, a sentence and a standalone page.

    A chart says how it looks standing still (`poster`, `summary`); its page needs its own traits.
    """

    _css = texts("charts.css", "hall.css")
    title: Any  # a trait, where the page's title can be chosen

    @property
    def state_names(self) -> list[str]:
        """The traits that a page needs: those that not every widget has, as they are defined."""
        own = self.traits(sync=True).keys() - anywidget.AnyWidget.class_traits().keys()
        defined = (name for kind in type(self).__mro__ for name in vars(kind))
        return [name for name in defined if name in own and not name.startswith("_")]

    def heading(self) -> str:
        """Return the title of its page."""
        return str(self.title)

    def summary(self) -> str:
        """Return what it shows, in a sentence for those who cannot see it."""
        raise NotImplementedError(f"{type(self).__name__}.summary")

    def poster(self) -> str:
        """Return it as it stands, as SVG."""
        raise NotImplementedError(f"{type(self).__name__}.poster")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        data["image/svg+xml"] = self.poster()
        data["text/plain"] = self.summary()
        return data, metadata

    def page(self) -> str:
        """Return an HTML file that needs neither kernel nor network."""
        state = {name: getattr(self, name) for name in self.state_names}
        # `<` never appears in the data, so no string in it can end the script element.
        data = json.dumps(state, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
        parts = {
            "TITLE": escape(self.heading()),
            "SUMMARY": escape(self.summary()),
            "CSS": str(self._css),  # traits of each widget: their texts
            "POSTER": self.poster(),
            "MODULE": str(self._esm),
            "STATE": data,
        }
        # Split once and fill in: the text of a picture is never searched for placeholders.
        return "".join(parts.get(part, part) for part in PAGE.split("@"))

    def save(self, path: Path | str) -> Path:
        """Write `page()` to a file."""
        path = Path(path)
        path.write_text(self.page(), encoding="utf-8")
        return path


MOST = 6  # marks on an axis
FEW = 2.0  # decades: on fewer, 2 and 5 times the powers of ten are marked too


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; both are above 0 where it is logarithmic."""

    low: float
    high: float
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return how far along the axis a value stands: 0 at `low`, 1 at `high`."""
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        return (at - low) / ((high - low) or 1.0)

    def marks(self) -> list[float]:
        """Return the round numbers on the axis: powers of ten where they are two or more."""
        powers = _decades(self.low, self.high) if self.logarithmic else []
        return powers if len(powers) > 1 else _even(self.low, self.high)


@dataclass(frozen=True)
class Plot:
    """A frame of two axes in a still picture, whose edges are these; legends stand right of it."""

    across: Axis
    up: Axis
    left: float
    right: float
    top: float
    base: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point stands in the picture."""
        width, height = self.right - self.left, self.base - self.top
        return self.left + width * self.across.share(x), self.base - height * self.up.share(y)

    def frame(
        self, below: Iterable[tuple[float, str]], beside: Iterable[tuple[float, str]], label: str
    ) -> list[str]:
        """Return both axes with words at some places, and what the lower one counts."""
        edges = [(self.left, self.top - 8), (self.left, self.base), (self.right, self.base)]
        marks = [line(edges, "faint"), text(self.right, self.base + 36, label, "end")]
        for x, words in below:
            marks.append(text(self.at(x, self.up.low)[0], self.base + 18, words, "middle"))
        for y, words in beside:
            marks.append(text(self.left - 8, self.at(self.across.low, y)[1] + 4, words, "end"))
        return marks

    def legend(self, y: float, name: str, kind: str, width: float, dash: str) -> list[str]:
        """Return a sample of a line at this height, and its name."""
        sample = line([(self.right + 20, y), (self.right + 50, y)], kind, width, dash)
        return [sample, text(self.right + 58, y + 4, name)]


def axis_of(values: Iterable[float], *, logarithmic: bool) -> Axis:
    """Return an axis on which all values stand; a linear one begins at 0, or below it."""
    placed = list(values)
    if not placed:
        return Axis(1.0, 10.0, logarithmic) if logarithmic else Axis(0.0, 1.0)
    if logarithmic:
        return Axis(min(placed), max(placed), logarithmic)
    return Axis(min(*placed, 0.0), max(*placed, 0.0))


def _decades(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if math.log10(high / low) < FEW else (1,)
    powers = range(first, last + 1, max(1, (last - first) // MOST))
    marks = (factor * 10.0**power for power in powers for factor in factors)
    return [mark for mark in marks if low <= mark <= high]


def _even(low: float, high: float) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten from low to high, at most MOST + 1."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / MOST))
    step = next(s for s in (power, 2 * power, 5 * power, 10 * power) if (high - low) / s <= MOST)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]
