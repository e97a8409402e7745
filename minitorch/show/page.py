"""Scenes as one HTML file that plays from `file://`: no kernel, no request."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.errors import ArgumentError
from minitorch.show.poster import poster, scoped

if TYPE_CHECKING:
    from minitorch.show.scene import Scene

HERE = Path(__file__).parent

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
const state = { scenes: @SCENES@, tab: 0, at: @AT@ };
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


def page(scenes: Sequence[Scene] | Scene | object) -> str:
    """Return the player with these scenes, one a tab, as the text of an HTML file.

    Args:
        scenes: scenes, one scene, or a picture that has scenes.

    Raises:
        ArgumentError: there is no scene, or something else is among them.
    """
    scenes = _checked(scenes)
    # `<` never appears in the data, so no string in it can end the script element.
    data = json.dumps([scene.as_dict() for scene in scenes], ensure_ascii=True)
    parts = {
        "TITLE": escape(scenes[0].title),
        "SUMMARY": "\n".join(f"<p>{escape(scene.summary)}</p>" for scene in scenes),
        "CSS": css(),
        "POSTER": "\n".join(poster(scene) for scene in scenes),
        "MODULE": module(),
        "AT": str(scenes[0].still),
        "SCENES": data.replace("<", "\\u003c"),
    }
    # Split once and fill in: the text of a scene is never searched for placeholders.
    return "".join(parts.get(text, text) for text in PAGE.split("@"))


def _checked(given: Any) -> Sequence[Scene]:
    scenes = [given] if _is_scene(given) else getattr(given, "scenes", given)
    is_several = isinstance(scenes, Sequence) and not isinstance(scenes, str)
    if not is_several or not scenes or not all(map(_is_scene, scenes)):
        raise ArgumentError(
            f"page: got {type(given).__name__} without scenes, expected scenes, or the picture of "
            "what can be stepped through."
        )
    return scenes


def _is_scene(given: object) -> bool:
    return hasattr(given, "marks") and hasattr(given, "steps")


def module() -> str:
    """Return the player's ES module: what every widget shares, and its own."""
    return "\n".join((HERE / f).read_text(encoding="utf-8") for f in ("hall.js", "player.js"))


def css() -> str:
    """Return the style of the player and of what it draws."""
    player = "".join((HERE / f).read_text(encoding="utf-8") for f in ("player.css", "hall.css"))
    return player + scoped((HERE / "scene.css").read_text(encoding="utf-8"), ".mt-player svg ")
