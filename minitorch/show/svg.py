"""A drawing as SVG text.

JupyterLab shows an SVG as an image, which does not know the page's theme. So nothing depends on
it: boxes carry their own light fill under dark text, and what stands on the page itself (arrows,
caption) is a grey that reads on white and on black.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from minitorch.show.drawing import Arrow, Box, Drawing
from minitorch.show.layout import Point, place

FILLS = {
    "input": ("#dbeafe", "#3b82f6"),
    "parameter": ("#dcfce7", "#22a05a"),
    "operator": ("#f3f4f6", "#7c8796"),
    "output": ("#fef3c7", "#d99a16"),
    "control": ("#ede9fe", "#8b5cf6"),
    "state": ("#dcfce7", "#22a05a"),
}
GREY = "#7c8796"
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
CHAR_W, LINE_H, PAD = 6.9, 15.0, 8.0  # a monospace glyph of 11.5 px, rounded up
MARGIN = 10.0


def render(drawing: Drawing) -> str:
    """Return `drawing` as one self-contained SVG element."""
    sizes = {box.key: _size(box) for box in drawing.boxes}
    layout = place(sizes, [(a.source, a.target) for a in drawing.arrows])
    caption = _caption(drawing)
    width = max(layout.width, len(caption) * CHAR_W) + 2 * MARGIN
    height = layout.height + 2 * MARGIN + (LINE_H + 4 if caption else 0)
    arrows = [_arrow(a, path) for a, path in zip(drawing.arrows, layout.paths, strict=True)]
    boxes = [_box(box, layout.centers[box.key], sizes[box.key]) for box in drawing.boxes]
    foot = (
        f'<text x="0" y="{layout.height + LINE_H + 4:.1f}" fill="{GREY}">{escape(caption)}</text>'
        if caption
        else ""
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{escape(FONT)}" font-size="11.5">'
        f"<title>{escape(drawing.caption or 'computation graph')}</title>"
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0.5L8 4L0 7.5z" fill="{GREY}"/></marker>'
        "</defs>"
        f'<g transform="translate({MARGIN:.0f} {MARGIN:.0f})">'
        f"{''.join(arrows)}{''.join(boxes)}{foot}</g></svg>"
    )


def _size(box: Box) -> tuple[float, float]:
    widest = max(len(text) for text in (box.title, *box.lines))
    return widest * CHAR_W + 2 * PAD, (1 + len(box.lines)) * LINE_H + PAD


def _box(box: Box, center: Point, size: tuple[float, float]) -> str:
    fill, rim = FILLS[box.kind]
    left, top = center[0] - size[0] / 2, center[1] - size[1] / 2
    radius = 4 if box.kind == "operator" else 9
    lines = "".join(
        f'<text x="{center[0]:.1f}" y="{top + (i + 2) * LINE_H:.1f}" fill="#475569" '
        f'text-anchor="middle">{escape(text)}</text>'
        for i, text in enumerate(box.lines)
    )
    return (
        f'<g><rect x="{left:.1f}" y="{top:.1f}" width="{size[0]:.1f}" height="{size[1]:.1f}" '
        f'rx="{radius}" fill="{fill}" stroke="{rim}"/>'
        f'<text x="{center[0]:.1f}" y="{top + LINE_H:.1f}" fill="#0f172a" font-weight="600" '
        f'text-anchor="middle">{escape(box.title)}</text>{lines}</g>'
    )


def _arrow(arrow: Arrow, path: Sequence[Point]) -> str:
    dash = ' stroke-dasharray="4 3"' if arrow.dashed else ""
    return (
        f'<path d="{curve(path)}" fill="none" stroke="{GREY}" stroke-width="1.2"{dash} '
        'marker-end="url(#tip)"/>'
    )


def curve(path: Sequence[Point]) -> str:
    """Return a polyline as one smooth curve in SVG's words: vertical where it meets a layer."""
    (x, y), *rest = path
    d = [f"M{x:.1f} {y:.1f}"]
    for nx, ny in rest:
        middle = (y + ny) / 2
        d.append(f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}")
        x, y = nx, ny
    return "".join(d)


def _caption(drawing: Drawing) -> str:
    hidden = f"{drawing.hidden} more not drawn" if drawing.hidden else ""
    return ". ".join(text for text in (drawing.caption, hidden) if text)
