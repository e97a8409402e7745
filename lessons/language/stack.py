"""The stack from an operator to a reply, from one's own run: spans, lines, and a page by itself."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from html import escape
from time import perf_counter
from types import CodeType, FunctionType
from typing import Any

Row = tuple[str, str, bool, int, float]  # name, what it is, theirs?, lines, own seconds
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>My language model</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
svg { width: 100%; height: auto } text { font: 14px system-ui, sans-serif; fill: currentColor }
.mine { fill: #0a7d5a } .course { fill: #8a8f98 } .track { fill: #8a8f9833 }
.end { text-anchor: end }
</style></head><body>
<h1>My language model</h1>
<p>From an operator (below) to a reply (above): the layers of a small GPT that I trained on two
ranks and served. It @SCORE@.</p>
<p>@MINE@ of @ALL@ layers are mine, @LINES@ lines; green bars are their own share of the time
of a run, grey ones those of the course.</p>
@PICTURE@
</body></html>
"""


class Watch:
    """Notes when calls begin and end: `spans` are (layer, begin, end) in seconds."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []

    def timed(self, layer: str, function: Any) -> Callable[..., Any]:
        """Return the function, whose calls are noted."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.spans.append((layer, began, perf_counter()))

        return call

    @contextmanager
    def methods(self, names: dict[str, Any], layers: Mapping[str, Sequence[Any]]) -> Iterator[None]:
        """Note what layers do meanwhile: functions by their name, classes by their methods."""
        restores = list[Callable[[], None]]()
        for layer, (piece, *_) in layers.items():
            if isinstance(piece, type):
                for name, method in [*vars(piece).items()]:
                    if isinstance(method, FunctionType) and not name.startswith("_"):
                        restores.append(partial(setattr, piece, name, method))
                        setattr(piece, name, self.timed(layer, method))
            elif names.get(layer) is piece:
                restores.append(partial(names.__setitem__, layer, piece))
                names[layer] = self.timed(layer, piece)
        try:
            yield
        finally:
            for restore in restores:
                restore()


def lines_of(piece: Any) -> int:
    """Return how many lines a function has, or a class in its own methods."""
    if isinstance(piece, type):
        return sum(lines_of(m) for m in vars(piece).values() if isinstance(m, FunctionType))
    numbers = [*_numbers(inspect.unwrap(piece).__code__)]
    return max(numbers) - min(numbers) + 1


def _numbers(code: CodeType) -> Iterator[int]:
    """Yield the numbers of the lines of a function, with what is defined in it."""
    yield code.co_firstlineno
    yield from (line for _, _, line in code.co_lines() if line)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _numbers(inner)


def stack_page(rows: Sequence[Row], score: str) -> str:
    """Return the stack as a page that needs no kernel, no network and no script.

    Args:
        rows: layers from below to above.
        score: what the model can, after "It".
    """
    mine = [row for row in rows if row[2]]
    parts = {
        "@SCORE@": escape(score), "@MINE@": str(len(mine)), "@ALL@": str(len(rows)),
        "@LINES@": str(sum(row[3] for row in mine)), "@PICTURE@": _picture(rows),
    }  # fmt: skip
    page = PAGE
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


def _picture(rows: Sequence[Row]) -> str:
    whole = sum(seconds for *_, seconds in rows) or 1.0
    longest = max(seconds for *_, seconds in rows) or 1.0
    height = 34 * len(rows) + 8
    marks = [
        f'<svg viewBox="0 0 800 {height}" role="img" aria-label="The layers and their shares">'
    ]
    for at, (_, words, is_mine, lines, seconds) in enumerate(reversed(rows)):
        y = 34 * at + 6
        kind = "mine" if is_mine else "course"
        whose = f"mine, {lines} lines" if is_mine else "the course's"
        marks += [
            f'<text x="0" y="{y + 18}">{escape(words)}</text>',
            f'<text x="250" y="{y + 18}">{whose}</text>',
            f'<rect class="track" x="420" y="{y}" width="310" height="24" rx="4"/>',
            f'<rect class="{kind}" x="420" y="{y}" width="{310 * seconds / longest:.1f}" '
            'height="24" rx="4"/>',
            f'<text class="end" x="795" y="{y + 18}">{seconds / whole:.1%}</text>',
        ]
    return "\n".join([*marks, "</svg>"])
