"""The stack from an operator to a reply, from one's own run: spans, lines, and a picture."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from time import perf_counter
from types import CodeType, FunctionType
from typing import Any

from minitorch.show.scene import ALWAYS, Canvas, Scene, Step, forever, light_up, since

Row = tuple[str, str, bool, int, float]  # name, what it is, theirs?, lines, own seconds
LEFT, WIDTH, TOP, ROW = 16.0, 340.0, 24.0, 30.0  # of the layers' boxes, in pixels
BARS, SHARES = 470.0, 300.0  # where bars begin, and the longest
HINT = (
    "From an operator, below, to a reply, above. A bar is a layer's own share of the time, without "
    "what lies inside of it."
)
LEGEND = (("bar good", "yours"), ("bar", "the course's"), ("box idle", "still to come"))


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


def see_stack(
    rows: Sequence[Row], *, title: str = "My language model", tab: str = "Stack"
) -> Scene:
    """Return the layers as a picture, to be gone through from an operator to a reply.

    Args:
        rows: layers from below to above.
    """
    whole = sum(seconds for *_, seconds in rows) or 1.0
    longest = max(seconds for *_, seconds in rows) or 1.0
    foot = TOP + ROW * len(rows)
    canvas, steps, before = Canvas(), [Step(f"{len(rows)} layers, and none of them yet.")], LEFT
    canvas.text(BARS, TOP - 8, "own share of the time", "small muted")
    for k, (name, words, is_mine, lines, seconds) in enumerate(rows):
        y, share = foot - ROW * (k + 1), seconds / whole
        tip, bar = f"{name}: {words}", "bar good" if is_mine else "bar"
        box = "box good" if is_mine else "box value"
        seen = ((0, k + 1, "box idle"), (k + 1, k + 2, "box control"), (k + 2, ALWAYS, box))
        canvas.rect(LEFT, y, WIDTH, ROW - 4, seen, tip=tip)
        canvas.text(LEFT + 10, y + 18, words, light_up("", {k + 1: "bold"}), tip)
        whose = f"{lines} lines" if is_mine else "the course's"
        canvas.text(LEFT + WIDTH + 104, y + 18, whose, "end small")
        width = max(SHARES * seconds / longest, 1.0)
        canvas.rect(BARS, y + 3, width, ROW - 10, since(k + 1, "box idle", bar), tip=tip)
        canvas.text(BARS + width + 8, y + 18, f"{share:.1%}", forever(k + 1, "small"))
        width = (BARS + SHARES + 60 - LEFT) * share
        strip = since(k + 1, "box idle", bar)
        canvas.rect(before, foot + 10, max(width - 1, 0.5), 16, strip, rx=1, tip=tip)
        before += width
        text = f"{words[0].upper()}{words[1:]}: {share:.1%} of the time is its own."
        steps.append(Step(text, (f"{name}, {whose}",)))
    summary = summary_of(rows)
    steps.append(Step(summary))
    canvas.text(
        LEFT, foot + 42, "the whole time, from the lowest layer to the highest", "small muted"
    )
    return Scene(title, HINT, tab, summary, BARS + SHARES + 76, foot + 50, tuple(canvas.marks),
                 tuple(steps), len(steps) - 1, LEGEND)  # fmt: skip


def summary_of(rows: Sequence[Row]) -> str:
    """Return how many of the layers are theirs, and what share of the time those have."""
    mine = [row for row in rows if row[2]]
    share = sum(row[4] for row in mine) / (sum(row[4] for row in rows) or 1.0)
    return (
        f"{len(mine)} of {len(rows)} layers are one's own: {sum(row[3] for row in mine)} lines, "
        f"{share:.0%} of the time."
    )
