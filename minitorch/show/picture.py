"""`show`: a picture of how a value came to be, for the notebook, the terminal or a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitorch.show import trace
from minitorch.show.asked import check_limit, names_by_id, roots_in
from minitorch.show.drawing import Drawing
from minitorch.show.notebook import bundle, has_kernel
from minitorch.show.scene import Scene
from minitorch.show.svg import render

if TYPE_CHECKING:
    from minitorch.graph.core.node import Node
    from minitorch.graph.core.session import Session


class Picture:
    """A drawing that a notebook shows as SVG and a terminal prints as text.

    In a notebook with a kernel it is the player instead, with a tab for each of `scenes`.

    Attributes:
        drawing: the boxes and arrows.
    """

    def __init__(
        self, drawing: Drawing, scenes: Callable[[], Sequence[Scene]] = lambda: ()
    ) -> None:
        self.drawing = drawing
        self._scenes = scenes

    @cached_property
    def scenes(self) -> tuple[Scene, ...]:
        """What can be stepped through: the computation; of a node also tokens, memory, passes."""
        return tuple(self._scenes())

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        return render(self.drawing)

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
    limit: int = 80,
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

    def scenes() -> Sequence[Scene]:
        from minitorch.show.explore import explore

        return explore(roots, called, feed_dict, session, large=bool(drawing.hidden))

    return Picture(drawing, scenes)
