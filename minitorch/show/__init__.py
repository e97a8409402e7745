"""Pictures of computations, still and stepped through, as SVG laid out here.

`show(value)` is the picture of a value; in a notebook it can be stepped through. Each of its views
is a `Scene` of its own, which plays in a notebook and saves as a page that needs no kernel.
"""

from minitorch.show.autodiff_scene import step_through
from minitorch.show.drawing import Arrow, Box, Drawing
from minitorch.show.memory_scene import map_memory
from minitorch.show.page import page
from minitorch.show.pass_scene import compare_passes
from minitorch.show.picture import Picture, show
from minitorch.show.poster import poster
from minitorch.show.scene import Scene
from minitorch.show.serving_scene import see_serving
from minitorch.show.svg import render
from minitorch.show.timeline_scene import see_timeline
from minitorch.show.token_scene import follow_tokens
from minitorch.show.two_ways_scene import both_ways

__all__ = [
    "Arrow",
    "Box",
    "Drawing",
    "Picture",
    "Scene",
    "both_ways",
    "compare_passes",
    "follow_tokens",
    "map_memory",
    "page",
    "poster",
    "render",
    "see_serving",
    "see_timeline",
    "show",
    "step_through",
]
