"""Pictures of computations, still and stepped through, as SVG laid out here.

`show(value)` is the picture of a value; in a notebook it can be stepped through. Each of its views
is a `Scene` of its own, which plays in a notebook and saves as a page that needs no kernel.
"""

from minitorch.exports import public_names
from minitorch.show.attention_scene import see_attention as see_attention
from minitorch.show.autodiff_scene import step_through as step_through
from minitorch.show.generation_scene import see_generation as see_generation
from minitorch.show.memory_scene import map_memory as map_memory
from minitorch.show.page import page as page
from minitorch.show.page import poster as poster
from minitorch.show.pass_scene import compare_passes as compare_passes
from minitorch.show.picture import Picture as Picture
from minitorch.show.picture import show as show
from minitorch.show.scene import Scene as Scene
from minitorch.show.schedule_scene import walk_schedule as walk_schedule
from minitorch.show.search_scene import race_searches as race_searches
from minitorch.show.serving_scene import see_serving as see_serving
from minitorch.show.token_scene import follow_tokens as follow_tokens
from minitorch.show.two_ways_scene import both_ways as both_ways

__all__ = public_names(globals())
