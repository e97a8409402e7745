"""Scenes outside a notebook: a page that plays from `file://`, and a still picture.

Neither asks for anything: no kernel, no request; the picture, which stands where the player cannot
run, has no scripts.
"""

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.errors import ArgumentError

if TYPE_CHECKING:
    from minitorch.show.scene import Mark, Scene

HERE = Path(__file__).parent
TOP = 30.0  # the room for a poster's title

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
body { margin: 1em auto; max-width: 960px; padding: 0 0.5em; font: 16px/1.5 system-ui, sans-serif; }
body { overflow-wrap: anywhere; }
@CSS@
</style>
</head>
<body>
<main>
<div id="player"></div>
<noscript>@SUMMARY@@POSTER@</noscript>
</main>
<script type="module">
@MODULE@
// What the player asks of a notebook's model, without a notebook.
const state = { scenes: @SCENES@, tab: 0, at: 0 };
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


def page(scenes: "Sequence[Scene] | Scene | object") -> str:
    """Return the player with these scenes, one a tab, as the text of an HTML file.

    Args:
        scenes: scenes, one scene, or a picture that has scenes.
    Raises:
        ArgumentError: there is no scene, or something else is among them.
    """
    scenes = _check_scenes(scenes)
    # `<` never appears in the data, so no string in it can end the script element.
    data = json.dumps([scene.as_dict() for scene in scenes], ensure_ascii=True)
    parts = {
        "TITLE": escape(scenes[0].title),
        "SUMMARY": "\n".join(f"<p>{escape(scene.summary)}</p>" for scene in scenes),
        "CSS": css(),
        "POSTER": "\n".join(poster(scene) for scene in scenes),
        "MODULE": module(),
        "SCENES": data.replace("<", "\\u003c"),
    }
    # Split once and fill in: the text of a scene is never searched for placeholders.
    return "".join(parts.get(text, text) for text in PAGE.split("@"))


def _check_scenes(value: Any) -> "Sequence[Scene]":
    scenes = [value] if _is_scene(value) else getattr(value, "scenes", value)
    is_several = isinstance(scenes, Sequence) and not isinstance(scenes, str)
    if not is_several or not scenes or not all(map(_is_scene, scenes)):
        raise ArgumentError(
            f"page: got {type(value).__name__} without scenes, expected scenes, or the picture of "
            "what can be stepped through."
        )
    return scenes


def _is_scene(value: object) -> bool:
    return hasattr(value, "marks") and hasattr(value, "steps")


def module() -> str:
    """Return the player's ES module: what every widget shares, and its own."""
    files = ("hall.js", "hall_words.js", "player.js")
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in files)


def css() -> str:
    """Return the style of the player and of what it draws."""
    player = "".join((HERE / f).read_text(encoding="utf-8") for f in ("player.css", "hall.css"))
    scene = (HERE / "scene.css").read_text(encoding="utf-8")
    return player + prefix_rules(scene, ".mt-player svg ")


def poster(scene: "Scene") -> str:
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


def make_poster(scenes: "Sequence[Scene]") -> dict[str, str]:
    """Return what a notebook shows where the player cannot be: a poster, and a text."""
    text = "\n".join(scene.summary for scene in scenes)
    return {"image/svg+xml": poster(scenes[0]), "text/plain": text}


def style() -> str:
    """Return the style of a picture that stands alone: the player's colours, light and dark."""
    player = (HERE / "player.css").read_text(encoding="utf-8")
    colours = re.findall(r"(--mt-[a-z-]+): light-dark\((#\w{6}), (#\w{6})\);", player)
    light, dark = (" ".join(f"{c[0]}: {c[k]};" for c in colours) for k in (1, 2))
    scene = (HERE / "scene.css").read_text(encoding="utf-8")
    rules = prefix_rules(scene, ".mt-poster ")
    return (
        f".mt-poster{{{light}}} @media(prefers-color-scheme:dark){{.mt-poster{{{dark}}}}} "
        f".mt-poster .paper{{fill:var(--mt-paper)}} {rules}"
    )


def prefix_rules(rules: str, prefix: str) -> str:
    """Return CSS rules, one a line, with `prefix` before each selector."""
    lines = []
    for line in rules.strip().splitlines():
        selectors, _, body = line.partition(" {")
        named = ", ".join(prefix + selector.strip() for selector in selectors.split(","))
        lines.append(f"{named} {{{body}")
    return "\n".join(lines)


def _mark(mark: "Mark", at: int) -> str:
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
