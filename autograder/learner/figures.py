"""Figures of matplotlib in the page's theme: an image in HTML, whose colours a style turns round.

The image/png stays beside it, for all that shows no HTML: nbconvert's PDF, a notebook that is not
trusted (there the HTML loses its style, and is an image on white paper).
"""

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

_CSS = Path(__file__).parent / "static" / "figure.css"


Drawn = str | tuple[str, dict[str, int]] | None
"""A PNG in base64; of a retina figure, twice as large, with the width and height to show it at."""


class ThemedFigures:
    """What IPython asks for a figure: draws it as it was told to, once, and puts HTML beside it."""

    def __init__(self, formatters: Any) -> None:
        self._formatters = formatters
        self._draw: Callable[[Any], Drawn] | None = None

    def __call__(self, figure: Any, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Return {type: data} and {type: metadata} of a figure; none where it is not a PNG."""
        # The printer is taken out, or IPython would draw once more; a new choice of format adds one
        self._draw = self._formatters["image/png"].pop(type(figure), self._draw)
        chosen = type(figure) in self._formatters["image/svg+xml"]
        drawn = None if self._draw is None or chosen else self._draw(figure)
        if not drawn:
            return {}, {}
        png, size = drawn if isinstance(drawn, tuple) else (drawn, {})
        html = page_of(png, words(figure), size.get("width"))
        return {"image/png": png, "text/html": html}, {"image/png": size} if size else {}


def follow_theme(shell: Any) -> None:
    """Have all figures of this session follow the theme of the page that shows them."""
    shown = shell.display_formatter
    printer = ThemedFigures(shown.formatters)
    shown.mimebundle_formatter.for_type_by_name("matplotlib.figure", "Figure", printer)


def page_of(png: str, alt: str, width: int | None = None) -> str:
    """Return an image, base64, as HTML that is dark on dark pages; `width` is in CSS pixels."""
    style = _CSS.read_text(encoding="utf-8")
    size = "" if width is None else f' width="{width}"'
    source = f'src="data:image/png;base64,{png}"'
    image = f'<img class="course-figure" alt="{escape(alt)}"{size} {source}>'
    return f"<style>{style}</style>{image}"


def words(figure: Any) -> str:
    """Return what a figure says of itself: its titles."""
    places = ("left", "center", "right")
    titles = [ax.get_title(loc=place) for ax in figure.axes for place in places]
    return "; ".join(filter(None, titles)) or "A figure"
