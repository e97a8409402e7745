"""`show`: a picture of how a value came to be, for the notebook, the terminal or a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.op import Value
from minitorch.show import trace
from minitorch.show.drawing import Drawing
from minitorch.show.svg import render


class Picture:
    """A drawing that a notebook shows as SVG and a terminal prints as text.

    Attributes:
        drawing: the boxes and arrows.
    """

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing

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

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.text}

    def __repr__(self) -> str:
        return self.text


def show(value: Any, *, names: Any = None, limit: int = 80) -> Picture:
    """Return a picture of the operators behind `value`, with shapes, numbers and gradients.

    Args:
        value: a tensor (before backward has freed its graph, or after one that retained it), a
            node of a dataflow graph, or a list of them.
        names: what to call leaves: a module, whose parameters have names, or a dict of values
            by name.
        limit: draw at most so many boxes, those nearest to `value`.
    Raises:
        ArgumentError: not a tensor nor a node; or `limit` below 1.
    """
    roots = list(value) if isinstance(value, list | tuple) else [value]
    for root in roots:
        if not isinstance(root, Value):
            raise ArgumentError(
                f"show: got {type(root).__name__}, expected a tensor or a node of a graph."
            )
    if limit < 1:
        raise ArgumentError(f"show: got limit {limit}, expected 1 or more.")
    return Picture(trace.draw(roots, _names(names), limit))


def _names(names: Any) -> dict[int, str]:
    if names is None:
        return {}
    if hasattr(names, "named_parameters"):
        names = dict(names.named_parameters())
    if not isinstance(names, Mapping):
        raise ArgumentError(
            f"show: got names of type {type(names).__name__}, expected a module or a dict."
        )
    return {id(value): name for name, value in names.items()}
