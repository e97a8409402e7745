"""A scene as one still picture: SVG text, no scripts. It stands where the player cannot run."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minitorch.show.scene import Mark, Scene

HERE = Path(__file__).parent
TOP = 30.0


def poster(scene: Scene) -> str:
    """Return the scene at its most telling position as an SVG picture, described in words."""
    width, height = max(scene.width, 360), scene.height + TOP
    marks = [text for mark in scene.marks if (text := _mark(mark, scene.still))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="mt-poster" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
            f'role="img" aria-label="{escape(scene.summary)}">',
            f"<title>{escape(scene.title)}</title>",
            f"<style>{style()}</style>",
            '<defs><marker id="mt-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" '
            'markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">'
            '<path class="head" d="M0 0.5L8 4L0 7.5z"/></marker>'
            "</defs>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
            f'<text class="big" x="10" y="20">{escape(scene.title)}</text>',
            f'<g transform="translate(0 {TOP:.0f})">',
            *marks,
            "</g></svg>",
        ]
    )


def style() -> str:
    """Return the style of a picture that stands alone: the player's colours, light and dark."""
    player = (HERE / "player.css").read_text(encoding="utf-8")
    blocks = re.findall(r"\{((?:\s*--mt-[a-z-]+: #[0-9a-f]{6};)+)", player)
    light, dark = (" ".join(block.split()) for block in blocks[:2])
    scene = (HERE / "scene.css").read_text(encoding="utf-8")
    rules = scoped(scene, ".mt-poster ")
    return (
        f".mt-poster{{{light}}} @media(prefers-color-scheme:dark){{.mt-poster{{{dark}}}}} "
        f".mt-poster .paper{{fill:var(--mt-paper)}} {rules}"
    )


def scoped(rules: str, prefix: str) -> str:
    """Return CSS rules, one a line, with `prefix` before each selector."""
    lines = []
    for line in rules.strip().splitlines():
        selectors, _, body = line.partition(" {")
        named = ", ".join(prefix + selector.strip() for selector in selectors.split(","))
        lines.append(f"{named} {{{body}")
    return "\n".join(lines)


def _mark(mark: Mark, at: int) -> str:
    classes = next((c for start, end, c in mark.when if start <= at < end), None)
    if classes is None:
        return ""
    attrs = "".join(
        f' {key}="{value:.1f}"' if isinstance(value, float) else f' {key}="{escape(str(value))}"'
        for key, value in mark.attrs.items()
    )
    tip = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
    end = ' marker-end="url(#mt-tip)"' if mark.arrow else ""
    return f'<{mark.shape} class="{classes}"{attrs}{end}>{escape(mark.text)}{tip}</{mark.shape}>'
