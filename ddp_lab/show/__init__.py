"""Pictures of recorded runs: the ring player, its poster and its page."""

from ddp_lab.show.page import page
from ddp_lab.show.poster import poster, summary
from ddp_lab.show.ring_player import RingPlayer
from ddp_lab.show.story import Hop, Story, tell
from ddp_lab.show.watch import Recording, watch

__all__ = [
    "Hop",
    "Recording",
    "RingPlayer",
    "Story",
    "page",
    "poster",
    "summary",
    "tell",
    "watch",
]
