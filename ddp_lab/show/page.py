"""The ring player as one HTML file that plays from `file://`: no kernel, no request."""

import json
from html import escape
from pathlib import Path

from ddp_lab.show.poster import poster, summary
from ddp_lab.show.story import Story

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
body { margin: 1em auto; max-width: 920px; font: 16px/1.5 system-ui, sans-serif; }
@CSS@
</style>
</head>
<body>
<main>
<p>@SUMMARY@</p>
<div id="player"></div>
<noscript>@POSTER@</noscript>
</main>
<script type="module">
@MODULE@
// What the player asks of a notebook's model, without a notebook.
const state = { story: @STORY@, round: 0 };
const model = {
  get: (name) => state[name],
  set: (name, value) => { state[name] = value; },
  save_changes: () => {}, on: () => {}, off: () => {},
};
render({ model, el: document.getElementById("player") });
</script>
</body>
</html>
"""


def page(story: Story) -> str:
    """Return the player with this story as the text of an HTML file."""
    # `<` never appears in the data, so no string in it can end the script element.
    data = json.dumps(story.as_dict(), ensure_ascii=True).replace("<", "\\u003c")
    parts = {
        "TITLE": escape(story.title),
        "SUMMARY": escape(summary(story)),
        "CSS": (HERE / "ring_player.css").read_text(encoding="utf-8"),
        "POSTER": poster(story),
        "MODULE": (HERE / "ring_player.js").read_text(encoding="utf-8"),
        "STORY": data,
    }
    # Split once and fill in: the text of a story is never searched for placeholders.
    return "".join(parts.get(text, text) for text in PAGE.split("@"))
