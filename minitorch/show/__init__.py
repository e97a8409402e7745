"""Pictures of graphs: boxes and arrows in SVG, laid out here; no other program is needed."""

from minitorch.show.drawing import Arrow, Box, Drawing
from minitorch.show.picture import Picture, show
from minitorch.show.svg import render

__all__ = ["Arrow", "Box", "Drawing", "Picture", "render", "show"]
