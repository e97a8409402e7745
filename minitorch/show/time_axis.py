"""What pictures over time share: lanes for who works, and an axis in ms below them."""

import math

from minitorch.show.scene import Canvas

LEFT, TOP, WIDTH = 92.0, 22.0, 780.0
LEAST_LINES = 3  # behind the first; at most seven


def draw_lane(canvas: Canvas, y: float, height: float, name: str) -> None:
    """Add an empty lane with its name on the left; `height` counts the gap below it."""
    canvas.rect(LEFT, y, WIDTH, height - 4, "panel")
    canvas.text(LEFT - 8, y + height / 2 + 2, name, "small muted end")


def draw_time_axis(canvas: Canvas, foot: float, span_ms: float) -> None:
    """Add lines from the top to `foot`, a round number of ms apart: 1, 2 or 5 of a power of ten."""
    power = 10.0 ** math.floor(math.log10(span_ms / LEAST_LINES))
    apart = max(width for width in (power, 2 * power, 5 * power) if span_ms / width >= LEAST_LINES)
    for k in range(int(span_ms / apart) + 1):
        x = LEFT + WIDTH * k * apart / span_ms
        canvas.line(x, TOP - 4, x, foot, "rule")
        canvas.text(x, foot + 14, f"{k * apart:g} ms", "small muted middle")
