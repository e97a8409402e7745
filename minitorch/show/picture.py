"""`show`: a picture of how a value came to be, for the notebook, the terminal or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.errors import MinitorchError
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import needed
from minitorch.show import trace
from minitorch.show.asked import check_limit, names_by_id, roots_in
from minitorch.show.autodiff_scene import scene_of
from minitorch.show.diagram import draw
from minitorch.show.memory_scene import map_memory
from minitorch.show.pass_scene import compare_passes
from minitorch.show.poster import poster
from minitorch.show.record import record
from minitorch.show.scene import Canvas, Scene, Step, bundle, has_kernel
from minitorch.show.token_scene import follow_tokens

if TYPE_CHECKING:
    from minitorch.graph.core.session import Session

LIMIT = 80
MOST = 2000  # nodes of a graph that all passes are run on only to be shown


class Picture:
    """A drawing that a notebook shows as SVG and a terminal prints as text.

    In a notebook with a kernel it is the player instead, with a tab for each of `scenes`.

    Attributes:
        drawing: the boxes and arrows.
    """

    def __init__(self, drawing: trace.Drawing, scenes: Callable[[], Sequence[Scene]]) -> None:
        self.drawing = drawing
        self._scenes = scenes

    @cached_property
    def scenes(self) -> tuple[Scene, ...]:
        """What can be stepped through: the computation; of a node also tokens, memory, passes."""
        return tuple(self._scenes())

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        canvas = Canvas()
        drawn = draw(canvas, self.drawing.boxes, self.drawing.arrows)
        hidden = self.drawing.hidden
        title = "Computation graph" + (f", {hidden} more not drawn" if hidden else "")
        marks, steps = tuple(canvas.marks), (Step(title),)
        return poster(Scene(title, "", "", title, drawn.width, drawn.height, marks, steps, 0))

    @property
    def text(self) -> str:
        """The picture as lines, one for each box."""
        return trace.text(self.drawing)

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        plain = {"image/svg+xml": self.svg, "text/plain": self.text}
        if not has_kernel() or not self.scenes:
            return plain
        data, metadata = bundle(self.scenes)
        return {**data, **plain}, metadata

    def __repr__(self) -> str:
        return self.text


def show(
    value: object,
    *,
    names: object = None,
    limit: int = LIMIT,
    feed_dict: Mapping[Node, object] | None = None,
    session: Session | None = None,
) -> Picture:
    """Return a picture of the operators behind `value`, with shapes, numbers and gradients.

    In a notebook it can be stepped through, forward and backward; a node of a dataflow graph also
    by tokens, with dead tokens and frames, by passes, and as a map of memory.

    Args:
        value: a tensor (before backward has freed its graph, or after one that retained it), a
            node of a dataflow graph, lists, tuples and dicts of them, a whole graph, or what
            `trace` returned.
        names: what to call leaves: a module, whose parameters have names, or a dict of values
            by name.
        limit: draw at most so many boxes, those nearest to `value`; what has more cannot be
            stepped through, but a dataflow graph still has its passes and its memory.
        feed_dict, session: how to run a node, for its numbers and tokens.
    Raises:
        ArgumentError: none of these; an empty graph; or `limit` below 1.
    """
    roots = roots_in(value)
    check_limit("show", limit)
    called = names_by_id(names)
    drawing = trace.draw(roots, called, limit)
    views: list[Callable[[], Scene]] = []
    if not drawing.hidden:
        views.append(lambda: scene_of(record(roots[0], called, LIMIT, feed_dict, session)))
    if isinstance(roots[0], Node):
        nodes = [node for node in roots if isinstance(node, Node)]
        if not drawing.hidden:
            views.append(lambda: follow_tokens(nodes, feed_dict, session, limit=LIMIT))
        views.append(lambda: map_memory(nodes, feed_dict))
        if len(needed(nodes, ())) <= MOST:
            views.append(lambda: compare_passes(nodes, limit=LIMIT))
    return Picture(drawing, lambda: [scene for view in views if (scene := _possible(view))])


def _possible(view: Callable[[], Scene]) -> Scene | None:
    """Return a scene; None for a graph that lacks what it shows, a feed or a known size say."""
    try:
        return view()
    except MinitorchError:
        return None
