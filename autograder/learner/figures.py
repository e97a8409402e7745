"""Figures of matplotlib in the page's theme: an image in HTML, whose colours a style turns round.

The image/png stays beside it, for all that shows no HTML: nbconvert's PDF, a notebook that is not
trusted (there the HTML loses its style, and is an image on white paper).
"""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

_CSS = Path(__file__).parent / "static" / "figure.css"


class ThemedFigures:
    """What IPython asks for a figure: draws it as it was told to, once, and puts HTML beside it."""

    def __init__(self, formatters: Any) -> None:
        self._formatters = formatters
        self._draw: Callable[[Any], str | None] | None = None

    def __call__(self, figure: Any, **_: Any) -> dict[str, str]:
        """Return {type: data} of a figure; nothing where it is not shown as a PNG."""
        # The printer is taken out, or IPython would draw once more; a new choice of format adds one
        self._draw = self._formatters["image/png"].pop(type(figure), self._draw)
        chosen = type(figure) in self._formatters["image/svg+xml"]
        drawn = None if self._draw is None or chosen else self._draw(figure)
        return {"image/png": drawn, "text/html": page_of(drawn, words(figure))} if drawn else {}


def follow_theme(shell: Any) -> None:
    """Have all figures of this session follow the theme of the page that shows them."""
    shown = shell.display_formatter
    printer = ThemedFigures(shown.formatters)
    shown.mimebundle_formatter.for_type_by_name("matplotlib.figure", "Figure", printer)


def page_of(png: str, said: str) -> str:
    """Return an image, base64, as HTML that is dark on dark pages."""
    style = _CSS.read_text(encoding="utf-8")
    image = f'<img class="course-figure" alt="{escape(said)}" src="data:image/png;base64,{png}">'
    return f"<style>{style}</style>{image}"


def words(figure: Any) -> str:
    """Return what a figure says of itself: its titles."""
    places = ("left", "center", "right")
    titles = [ax.get_title(loc=place) for ax in figure.axes for place in places]
    return "; ".join(filter(None, titles)) or "A figure"
