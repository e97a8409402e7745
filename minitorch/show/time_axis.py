"""What pictures over time share: lanes for who works, and an axis in ms below them."""

from minitorch.show.scene import Canvas

LEFT, TOP, WIDTH = 92.0, 22.0, 780.0


def draw_lane(canvas: Canvas, y: float, height: float, name: str) -> None:
    """Add an empty lane with its name on the left; `height` counts the gap below it."""
    canvas.rect(LEFT, y, WIDTH, height - 4, "panel")
    canvas.text(LEFT - 8, y + height / 2 + 2, name, "small muted end")


def draw_time_axis(canvas: Canvas, foot: float, span_ms: float) -> None:
    """Add five lines from the top to `foot`, with the ms from the start of `span_ms`."""
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = LEFT + WIDTH * share
        canvas.line(x, TOP - 4, x, foot, "rule")
        canvas.text(x, foot + 14, f"{span_ms * share:.0f} ms", "small muted middle")
