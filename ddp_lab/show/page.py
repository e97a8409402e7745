"""A picture as one HTML file that works from `file://`: no kernel, no request."""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

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
body { margin: 1em auto; max-width: 920px; padding: 0 0.5em; font: 16px/1.5 system-ui, sans-serif; }
body { overflow-wrap: anywhere; }
@CSS@
</style>
</head>
<body>
<main>
<div id="player"></div>
<noscript><p>@SUMMARY@</p>@POSTER@</noscript>
</main>
<script type="module">
@MODULE@
// What the picture asks of a notebook's model, without a notebook.
const state = @STATE@;
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


def texts(*names: str) -> str:
    """Return the text of files of this folder, one after the other."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def standalone(
    *, title: str, words: str, css: str, module: str, state: Mapping[str, Any], still: str
) -> str:
    """Return an HTML file that runs a widget's module on this state.

    Args:
        title: of the page.
        words: what it shows, in a sentence below it.
        css: the widget's rules.
        module: the text of its ES module, which defines `render`.
        state: what its model holds, JSON-ready.
        still: SVG for where no scripts run.
    """
    # `<` never appears in the data, so no string in it can end the script element.
    data = json.dumps(state, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "TITLE": escape(title),
        "SUMMARY": escape(words),
        "CSS": css,
        "POSTER": still,
        "MODULE": module,
        "STATE": data,
    }
    # Split once and fill in: the text of a picture is never searched for placeholders.
    return "".join(parts.get(text, text) for text in PAGE.split("@"))
