"""Step time against bucket size, predicted and measured, as a picture.

May import: the standard library, svg_text.
"""

from collections.abc import Callable, Iterator, Mapping

from ddp_lab.show.svg_text import line, picture, text, ticks

WIDTH, HEIGHT = 560, 320  # pixels
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 56, 56
KINDS = {"measured": ("backward", ""), "predicted": ("exposed", "6 4")}  # colour, dashes

Point = tuple[float, float]
Place = Callable[[float, float], Point]  # of MiB and seconds


def sweep_picture(curves: Mapping[str, Mapping[float, float]]) -> str:
    """Return the curves {name: {MiB: seconds}} as SVG, the best size of each ringed.

    Sizes stand side by side at equal distances, for they usually grow by factors.
    """
    sizes = sorted({size for seconds in curves.values() for size in seconds})
    top_ms = 1e3 * max(max(seconds.values()) for seconds in curves.values())
    step = (WIDTH - LEFT - RIGHT) / max(len(sizes), 1)

    def at(size: float, seconds: float) -> Point:
        x = LEFT + step * (sizes.index(size) + 0.5)
        return x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * seconds * 1e3 / top_ms

    marks = [text(10, 20, "Step time by bucket size (ring: the best)"), *_axes(sizes, top_ms, at)]
    for number, (name, seconds) in enumerate(curves.items()):
        points = [at(size, seconds[size]) for size in sorted(seconds)]
        marks += _curve(name, points, at(*min(seconds.items(), key=lambda item: item[1])))
        marks += _key(name, LEFT + 130 * number)
    return picture(WIDTH, HEIGHT, words(curves), marks)


def words(curves: Mapping[str, Mapping[float, float]]) -> str:
    """Return the best sizes in a sentence."""
    best = (f"{name} {min(s, key=lambda size: s[size]):g} MiB" for name, s in curves.items())
    return f"Best bucket size: {', '.join(best)}."


def _axes(sizes: list[float], top_ms: float, at: Place) -> Iterator[str]:
    foot = HEIGHT - BOTTOM
    yield line([(LEFT, TOP - 8), (LEFT, foot), (WIDTH - RIGHT, foot)], "faint")
    for tick in ticks(top_ms):
        _, y = at(sizes[0], tick / 1e3)
        yield line([(LEFT - 4, y), (LEFT, y)], "faint")
        yield text(LEFT - 8, y + 4, f"{tick:g}", "end")
    yield text(LEFT - 8, TOP - 12, "ms", "end")
    for size in sizes:
        x, _ = at(size, 0.0)
        yield text(x, foot + 18, f"{size:g}", "middle")
    yield text((LEFT + WIDTH - RIGHT) / 2, foot + 40, "bucket, MiB", "middle")


def _curve(name: str, points: list[Point], best: Point) -> Iterator[str]:
    kind, dash = KINDS[name]
    yield line(points, kind, 2, dash)
    for x, y in points:
        yield f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    yield f'<circle class="line-{kind}" cx="{best[0]:.1f}" cy="{best[1]:.1f}" r="8"/>'


def _key(name: str, x: float) -> Iterator[str]:
    kind, dash = KINDS[name]
    yield line([(x, 36), (x + 26, 36)], kind, 2, dash)
    yield text(x + 34, 40, name)
