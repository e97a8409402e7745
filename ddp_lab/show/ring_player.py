"""The ring player in a notebook: an anywidget over `ring_player.js`."""

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from ddp_lab.show.page import page, texts
from ddp_lab.show.poster import poster, summary
from ddp_lab.show.story import Story


class RingPlayer(anywidget.AnyWidget):
    """Plays a recorded run round by round: `RingPlayer(tell(messages, world_size, inputs))`.

    `round` is where it stands, from the beginning, and follows both ways. Where no widget can be
    shown, a still picture of the whole run is.
    """

    _esm = texts("hall.js", "ring_layout.js", "ring_player.js")
    _css = texts("ring_player.css", "hall.css")
    story = traitlets.Dict().tag(sync=True)
    round = traitlets.Int(0).tag(sync=True)

    def __init__(self, story: Story, round: int = 0) -> None:
        super().__init__(story=story.as_dict(), round=round)
        self._story = story

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        data["image/svg+xml"] = poster(self._story)
        data["text/plain"] = summary(self._story)
        return data, metadata

    def save(self, path: Path | str) -> Path:
        """Write the player as an HTML file that needs neither kernel nor network."""
        path = Path(path)
        path.write_text(page(self._story), encoding="utf-8")
        return path
