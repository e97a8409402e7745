"""The ring player in a notebook: an anywidget over `ring_player.js`."""

import traitlets

from ddp_lab.show.chart import Chart, texts
from ddp_lab.show.poster import poster, summary
from ddp_lab.show.story import Story


class RingPlayer(Chart):
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

    def heading(self) -> str:
        return self._story.title

    def summary(self) -> str:
        return summary(self._story)

    def poster(self) -> str:
        return poster(self._story)
